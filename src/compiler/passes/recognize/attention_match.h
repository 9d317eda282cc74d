// The pattern of attention as people write it, softmax(scale * Q K^T + bias, masked) V.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/passes/recognize/axes.h"

namespace weft::compiler {

struct AttentionPattern {
  hlo::Instruction* product = nullptr;  // with V
  int key = -2, depth = 0, values = 0;  // axes
  AxisView q, k, v;
  std::optional<AxisView> bias;
  Conjunction mask;
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

}  // namespace weft::compiler
