// The custom call "weft.attention": scaled dot-product attention as one op. Operands are q, k, v
// and, where there are any, a bias of floats and a mask of pred; the backend config says the rest:
//
//   {"spec":"bthd,bshd,bshv,hts->bthv","scale":0.125,"fill":-1e30,"last":0}
//
// The spec has a letter for each dimension of q, k, v, the bias, the mask, and of the result:
// 's' keys, 'd' depth, 'v' values, any other one an axis of the result (batches, heads, positions),
// which other operands have or not; '1' a dimension of size 1. With w the weights
//   score = scale * sum over d of q k + bias, or fill where the mask is false,
//   result = sum over s of exp(score - max) v / sum over s of exp(score - max).
// With p the index along 't', the mask is false too where s < p + first or s > p + last. A fill
// that is not given is -inf. Scores are f32; weights are f32 until they are summed.
//
// A tuple of two as its result has the statistics of the rows beside it, f32 [axes of the result in
// order..., 2]: the largest score, and 1 over the sum of the weights.
//
// The custom call "weft.attention_gradient" is what autodiff makes of it. Operands are those of the
// attention, then its result, statistics, and the gradient of the result; the spec has letters for
// all of them but the statistics, and for a tuple of the gradients of q, k and v, of which some may
// be left out: "bthd,bshd,bshv,hts,bthv,bthv->bthd,,bshv". With w[s] = exp(score - max) / sum,
//   dw = sum over v of dout v,  ds = w (dw - sum over v of dout out), 0 where the mask is false,
//   dq = scale * sum of ds k,  dk = scale * sum of ds q,  dv = sum of w dout,
// over the axes that each does not have.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hlo/instruction.h"

namespace weft::hlo {

inline constexpr std::string_view kAttentionTarget = "weft.attention";
inline constexpr std::string_view kAttentionGradientTarget = "weft.attention_gradient";

struct AttentionCall {
  std::string q, k, v, bias, mask, out;  // letters; no bias, no mask: empty
  bool has_bias = false, has_mask = false;
  bool has_statistics = false;  // as a second result
  bool is_gradient = false;     // then these have letters, gradients left out have none
  std::string dout, dq, dk, dv;
  double scale = 1, fill = -std::numeric_limits<double>::infinity();
  std::optional<int64_t> first, last;

  std::string axes() const;  // letters of the result but 'v' and '1', in order
  int64_t bias_operand() const { return 3; }
  int64_t mask_operand() const { return 3 + has_bias; }
  int64_t out_operand() const { return 3 + has_bias + has_mask; }  // of a gradient
};

bool IsAttentionCall(const Instruction& call);  // or its gradient
std::string ConfigOfAttention(const AttentionCall& call);
// An error says what does not fit: letters, sizes, types.
Result<AttentionCall> AttentionCallOf(const Instruction& call);

// The shape of the attention's result, which a gradient has as an operand.
const Shape& AttentionResult(const AttentionCall& call, const Instruction& i);
// Of the statistics of its rows.
Shape StatisticsShape(const AttentionCall& call, const Shape& out);

// Elements from one to the next along a letter, row-major; 0: the array does not have it.
int64_t StrideAlong(std::string_view letters, const Shape& shape, char letter);
// The size of a letter; 0: the array does not have it.
int64_t SizeAlong(std::string_view letters, const Shape& shape, char letter);

}  // namespace weft::hlo
