// Shape rules and checks that synchronous collectives share with their start forms.
#pragma once

#include "base/error.h"
#include "base/shape.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

// The shape of the value, without what a start form wraps around it. `declared` is that of the
// value.
Result<Shape> InferGathered(const InferArgs& args, const Shape* declared);
Result<Shape> InferReduced(const InferArgs& args);   // one result per operand, of its shape
Result<Shape> InferPermuted(const InferArgs& args);  // also the in-place form

// Replica groups: ids from 0 without gaps or repetition, as many as the module has, of one size
// where `uniform`; group size against the sizes of operands and results where the op has such.
Status CheckGroups(const Instruction& instruction);
// Source-target pairs: in range, no source or target twice; operands of the in-place form.
Status CheckPermute(const Instruction& instruction);

}  // namespace weft::hlo
