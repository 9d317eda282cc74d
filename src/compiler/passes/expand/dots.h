// The parts of canonicalize-dots and canonicalize-convolutions: types, dots that are more than a
// dot, convolutions that are less than one.
#pragma once

#include "base/dtype.h"
#include "base/error.h"
#include "compiler/passes/rewrite.h"
#include "hlo/instruction.h"

namespace weft::compiler {

// The types that a canonical dot has: both operands of one, none narrower than a byte or an 8-bit
// float, neither pred. Conversions to them are exact, for integers modulo the result's range.
struct DotTypes {
  DType operands, result;
};
DotTypes DotTypesFor(DType lhs, DType rhs, DType result);

// Put dots (and masks, or scales) in the place of the op; true.
Result<bool> ExpandRaggedDot(hlo::Instruction* dot, ScalarFunctions& functions);
Result<bool> ExpandScaledDot(hlo::Instruction* dot);
// A convolution of few products an element becomes slices and sums; false: it is another one.
Result<bool> ConvolutionToSums(hlo::Instruction* conv);

}  // namespace weft::compiler
