// The custom calls that HLO itself gives a meaning to.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/evaluate.h"
#include "hlo/instruction.h"

namespace weft::hlo {

// The value, or nullopt when the target has no such meaning (or not for these shapes).
Result<std::optional<Literal>> EvaluateKnownCustomCall(EvalContext& context,
                                                       const Instruction& instruction,
                                                       std::span<Literal> operands);

// Whether there is such a meaning for a target at all.
bool IsKnownCustomCall(std::string_view target);

// The values and s32 indices of the k largest (or smallest) elements of the last dimension, best
// first, equal ones by index. Floats in total order.
Result<Literal> TopElements(const Literal& operand, int64_t k, bool largest);

}  // namespace weft::hlo
