// The gradient of attention as autodiff writes it, by what it computes: with E = exp(S - max(S)),
// L = sum(E), W = E / L and G = dout V^T, the products W V, W^T dout, dS K and dS^T Q where
// dS = scale * W (G - sum(W G)), masked as S is.
#pragma once

#include <map>
#include <string_view>

#include "compiler/passes/recognize/attention_match.h"

namespace weft::compiler {

// The product that a gradient is, by the axes of E.
struct GradientProduct {
  hlo::Instruction* dot = nullptr;  // null: there is none
  AxisList out;
};

struct GradientPattern {
  AttentionPattern attention;  // its product is null where W V is not computed
  AxisView dout;
  GradientProduct dq, dk, dv;
};

struct GradientVerdict {
  std::string_view why_not;      // empty: it is one
  bool is_worth_a_word = false;  // a refusal
  GradientPattern pattern;
};
GradientVerdict MatchGradientAt(hlo::Instruction* exponential);

}  // namespace weft::compiler
