// The custom calls "weft.attention" and "weft.attention_gradient" (hlo/attention_call.h).
#pragma once

#include <span>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/evaluate.h"
#include "hlo/instruction.h"

namespace weft::hlo {

Result<Literal> EvaluateAttention(EvalContext& context, const Instruction& call,
                                  std::span<Literal> operands);
Result<Literal> EvaluateAttentionGradient(EvalContext& context, const Instruction& call,
                                          std::span<Literal> operands);

}  // namespace weft::hlo
