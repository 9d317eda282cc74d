#include "hlo/evaluate/contract.h"

#include <algorithm>

namespace weft::hlo {

Result<Literal> EvaluateDot(EvalContext&, const Instruction&, std::span<Literal>) {
  return Unimplemented("not yet evaluated");
}
Result<Literal> EvaluateScaledDot(EvalContext&, const Instruction&, std::span<Literal>) {
  return Unimplemented("not yet evaluated");
}
Result<Literal> EvaluateRaggedDot(EvalContext&, const Instruction&, std::span<Literal>) {
  return Unimplemented("not yet evaluated");
}

RaggedMode RaggedModeOf(const RaggedDotAttrs& attrs) {
  auto has = [&](const Ints& dims) {
    return std::find(dims.begin(), dims.end(), attrs.lhs_ragged_dims[0]) != dims.end();
  };
  if (has(attrs.lhs_batch_dims)) return RaggedMode::kBatch;
  return has(attrs.lhs_contracting_dims) ? RaggedMode::kContracting : RaggedMode::kFree;
}

Ints RaggedPrefixDims(const RaggedDotAttrs& attrs, int64_t lhs_rank, RaggedMode mode) {
  int64_t ragged = attrs.lhs_ragged_dims[0];
  Ints prefix;
  auto append_until_ragged = [&](const Ints& dims) {
    for (int64_t d : dims) {
      if (d == ragged) return;
      prefix.push_back(d);
    }
  };
  append_until_ragged(attrs.lhs_batch_dims);
  if (mode == RaggedMode::kContracting) append_until_ragged(attrs.lhs_contracting_dims);
  if (mode != RaggedMode::kFree) return prefix;
  Ints free;
  for (int64_t d = 0; d < lhs_rank; ++d) {
    auto has = [&](const Ints& dims) {
      return std::find(dims.begin(), dims.end(), d) != dims.end();
    };
    if (!has(attrs.lhs_batch_dims) && !has(attrs.lhs_contracting_dims)) free.push_back(d);
  }
  append_until_ragged(free);
  return prefix;
}

}  // namespace weft::hlo
