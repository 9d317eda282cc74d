// A kernel as one LLVM function:
//   define LINKAGE void @NAME(ptr noalias %p0, ..., i64 %begin, i64 %end)
// or, as a task, with the parameters' addresses in an array,
//   define void @NAME(ptr %parameters, i64 %begin, i64 %end)
// [begin, end) is a range of the flattened parallel nest, the innermost loop fastest; a kernel
// without one ignores it. The kernel must verify.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cpu/render/ir_text.h"
#include "program/kernel.h"

namespace weft::cpu {

struct KernelText {
  std::string_view name;
  std::string_view linkage = "internal";
  std::string_view attributes = "#0";  // of the function
  bool outline = false;                // repeated code becomes functions (outline.h)
  bool task = false;
  bool indices = false;  // are strength-reduced (strength_reduction.h)
  // Of a kernel in a loop: recurrence depths of what its memories hold (Use::depth).
  std::span<const int64_t> depths = {};
};
void RenderKernel(const program::Kernel& kernel, const KernelText& how, const RenderTarget& target,
                  IrMetadata& metadata, std::string& out);

}  // namespace weft::cpu
