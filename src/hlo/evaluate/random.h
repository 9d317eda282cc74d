// Evaluation of the random number ops; signatures as in OpRow.
#pragma once

#include <span>

#include "base/counter_random.h"
#include "base/error.h"
#include "base/literal.h"
#include "hlo/fwd.h"

namespace weft::hlo {

class EvalContext;

Result<Literal> EvaluateRng(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateRngBitGenerator(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateRngGetAndUpdateState(EvalContext&, const Instruction&, std::span<Literal>);

}  // namespace weft::hlo
