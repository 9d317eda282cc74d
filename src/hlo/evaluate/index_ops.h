// Evaluation of gather and scatter; signatures as in OpRow.
#pragma once

#include <span>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/fwd.h"

namespace weft::hlo {

class EvalContext;

Result<Literal> EvaluateGather(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateScatter(EvalContext&, const Instruction&, std::span<Literal>);

}  // namespace weft::hlo
