// Outlining of slow paths: what lanes hardly ever need, such as the sine of a number beyond 2^16,
// becomes a cold function that the kernel calls, which goes through the lanes a few at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cpu/render/ir_text.h"
#include "program/kernel.h"

namespace weft::cpu {

// The kernel's parameters are arrays of one element a lane: inputs, then outputs.
struct SlowPath {
  program::Kernel kernel;
  std::vector<program::ValueId> inputs, outputs;  // of the kernel that it is part of
};

// The first block of the unlikely `if` at `at`, whose `else` is at `other`, if the block is long
// and does the same to every lane.
std::optional<SlowPath> FindSlowPath(const program::Kernel& kernel, size_t at, size_t other);

// The calls of one kernel: arguments go through memory of its stack.
class SlowPathCalls {
 public:
  // `names`: of the kernel's values; gains those of the outputs.
  void Render(const program::Kernel& kernel, const SlowPath& part, const RenderTarget& target,
              IrMetadata& metadata, IrBody& ir, std::vector<std::string>& names);
  const std::string& entry() const { return entry_; }  // what the function begins with

 private:
  std::string Argument(size_t n);
  std::string entry_;
  size_t arguments_ = 0;
};

}  // namespace weft::cpu
