// The steps of a plan, run one by one on the slots of a frame.
#pragma once

#include "base/error.h"
#include "base/literal.h"
#include "base/shape.h"
#include "hlo/fwd.h"

namespace weft::hlo {

class EvalContext;
struct EvalFrame;
struct EvalPlan;
struct EvalStep;

// Whether a value has the types and sizes of a shape (layouts and dynamic-ness ignored).
bool HasForm(const Literal& value, const Shape& shape);

// Float arrays of another precision than the shape's are converted (mixed precision is accepted by
// the verifier); anything else is an error.
Status MakeForm(Literal& value, const Shape& shape);

// Reads the operands from their slots, which they leave at their last use, and fills the result's.
Status RunStep(EvalContext& context, const EvalPlan& plan, const EvalStep& step, EvalFrame& frame);

}  // namespace weft::hlo
