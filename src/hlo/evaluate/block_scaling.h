// Custom calls of block-scaled numbers (__op$block_scaled_dot, __op$quantize, __op$dequantize).
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/evaluate.h"
#include "hlo/instruction.h"

namespace weft::hlo {

bool IsBlockScalingCall(std::string_view target);

// [batch, m, k] by [batch, n, k] (or without batch). A scale covers `block` elements along k; the
// last one may cover fewer. Scales beyond the operand are ignored.
struct BlockScaledForm {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t lhs_block = 1, rhs_block = 1;
};
// (lhs, rhs, lhs scale [, rhs scale [, global scale]]); an error says what does not fit.
Result<BlockScaledForm> BlockScaledFormOf(const Instruction& call);
// value -> (data, scale), and (data, scale) -> value.
Status CheckQuantize(const Instruction& call);
Status CheckDequantize(const Instruction& call);

// The largest power of two that a format of at most 8 bits holds: what the largest element of a
// block is scaled to.
double LargestPowerOf(DType dtype);

Result<Literal> EvaluateBlockScaling(EvalContext& context, const Instruction& call,
                                     std::span<Literal> operands);

}  // namespace weft::hlo
