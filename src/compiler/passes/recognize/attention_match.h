// The pattern of attention as people write it, softmax(scale * Q K^T + bias, masked) V.
#pragma once

#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/passes/recognize/axes.h"

namespace weft::compiler {

struct AttentionPattern {
  hlo::Instruction* product = nullptr;  // with V
  int key = -2, depth = 0, values = 0;  // axes
  AxisView q, k, v;
  std::optional<AxisView> bias;
  Conjunction mask;
  std::vector<Conjunction::Term> selects;  // whose conjunction it is, behind broadcasts
  std::optional<double> fill;
  double scale = 1;
  AxisList out;  // of the product
};

// Whether the product of weights, the operand of that number, and values is the end of one.
struct AttentionVerdict {
  std::string_view why_not;  // empty: it is
  bool has_softmax = false;  // a refusal is worth a word
  AttentionPattern pattern;
};
AttentionVerdict MatchAttentionAt(hlo::Instruction* product, int64_t weights);

// The same from exp(S - max(S)) up: everything but the product and V, by the axes of the
// exponentials. `inside` gets what is part of it. Empty: it is one, else why not.
std::string_view MatchExponentials(hlo::Instruction* exponential, AttentionPattern& pattern,
                                   std::set<hlo::Instruction*>& inside);

// The operands of a product with their axes, by those of its result; contracted ones are `inner`.
struct ProductViews {
  AxisView lhs, rhs;
};
ProductViews OperandViews(hlo::Instruction* dot, const AxisList& result, int inner);

// The product of what has these axes, the operand of that number, with something else, which has
// one more dimension, `more`.
struct Contraction {
  AxisView other;
  AxisList contracted, out;
};
std::optional<Contraction> ContractionOf(hlo::Instruction* dot, int64_t side, const AxisList& axes,
                                         int more);

bool IsAttentionFloat(DType dtype);
// Products that take f32 numbers made of narrower ones take those.
AxisView BehindWidening(AxisView view);

}  // namespace weft::compiler
