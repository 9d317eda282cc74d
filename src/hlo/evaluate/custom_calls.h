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

// Whether a custom call of this target is its first operand (where the shapes are the same).
bool IsIdentityCustomCall(std::string_view target);
// The op that a target is another name of: "mhlo.asin", "chlo.erf".
std::optional<Op> OpOfCustomCall(std::string_view target);

// Which elements a custom call for the top k (TopK, mhlo.topk, ApproxTopK, ...) asks for; nullopt
// for other targets and forms.
struct TopKCall {
  int64_t dimension = 0;
  bool largest = true;
};
std::optional<TopKCall> TopKOfCustomCall(const Instruction& call);

// The integer after `key =` or `"key":` in the call's configuration (JSON, or an MLIR dictionary).
std::optional<int64_t> ConfigIntOfCustomCall(const Instruction& call, std::string_view key);

// The values and s32 indices of the k largest (or smallest) elements of the last dimension, best
// first, equal ones by index. Floats in total order.
Result<Literal> TopElements(const Literal& operand, int64_t k, bool largest);

}  // namespace weft::hlo
