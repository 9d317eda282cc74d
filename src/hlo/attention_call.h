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
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hlo/instruction.h"

namespace weft::hlo {

inline constexpr std::string_view kAttentionTarget = "weft.attention";

struct AttentionCall {
  std::string q, k, v, bias, mask, out;  // letters; no bias, no mask: empty
  bool has_bias = false, has_mask = false;
  double scale = 1, fill = -std::numeric_limits<double>::infinity();
  std::optional<int64_t> first, last;

  std::string axes() const;  // letters of the result but 'v' and '1', in order
};

bool IsAttentionCall(const Instruction& call);
std::string ConfigOfAttention(const AttentionCall& call);
// An error says what does not fit: letters, sizes, types.
Result<AttentionCall> AttentionCallOf(const Instruction& call);

// Elements from one to the next along a letter, row-major; 0: the array does not have it.
int64_t StrideAlong(std::string_view letters, const Shape& shape, char letter);
// The size of a letter; 0: the array does not have it.
int64_t SizeAlong(std::string_view letters, const Shape& shape, char letter);

}  // namespace weft::hlo
