// Random products: results of a wider type than the operands, rows in groups, scaled blocks;
// convolutions.
#include <algorithm>

#include "hlo/random/maker.h"

namespace weft::hlo::random {

// [batch..., m, k] by [batch..., k, n], with the result in a type of its own.
void TypedDotAny(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  constexpr DType kTypes[][2] = {
      {DType::kS8, DType::kS32},       {DType::kU8, DType::kS32},     {DType::kS4, DType::kS32},
      {DType::kBF16, DType::kF32},     {DType::kF16, DType::kF32},    {DType::kS16, DType::kS32},
      {DType::kF8E4M3FN, DType::kF32}, {DType::kF8E5M2, DType::kF32}, {DType::kF32, DType::kF64},
      {DType::kU4, DType::kS32},       {DType::kS8, DType::kF32},     {DType::kBF16, DType::kF64}};
  const auto& types = kTypes[maker.dice.Below(std::size(kTypes))];
  int64_t m = maker.AnySize(), k = maker.dice.Between(1, 40), n = maker.dice.Between(1, 24);
  bool batched = maker.dice.Chance(30);
  DotAttrs attrs;
  Dimensions left, right, result;
  if (batched) {
    attrs.lhs_batch_dims = attrs.rhs_batch_dims = {0};
    left = right = result = {maker.dice.Between(1, 3)};
  }
  auto first = static_cast<int64_t>(left.size());
  bool transposed = maker.dice.Chance(50);
  left.insert(left.end(), {m, k});
  right.insert(right.end(), {transposed ? n : k, transposed ? k : n});
  result.insert(result.end(), {m, n});
  attrs.lhs_contracting_dims = {first + 1};
  attrs.rhs_contracting_dims = {first + (transposed ? 1 : 0)};
  Value x = maker.Like(scope, types[0], Dims(left), true),
        y = maker.Like(scope, types[0], Dims(right), true);
  if (!maker.IsUsable(x) || !maker.IsUsable(y)) return;
  Known known = maker.Product(x, y);
  known.error = 0;  // products are exact in the wider type, or wrap
  Known sum = maker.Folded(known, types[1], static_cast<double>(k));
  if (!known.whole || sum.magnitude > LargestExact(types[1])) {
    sum.error = static_cast<double>(k) * Epsilon(types[1]) * sum.magnitude;
    sum.whole = IsInteger(types[1]);
  }
  if (IsInteger(types[1])) sum = maker.Unknown(types[1]);
  Shape shape = ArrayShape(types[1], result);
  Instruction* operands[] = {x.at, y.at};
  maker.Push(scope, scope.builder().Add(Op::kDot, operands, attrs, &shape), sum);
}

// Rows of [m, k] in groups, each by a matrix of its own.
void RaggedDotAny(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kS32, DType::kBF16};
  DType t = maker.dice.Of(kTypes);
  int64_t m = maker.dice.Between(1, 12), k = maker.dice.Between(1, 9), n = maker.dice.Between(1, 9);
  int64_t groups = maker.dice.Between(1, 4);
  bool contracting = maker.dice.Chance(40);
  Dimensions right = {contracting ? k : groups, contracting ? n : k};
  if (!contracting) right.push_back(n);
  const int64_t left[] = {m, k}, sizes[] = {groups};
  Value x = maker.Like(scope, t, Dims(left), true), y = maker.Like(scope, t, Dims(right), true);
  Value counts = maker.Like(scope, DType::kS32, Dims(sizes), true);
  if (!maker.IsUsable(x) || !maker.IsUsable(y)) return;
  RaggedDotAttrs attrs;
  attrs.lhs_contracting_dims = {1};
  attrs.rhs_contracting_dims = {contracting ? 0 : 1};
  attrs.lhs_ragged_dims = {contracting ? 1 : 0};
  if (!contracting) attrs.rhs_group_dims = {0};
  // No negative sizes.
  auto zero = scope.builder().Fill(counts.shape(), 0);
  auto some = scope.builder().Add(Op::kMaximum, {counts.at, *zero});
  if (!some) return;
  Known sum = maker.Folded(maker.Product(x, y), t, static_cast<double>(k));
  if (IsFloat(t) && (!sum.whole || sum.error > 0)) {
    sum.error = std::max(sum.error, static_cast<double>(k) * Epsilon(t) * sum.magnitude);
  }
  maker.Push(scope, scope.builder().Add(Op::kRaggedDot, {x.at, y.at, *some}, attrs), sum);
}

// Blocks of the contracting dimension have a scale each.
void ScaledDotAny(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  constexpr DType kTypes[] = {DType::kF8E4M3FN, DType::kF8E5M2, DType::kBF16, DType::kF4E2M1FN};
  DType t = maker.dice.Of(kTypes);
  int64_t m = maker.dice.Between(1, 9), n = maker.dice.Between(1, 9),
          blocks = maker.dice.Between(1, 3);
  int64_t k = blocks * maker.dice.Between(1, 6);
  const int64_t left[] = {m, k}, right[] = {k, n}, scales[] = {m, blocks};
  Value x = maker.Like(scope, t, Dims(left), true), y = maker.Like(scope, t, Dims(right), true);
  if (!maker.IsUsable(x) || !maker.IsUsable(y)) return;
  Value scale = maker.NewConstant(scope, ArrayShape(DType::kBF16, scales));
  Value none = maker.Scalar(scope, DType::kBF16, 1);
  DotAttrs attrs;
  attrs.lhs_contracting_dims = {1};
  attrs.rhs_contracting_dims = {0};
  Known sum = maker.Unknown(DType::kF32);
  double count = static_cast<double>(k);
  sum.magnitude = count * x.known.magnitude * y.known.magnitude * scale.known.magnitude;
  sum.whole = false;
  sum.error = (count + 2) * Epsilon(DType::kBF16) * sum.magnitude;
  Shape shape(DType::kF32, {m, n});
  Instruction* operands[] = {x.at, y.at, scale.at, none.at};
  maker.Push(scope, scope.builder().Add(Op::kScaledDot, operands, attrs, &shape), sum);
}

// Dimensions in any order, groups of features or of the batch, windows with every attribute.
void ConvolutionAny(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kF64, DType::kBF16,
                              DType::kS32, DType::kF16, DType::kC64, DType::kS8};
  DType t = maker.dice.Of(kTypes);
  constexpr int64_t kSpatial[] = {0, 1, 1, 2, 2, 3};
  int64_t spatial = maker.dice.Of(kSpatial), rank = spatial + 2;
  int64_t groups = maker.dice.Chance(25) ? 2 : 1;
  int64_t batch_groups = groups == 1 && maker.dice.Chance(20) ? 2 : 1;
  int64_t batch = batch_groups * maker.dice.Between(1, 3), in = groups * maker.dice.Between(1, 3);
  int64_t out = groups * batch_groups * maker.dice.Between(1, 4);
  ConvolutionAttrs attrs;
  attrs.feature_group_count = groups;
  attrs.batch_group_count = batch_groups;
  ConvDims& labels = attrs.dim_labels;
  labels.input_rank = labels.kernel_rank = labels.output_rank = rank;
  // Where the dimensions lie: batch and feature (of the kernel: of the input, of the result) first.
  Dimensions at[3];
  for (Dimensions& order : at) {
    bool plain = maker.dice.Chance(40);
    for (int64_t d = 0; d < rank; ++d) {
      order.insert(plain ? order.end() : order.begin() + maker.dice.Below(d + 1), d);
    }
  }
  labels.input_batch = at[0][0], labels.input_feature = at[0][1];
  labels.kernel_input = at[1][0], labels.kernel_output = at[1][1];
  labels.output_batch = at[2][0], labels.output_feature = at[2][1];
  Dimensions input(static_cast<size_t>(rank)), kernel(static_cast<size_t>(rank));
  auto set = [](Dimensions& dims, int64_t d, int64_t size) { dims[static_cast<size_t>(d)] = size; };
  set(input, at[0][0], batch), set(input, at[0][1], in);
  set(kernel, at[1][0], in / groups), set(kernel, at[1][1], out);
  double count = static_cast<double>(in / groups);
  for (size_t d = 2; d < static_cast<size_t>(rank); ++d) {
    WindowDim w;
    w.size = maker.dice.Between(1, 3);
    w.stride = maker.dice.Between(1, 2);
    w.pad_low = maker.dice.Between(-1, 2);
    w.pad_high = maker.dice.Between(-1, 2);
    w.base_dilation = maker.dice.Chance(20) ? 2 : 1;
    w.window_dilation = maker.dice.Chance(20) ? 2 : 1;
    w.reversal = maker.dice.Chance(15);
    attrs.window.dims.push_back(w);
    set(input, at[0][d], maker.dice.Between(1, spatial == 3 ? 4 : 9));
    set(kernel, at[1][d], w.size);
    count *= static_cast<double>(w.size);
    labels.input_spatial.push_back(at[0][d]);
    labels.kernel_spatial.push_back(at[1][d]);
    labels.output_spatial.push_back(at[2][d]);
  }
  Value x = maker.Like(scope, t, Dims(input), false), y = maker.Like(scope, t, Dims(kernel), false);
  if (!maker.IsUsable(x) || !maker.IsUsable(y)) return;
  maker.Push(scope, scope.builder().Add(Op::kConvolution, {x.at, y.at}, attrs),
             maker.Folded(maker.Product(x, y), t, count));
}

}  // namespace weft::hlo::random
