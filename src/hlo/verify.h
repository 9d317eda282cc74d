// The rules every module keeps. Each rule has a test in test/verify/.
#pragma once

#include <vector>

#include "base/error.h"
#include "hlo/module.h"

namespace weft::hlo {

struct VerifyOptions {
  bool layout_sensitive =
      false;  // layouts of operands and results must agree where ops need them to
  bool allow_mixed_precision =
      true;  // float operands of different widths are accepted where XLA accepts them
};

// The first violated rule, or success. The error names the instruction, the shapes and the source
// line.
Status Verify(const Module& module, const VerifyOptions& options = {});

// The result shape of an op (layouts unset) from operand shapes and attributes; also checks arity.
Result<Shape> InferShape(Op op, std::span<const Shape* const> operands, const Attrs& attrs,
                         const Shape* declared = nullptr);

}  // namespace weft::hlo
