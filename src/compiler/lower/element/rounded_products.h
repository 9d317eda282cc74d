// Products that are rounded before something is added to them. `a * b - c` may be one fused
// multiply-add, which takes the product as it is, unrounded; where c was made from the rounded
// product (its maximum, its floor), the difference would no longer be that of the two: a softmax of
// 3 * x would take exponentials of numbers above 0, a fractional part would be negative.
#pragma once

#include "compiler/lower/element/context.h"

namespace weft::compiler {

// Whether the product of floats is added to what a maximum, a minimum or a rounding gives.
bool IsRoundedApart(const ElementContext& e, const hlo::Instruction& product);

}  // namespace weft::compiler
