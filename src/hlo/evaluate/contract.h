// Evaluation of dot, scaled-dot, ragged-dot and convolution; signatures as in OpRow.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/attrs.h"
#include "hlo/fwd.h"

namespace weft::hlo {

class EvalContext;

Result<Literal> EvaluateDot(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateScaledDot(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateRaggedDot(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateConvolution(EvalContext&, const Instruction&, std::span<Literal>);

// The array with its dimensions in another order, dense and static: elements beyond run-time sizes
// are 0, so that they do not count in sums.
Result<Literal> Permuted(const EvalContext&, Literal value, std::span<const int64_t> order);
void ZeroBeyondDynamicSizes(Literal& value);

// Of which kind the ragged dimension is.
enum class RaggedMode : uint8_t {
  kFree,         // [b,m,k], [g,b,k,n], sizes [b,g] -> [b,m,n]
  kContracting,  // [b,m,k], [b,k,n],   sizes [b,g] -> [g,b,m,n]
  kBatch,        // [b,m,k], [b,k,n],   sizes [g]   -> [b,m,n]
};
RaggedMode RaggedModeOf(const RaggedDotAttrs& attrs);
// The dimensions of lhs that group sizes of full rank have before the group dimension.
Ints RaggedPrefixDims(const RaggedDotAttrs& attrs, int64_t lhs_rank, RaggedMode mode);

}  // namespace weft::hlo
