// What a reduction is: its reducer as one operation, its dimensions, those kept and those reduced.
#include <cmath>
#include <limits>

#include "compiler/lower/reduce.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;

std::optional<PlainReducer> AsPlainReducer(const hlo::Computation& computation, DType dtype,
                                           int64_t leaf) {
  const Instruction* root = computation.root();
  int64_t count = 1;
  if (root->op() == HloOp::kTuple) {
    count = root->operand_count();
    root = root->operand(leaf);
  }
  if (static_cast<int64_t>(computation.parameters().size()) != 2 * count ||
      root->operand_count() != 2) {
    return std::nullopt;
  }
  // The leaf's own accumulator and value, in either order.
  const Instruction *x = root->operand(0), *y = root->operand(1);
  if (!x->IsParameter() || !y->IsParameter() || x == y) return std::nullopt;
  if (std::min(x->parameter_number(), y->parameter_number()) != leaf ||
      std::max(x->parameter_number(), y->parameter_number()) != leaf + count) {
    return std::nullopt;
  }
  if (IsComplex(dtype) || root->shape().dtype() != dtype) return std::nullopt;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  bool floats = IsFloat(dtype), pred = dtype == DType::kPred;
  switch (root->op()) {
    case HloOp::kAdd: return PlainReducer{pred ? Op::kOr : Op::kAdd, floats ? -0.0 : 0};
    case HloOp::kMultiply: return PlainReducer{pred ? Op::kAnd : Op::kMul, 1};
    case HloOp::kMaximum:
      if (pred) return PlainReducer{Op::kOr, 0};
      if (floats) return PlainReducer{Op::kMax, -kInf};
      return std::nullopt;
    case HloOp::kMinimum:
      if (pred) return PlainReducer{Op::kAnd, 1};
      if (floats) return PlainReducer{Op::kMin, kInf};
      return std::nullopt;
    case HloOp::kOr: return PlainReducer{Op::kOr, 0};
    case HloOp::kXor: return PlainReducer{Op::kXor, 0};
    case HloOp::kAnd:
      if (IsUnsigned(dtype) && BitWidth(dtype) > 32) return std::nullopt;  // no double
      if (IsUnsigned(dtype)) return PlainReducer{Op::kAnd, std::ldexp(1.0, BitWidth(dtype)) - 1};
      return PlainReducer{Op::kAnd, pred ? 1.0 : -1.0};
    default: return std::nullopt;
  }
}

ReduceDims SplitDims(const Instruction& reduce) {
  ReduceDims split;
  const Dims& from = reduce.operand(0)->shape().dims();
  const auto& dimensions = reduce.attrs<hlo::ReduceAttrs>().dimensions;
  for (size_t d = 0; d < from.size(); ++d) {
    bool is_reduced = std::find(dimensions.begin(), dimensions.end(), static_cast<int64_t>(d)) !=
                      dimensions.end();
    (is_reduced ? split.reduced : split.kept).push_back(static_cast<int64_t>(d));
    (is_reduced ? split.reduced_sizes : split.kept_sizes).push_back(from[d]);
    (is_reduced ? split.length : split.rows) *= from[d];
    if (from[d] > 1) split.minor = is_reduced;
  }
  // Few columns: lanes are better off along the rows, at a distance of each other.
  constexpr int64_t kLongRow = 2 * program::TargetFacts::kUsualLanes;
  int64_t columns = 1;
  for (size_t d = from.size(); d-- > 0 && !split.minor;) {
    bool is_reduced = std::find(split.reduced.begin(), split.reduced.end(),
                                static_cast<int64_t>(d)) != split.reduced.end();
    if (is_reduced && from[d] > 1) {
      split.minor = columns <= kLeastRowElements && from[d] >= kLongRow;
      break;
    }
    if (!is_reduced) columns *= from[d];
  }
  return split;
}

KeptTogether KeptInside(const ReduceDims& dims) {
  constexpr int64_t kMostTogether = program::CodeBounds::kCopies;  // results beside each other
  KeptTogether together;
  for (size_t k = 0; k < dims.kept.size(); ++k) {
    if (dims.reduced.empty() || dims.kept[k] < dims.reduced.back() || dims.kept_sizes[k] == 1) {
      continue;
    }
    if (together.dimension >= 0 || dims.kept_sizes[k] > kMostTogether) return {};
    together = {dims.kept[k], dims.kept_sizes[k]};
  }
  return together;
}

}  // namespace weft::compiler
