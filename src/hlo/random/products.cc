// Random products: results of a wider type than the operands, rows in groups, scaled blocks.
#include <algorithm>

#include "hlo/random/maker.h"

namespace weft::hlo::random {

// [batch..., m, k] by [batch..., k, n], with the result in a type of its own.
void Maker::TypedDotAny(Scope& scope) {
  if (edges_) return;
  constexpr DType kTypes[][2] = {
      {DType::kS8, DType::kS32},       {DType::kU8, DType::kS32},     {DType::kS4, DType::kS32},
      {DType::kBF16, DType::kF32},     {DType::kF16, DType::kF32},    {DType::kS16, DType::kS32},
      {DType::kF8E4M3FN, DType::kF32}, {DType::kF8E5M2, DType::kF32}, {DType::kF32, DType::kF64},
      {DType::kU4, DType::kS32},       {DType::kS8, DType::kF32},     {DType::kBF16, DType::kF64}};
  const auto& types = kTypes[dice_.Below(std::size(kTypes))];
  int64_t m = AnySize(), k = dice_.Between(1, 40), n = dice_.Between(1, 24);
  bool batched = dice_.Chance(30);
  DotAttrs attrs;
  Dimensions left, right, result;
  if (batched) {
    attrs.lhs_batch_dims = attrs.rhs_batch_dims = {0};
    left = right = result = {dice_.Between(1, 3)};
  }
  auto first = static_cast<int64_t>(left.size());
  bool transposed = dice_.Chance(50);
  left.insert(left.end(), {m, k});
  right.insert(right.end(), {transposed ? n : k, transposed ? k : n});
  result.insert(result.end(), {m, n});
  attrs.lhs_contracting_dims = {first + 1};
  attrs.rhs_contracting_dims = {first + (transposed ? 1 : 0)};
  Value x = Like(scope, types[0], Dims(left), true), y = Like(scope, types[0], Dims(right), true);
  if (!IsUsable(x) || !IsUsable(y)) return;
  Known known = Product(x, y);
  known.error = 0;  // products are exact in the wider type, or wrap
  Known sum = Folded(known, types[1], static_cast<double>(k));
  if (!known.whole || sum.magnitude > LargestExact(types[1])) {
    sum.error = static_cast<double>(k) * Epsilon(types[1]) * sum.magnitude;
    sum.whole = IsInteger(types[1]);
  }
  if (IsInteger(types[1])) sum = Unknown(types[1]);
  Shape shape = ArrayShape(types[1], result);
  Instruction* operands[] = {x.at, y.at};
  Push(scope, scope.builder().Add(Op::kDot, operands, attrs, &shape), sum);
}

// Rows of [m, k] in groups, each by a matrix of its own.
void Maker::RaggedDotAny(Scope& scope) {
  if (edges_) return;
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kS32, DType::kBF16};
  DType t = dice_.Of(kTypes);
  int64_t m = dice_.Between(1, 12), k = dice_.Between(1, 9), n = dice_.Between(1, 9);
  int64_t groups = dice_.Between(1, 4);
  bool contracting = dice_.Chance(40);
  Dimensions right = {contracting ? k : groups, contracting ? n : k};
  if (!contracting) right.push_back(n);
  const int64_t left[] = {m, k}, sizes[] = {groups};
  Value x = Like(scope, t, Dims(left), true), y = Like(scope, t, Dims(right), true);
  Value counts = Like(scope, DType::kS32, Dims(sizes), true);
  if (!IsUsable(x) || !IsUsable(y)) return;
  RaggedDotAttrs attrs;
  attrs.lhs_contracting_dims = {1};
  attrs.rhs_contracting_dims = {contracting ? 0 : 1};
  attrs.lhs_ragged_dims = {contracting ? 1 : 0};
  if (!contracting) attrs.rhs_group_dims = {0};
  // No negative sizes.
  auto zero = scope.builder().Fill(counts.shape(), 0);
  auto some = scope.builder().Add(Op::kMaximum, {counts.at, *zero});
  if (!some) return;
  Known sum = Folded(Product(x, y), t, static_cast<double>(k));
  if (IsFloat(t) && (!sum.whole || sum.error > 0)) {
    sum.error = std::max(sum.error, static_cast<double>(k) * Epsilon(t) * sum.magnitude);
  }
  Push(scope, scope.builder().Add(Op::kRaggedDot, {x.at, y.at, *some}, attrs), sum);
}

// Blocks of the contracting dimension have a scale each.
void Maker::ScaledDotAny(Scope& scope) {
  if (edges_) return;
  constexpr DType kTypes[] = {DType::kF8E4M3FN, DType::kF8E5M2, DType::kBF16, DType::kF4E2M1FN};
  DType t = dice_.Of(kTypes);
  int64_t m = dice_.Between(1, 9), n = dice_.Between(1, 9), blocks = dice_.Between(1, 3);
  int64_t k = blocks * dice_.Between(1, 6);
  const int64_t left[] = {m, k}, right[] = {k, n}, scales[] = {m, blocks};
  Value x = Like(scope, t, Dims(left), true), y = Like(scope, t, Dims(right), true);
  if (!IsUsable(x) || !IsUsable(y)) return;
  Value scale = NewConstant(scope, ArrayShape(DType::kBF16, scales));
  Value none = Scalar(scope, DType::kBF16, 1);
  DotAttrs attrs;
  attrs.lhs_contracting_dims = {1};
  attrs.rhs_contracting_dims = {0};
  Known sum = Unknown(DType::kF32);
  double count = static_cast<double>(k);
  sum.magnitude = count * x.known.magnitude * y.known.magnitude * scale.known.magnitude;
  sum.whole = false;
  sum.error = (count + 2) * Epsilon(DType::kBF16) * sum.magnitude;
  Shape shape(DType::kF32, {m, n});
  Instruction* operands[] = {x.at, y.at, scale.at, none.at};
  Push(scope, scope.builder().Add(Op::kScaledDot, operands, attrs, &shape), sum);
}

}  // namespace weft::hlo::random
