// Random ops that are routines: transforms, factorizations, sorts by several keys, random bits; and
// functions of complex numbers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "hlo/random/maker.h"

namespace weft::hlo::random {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct ComplexFunction {
  Op op;
  double ulps;
  double largest;    // parts of at most this magnitude
  double magnitude;  // of the result
};
constexpr ComplexFunction kComplexFunctions[] = {
    {Op::kExponential, 8, 3, 25}, {Op::kSine, 8, 3, 15},   {Op::kCosine, 8, 3, 15},
    {Op::kSqrt, 8, 1e5, 400},     {Op::kAbs, 4, 1e5, 2e5}, {Op::kExpm1, 8, 3, 25},
    {Op::kSinh, 8, 3, 15},        {Op::kCosh, 8, 3, 15},   {Op::kAsinh, 8, 1e5, 20},
};

}  // namespace

void ComplexFunctionAny(Maker& maker, Scope& scope) {
  const ComplexFunction& f = kComplexFunctions[maker.dice.Below(std::size(kComplexFunctions))];
  auto found = maker.Find(scope, [&](const Value& v) {
    return IsComplex(v.dtype()) && v.known.exact() && v.known.magnitude <= f.largest;
  });
  DType t = maker.dice.Chance(60) ? DType::kC64 : DType::kC128;
  Value x = found ? *found : maker.Fresh(scope, t, maker.AnyDims(300));
  if (maker.edges || !x.known.exact() || x.known.magnitude > f.largest || !maker.HasSignedZeros(x))
    return;
  // Both parts are as exact as the larger one.
  DType result = f.op != Op::kAbs           ? x.dtype()
                 : x.dtype() == DType::kC64 ? DType::kF32
                                            : DType::kF64;
  Known known = maker.Inexact(f.ulps, result, f.magnitude);
  known.ulps = 0;
  maker.Push(scope, scope.builder().Add(f.op, {x.at}), known);
}

void ComplexDivide(Maker& maker, Scope& scope) {
  auto found = maker.Find(scope, [&](const Value& v) {
    return IsComplex(v.dtype()) && v.known.exact() && v.known.magnitude <= 100;
  });
  Value x = found ? *found : maker.Fresh(scope, DType::kC64, maker.AnyDims(300));
  if (maker.edges || !x.known.exact() || x.known.magnitude > 100) return;
  // By a number of magnitude 1 at least.
  Builder b = scope.builder();
  Value y = maker.Like(scope, x.dtype(), x.shape().dims(), true);
  if (y.known.magnitude > 100) return;
  DType part = x.dtype() == DType::kC64 ? DType::kF32 : DType::kF64;
  auto size = b.Add(Op::kAbs, {*b.Add(Op::kReal, {y.at})});
  auto one = b.Fill(ArrayShape(part, x.shape().dims()), 1);
  if (!size || !one) return;
  auto away = b.Add(Op::kAdd, {*size, *one});
  auto divisor = b.Add(Op::kComplex, {*away, *b.Add(Op::kImag, {y.at})});
  Known known = maker.Inexact(0, x.dtype(), x.known.magnitude * 2);
  known.error = 16 * Epsilon(x.dtype()) * known.magnitude;
  maker.Push(scope, b.Add(Op::kDivide, {x.at, *divisor}), known);
}

void FftAny(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  bool wide = maker.dice.Chance(30);
  DType real = wide ? DType::kF64 : DType::kF32, complex = wide ? DType::kC128 : DType::kC64;
  auto type = static_cast<FftType>(maker.dice.Below(4));
  Dimensions dims = maker.AnyDims(30);
  FftAttrs attrs;
  attrs.fft_type = type;
  double n = 1;
  for (int64_t k = maker.dice.Between(1, 2); k > 0; --k) {
    attrs.fft_length.push_back(maker.dice.Between(1, 12));
    n *= static_cast<double>(attrs.fft_length.back());
    dims.push_back(attrs.fft_length.back());
  }
  if (type == FftType::kIrfft) dims.back() = dims.back() / 2 + 1;
  Value x = maker.Like(scope, type == FftType::kRfft ? real : complex, Dims(dims), false);
  if (!maker.IsUsable(x)) return;
  Known known = maker.Unknown(type == FftType::kIrfft ? real : complex);
  known.magnitude = 2 * n * x.known.magnitude;
  known.error = n * x.known.error * 2 + 16 * Epsilon(real) * (n + 4) * known.magnitude;
  known.whole = false;
  maker.Push(scope, scope.builder().Add(Op::kFft, {x.at}, attrs), known);
}

// M M^T + n I, its factor, and the solution of a triangular system with it.
void CholeskyAny(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  DType t = maker.dice.Chance(70) ? DType::kF32 : DType::kF64;
  int64_t n = maker.dice.Between(1, 9),
          batch = maker.dice.Chance(40) ? maker.dice.Between(1, 3) : 0;
  Dimensions dims;
  if (batch > 0) dims.push_back(batch);
  auto first = static_cast<int64_t>(dims.size());
  dims.push_back(n);
  dims.push_back(n);
  Value m = maker.Like(scope, t, Dims(dims), true);
  if (m.known.magnitude > 12) return;
  Builder b = scope.builder();
  DotAttrs dot;
  if (batch > 0) dot.lhs_batch_dims = dot.rhs_batch_dims = {0};
  dot.lhs_contracting_dims = dot.rhs_contracting_dims = {first + 1};
  auto product = b.Add(Op::kDot, {m.at, m.at}, dot);
  Shape square(DType::kS32, {n, n});
  auto rows = b.Add(Op::kIota, {}, IotaAttrs{.iota_dimension = 0}, &square);
  auto columns = b.Add(Op::kIota, {}, IotaAttrs{.iota_dimension = 1}, &square);
  if (!product || !rows || !columns) return;
  auto diagonal = b.Compare(*rows, *columns, Direction::kEq);
  double shift = static_cast<double>(n) * m.known.magnitude * m.known.magnitude + 1;
  auto scaled =
      b.Add(Op::kMultiply, {*b.Convert(*diagonal, t), *b.Fill(Shape(t, {n, n}), std::ceil(shift))});
  if (!scaled) return;
  auto wide = b.Broadcast(*scaled, ArrayShape(t, dims), batch > 0 ? Ints{1, 2} : Ints{0, 1});
  auto matrix = b.Add(Op::kAdd, {*product, *wide});
  bool lower = maker.dice.Chance(50);
  auto factor = b.Add(Op::kCholesky, {*matrix}, CholeskyAttrs{.lower = lower});
  if (!factor) return;
  Known known = maker.Inexact(0, t, std::sqrt(2 * shift) + 1);
  known.error = 64 * static_cast<double>(n) * Epsilon(t) * known.magnitude;
  // The other triangle is not defined.
  auto kept = b.Compare(*rows, *columns, lower ? Direction::kGe : Direction::kLe);
  auto mask =
      b.Broadcast(*kept, ArrayShape(DType::kPred, dims), batch > 0 ? Ints{1, 2} : Ints{0, 1});
  auto triangle = b.Add(Op::kSelect, {*mask, *factor, *b.Fill(ArrayShape(t, dims), 0)});
  if (!maker.Push(scope, triangle, known)) return;
  Value rhs = maker.Like(scope, t, Dims(dims), true);
  if (rhs.known.magnitude > 12) return;
  TriangularSolveAttrs solve{.left_side = maker.dice.Chance(50), .lower = lower};
  solve.transpose_a = maker.dice.Chance(50) ? TransposeA::kNoTranspose : TransposeA::kTranspose;
  Known solution = maker.Inexact(0, t, rhs.known.magnitude * static_cast<double>(n + 1));
  solution.error = 500 * static_cast<double>(n) * Epsilon(t) * solution.magnitude;
  maker.Push(scope, b.Add(Op::kTriangularSolve, {*triangle, rhs.at}, solve), solution);
}

void TopKAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 600, true);
  if (IsComplex(x.dtype()) || x.dtype() == DType::kF8E8M0FNU || x.dtype() == DType::kPred) return;
  if (IsFloat(x.dtype()) && !std::isfinite(x.known.magnitude)) return;
  if (!maker.HasSignedZeros(x)) return;
  // Of fewer than there are at run time.
  if (x.shape().is_dynamic(x.shape().rank() - 1)) return;
  int64_t n = x.shape().dim(x.shape().rank() - 1);
  TopKAttrs attrs{.k = maker.dice.Between(0, n), .largest = maker.dice.Chance(70)};
  auto made = scope.builder().Add(Op::kTopK, {x.at}, attrs);
  if (!made) return;
  maker.Push(scope, scope.builder().GetTupleElement(*made, 0), x.known);
  maker.Push(scope, scope.builder().GetTupleElement(*made, 1), maker.Unknown(DType::kS32));
}

void RandomBitsAny(Maker& maker, Scope& scope) {
  constexpr DType kBits[] = {DType::kU32, DType::kU32, DType::kU64, DType::kU8,
                             DType::kU16, DType::kS32, DType::kS64, DType::kU4};
  int64_t words = maker.dice.Between(2, 3);
  Value state = maker.Like(scope, DType::kU64, Dims({words}), true);
  auto algorithm = static_cast<RngAlgorithm>(maker.dice.Below(3));
  if (algorithm == RngAlgorithm::kThreeFry && words == 3) algorithm = RngAlgorithm::kPhilox;
  Shape bits = ArrayShape(maker.dice.Of(kBits), maker.AnyDims(500));
  Shape both = Shape::Tuple({state.shape(), bits});
  auto made = scope.builder().Add(Op::kRngBitGenerator, std::span(&state.at, 1),
                                  RngBitGeneratorAttrs{.algorithm = algorithm}, &both);
  if (!made) return;
  maker.Push(scope, scope.builder().GetTupleElement(*made, 0), maker.Unknown(DType::kU64));
  maker.Push(scope, scope.builder().GetTupleElement(*made, 1), maker.Unknown(bits.dtype()));
}

void RngAny(Maker& maker, Scope& scope) {
  if (maker.rng_used || scope.depth > 0) return;  // the order of several is not that of the list
  maker.rng_used = true;
  constexpr DType kTypes[] = {DType::kF32, DType::kF64,  DType::kS32,
                              DType::kU64, DType::kBF16, DType::kS8};
  DType t = maker.dice.Of(kTypes);
  Value low = maker.Scalar(scope, t, 1),
        high = maker.Scalar(scope, t, static_cast<double>(maker.dice.Between(1, 9)));
  bool normal = IsFloat(t) && maker.dice.Chance(40);
  Shape shape = ArrayShape(t, maker.AnyDims(500));
  Instruction* operands[] = {low.at, high.at};
  // Made of a logarithm and a cosine, of which f64 shows the last digits.
  Known known = normal && t == DType::kF64 ? maker.Inexact(8, t, 100) : maker.Unknown(t);
  known.ulps = 0;  // where the cosine is small its error is not relative
  known.magnitude = normal ? 100 : 9;
  known.whole = !IsFloat(t);
  maker.Push(scope,
             scope.builder().Add(
                 Op::kRng, operands,
                 RngAttrs{.distribution = normal ? Distribution::kNormal : Distribution::kUniform},
                 &shape),
             known);
}

void BatchNormAny(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  DType t = maker.dice.Chance(70) ? DType::kF32 : DType::kF64;
  auto found = maker.Find(scope, [&](const Value& v) {
    return v.dtype() == t && v.shape().rank() >= 2 && v.known.exact() && maker.IsUsable(v) &&
           v.shape().elements() > 0 && v.shape().elements() <= 1000;
  });
  Dimensions dims = maker.AnyDims(300);
  while (dims.size() < 2) dims.push_back(maker.dice.Between(1, 5));
  Value x = found ? *found : maker.Fresh(scope, t, dims);
  if (x.shape().elements() == 0 || x.known.magnitude > 20) return;
  int64_t feature = maker.dice.Below(x.shape().rank());
  Dims vector({x.shape().dim(feature)});
  Value scale = maker.Like(scope, t, vector, true), offset = maker.Like(scope, t, vector, true);
  if (scale.known.magnitude > 20 || offset.known.magnitude > 20) return;
  BatchNormAttrs attrs{.epsilon = 1, .feature_index = feature};
  Builder b = scope.builder();
  double size = 4 * x.known.magnitude * (scale.known.magnitude + 1) + offset.known.magnitude + 4;
  auto count = static_cast<double>(x.shape().elements());
  Known known = maker.Inexact(0, t, size);
  known.error = 20 * (count + 8) * Epsilon(t) * size;
  if (maker.dice.Chance(50)) {
    Value mean = maker.Like(scope, t, vector, true), variance = maker.Like(scope, t, vector, true);
    if (mean.known.magnitude > 20 || variance.known.magnitude > 20) return;
    auto positive = b.Add(Op::kAbs, {variance.at});
    known.magnitude += mean.known.magnitude * (scale.known.magnitude + 1);
    known.error = 40 * Epsilon(t) * known.magnitude;
    maker.Push(
        scope,
        b.Add(Op::kBatchNormInference, {x.at, scale.at, offset.at, mean.at, *positive}, attrs),
        known);
    return;
  }
  auto made = b.Add(Op::kBatchNormTraining, {x.at, scale.at, offset.at}, attrs);
  if (!made) return;
  Known variance = known;
  variance.magnitude = 4 * x.known.magnitude * x.known.magnitude + 1;
  variance.error = 20 * (count + 8) * Epsilon(t) * variance.magnitude;
  maker.Push(scope, b.GetTupleElement(*made, 0), known);
  maker.Push(scope, b.GetTupleElement(*made, 1), known);
  maker.Push(scope, b.GetTupleElement(*made, 2), variance);
}

// By two keys, each in its own direction, with what goes along.
void SortMany(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 400, true);
  auto sortable = [&](const Value& v) {
    return !IsComplex(v.dtype()) && v.dtype() != DType::kF8E8M0FNU && v.dtype() != DType::kPred &&
           (!IsFloat(v.dtype()) || std::isfinite(v.known.magnitude)) && v.known.exact() &&
           maker.HasSignedZeros(v);
  };
  if (!sortable(x)) return;
  auto same = [&](const Value& v) { return v.shape().dims() == x.shape().dims(); };
  auto second = maker.Find(scope, [&](const Value& v) { return same(v) && sortable(v); });
  std::vector<Value> arrays = {
      x, second ? *second : maker.Fresh(scope, DType::kS32, x.shape().dims())};
  if (auto third = maker.Find(scope, same)) arrays.push_back(*third);
  if (!sortable(arrays[1])) return;
  Scope inner = NewScope(maker, scope, "compare");
  Builder b = inner.builder();
  std::vector<Instruction*> p;
  for (size_t i = 0; i < 2 * arrays.size(); ++i) {
    p.push_back(*b.Parameter(static_cast<int64_t>(i), Shape::Scalar(arrays[i / 2].dtype())));
  }
  Direction major = maker.dice.Chance(50) ? Direction::kLt : Direction::kGt;
  Direction minor = maker.dice.Chance(50) ? Direction::kLt : Direction::kGt;
  Instruction* tie = *b.Compare(p[0], p[1], Direction::kEq);
  Instruction* before = *b.Compare(p[2], p[3], minor);
  if (maker.dice.Chance(50)) {
    Instruction* both = *b.Add(Op::kAnd, {tie, before});
    inner.computation->set_root(*b.Add(Op::kOr, {*b.Compare(p[0], p[1], major), both}));
  } else {
    inner.computation->set_root(*b.Add(Op::kSelect, {tie, before, *b.Compare(p[0], p[1], major)}));
  }
  SortAttrs attrs{.dimensions = {maker.dice.Below(x.shape().rank())}, .is_stable = true};
  attrs.to_apply = inner.computation;
  PushSort(maker, scope, arrays, attrs);
}

void StochasticConvertAny(Maker& maker, Scope& scope) {
  auto found = maker.Find(scope, [&](const Value& v) {
    return (v.dtype() == DType::kF32 || v.dtype() == DType::kBF16) && v.known.exact() &&
           v.known.magnitude < kNoLimit;
  });
  Value x = found ? *found : maker.Fresh(scope, DType::kF32, maker.AnyDims(300));
  if (!x.known.exact()) return;
  DType bits = x.dtype() == DType::kF32 ? DType::kU32 : DType::kU16;
  Value random = maker.Like(scope, bits, x.shape().dims(), true);
  constexpr DType kTo[] = {DType::kS8, DType::kS32, DType::kS64, DType::kS16};
  Shape shape = ArrayShape(maker.dice.Of(kTo), x.shape().dims());
  Instruction* operands[] = {x.at, random.at};
  maker.Push(scope, scope.builder().Add(Op::kStochasticConvert, operands, NoAttrs{}, &shape),
             maker.Unknown(shape.dtype()));
}

}  // namespace weft::hlo::random
