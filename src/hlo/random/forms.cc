// Random ops in their rarer forms: windows over several arrays, sorts by what is computed of a key,
// constants that rewrites look for, systems of complex numbers, run-time sizes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "hlo/random/maker.h"

namespace weft::hlo::random {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

}  // namespace

// What is computed of a key before it is compared: exact, so that the order is one.
Instruction* KeyOf(Builder& b, Instruction* x, int64_t form) {
  DType t = x->shape().dtype();
  bool real = IsFloat(t);
  auto made = [&]() -> Result<Instruction*> {
    switch (form) {
      case 0: return b.Add(real || IsSigned(t) ? Op::kNegate : Op::kNot, {x});
      case 1: return b.Convert(x, real ? DType::kS32 : DType::kF32);
      case 2: {  // zeros of both signs are one key
        if (!real) return b.Add(Op::kNot, {x});
        Instruction* zero = b.ScalarConstant(t, 0);
        return b.Add(Op::kSelect, {TRY(b.Compare(x, zero, Direction::kEq)), zero, x});
      }
      case 3: {
        if (t != DType::kF32) return x;
        Shape whole = Shape::Scalar(DType::kS32);
        return b.Add(Op::kBitcastConvert, std::span(&x, 1), NoAttrs{}, &whole);
      }
      case 4:
        if (IsUnsigned(t)) return x;
        return b.Add(Op::kAbs, {x});
      default: return x;
    }
  }();
  return made ? *made : x;
}

void SortByFunction(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 500, true);
  DType t = x.dtype();
  if (t == DType::kF8E8M0FNU || t == DType::kPred) return;
  if ((IsFloat(t) || IsComplex(t)) && !std::isfinite(x.known.magnitude)) return;
  if (!maker.HasSignedZeros(x)) return;
  std::vector<Value> arrays = {x};
  for (int64_t n = maker.dice.Between(0, 3); n > 0; --n) {
    auto other =
        maker.Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); });
    if (other) arrays.push_back(*other);
  }
  Scope inner = NewScope(maker, scope, "by_function");
  Builder b = inner.builder();
  std::vector<Instruction*> p;
  for (size_t i = 0; i < 2 * arrays.size(); ++i) {
    p.push_back(*b.Parameter(static_cast<int64_t>(i), Shape::Scalar(arrays[i / 2].dtype())));
  }
  Direction direction = maker.dice.Chance(50) ? Direction::kLt : Direction::kGt;
  if (IsComplex(t)) {  // by the real part, then by the other
    Instruction *r0 = *b.Add(Op::kReal, {p[0]}), *r1 = *b.Add(Op::kReal, {p[1]});
    Instruction *i0 = *b.Add(Op::kImag, {p[0]}), *i1 = *b.Add(Op::kImag, {p[1]});
    Instruction* tie = *b.Compare(r0, r1, Direction::kEq);
    Instruction* second = *b.Add(Op::kAnd, {tie, *b.Compare(i0, i1, direction)});
    inner.computation->set_root(*b.Add(Op::kOr, {*b.Compare(r0, r1, direction), second}));
  } else {
    int64_t form = maker.dice.Below(6);
    Instruction *first = KeyOf(b, p[0], form), *second = KeyOf(b, p[1], form);
    CompareAttrs order{.direction = direction};
    if (IsFloat(first->shape().dtype()) && maker.dice.Chance(60)) {
      order.type = ComparisonType::kTotalOrder;
    }
    inner.computation->set_root(*b.Add(Op::kCompare, {first, second}, order));
  }
  SortAttrs attrs{.dimensions = {maker.dice.Below(x.shape().rank())}, .is_stable = true};
  attrs.to_apply = inner.computation;
  PushSort(maker, scope, arrays, attrs);
}

// Two arrays at once, each with its own op, in windows.
void ReduceWindowMany(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 400, false);
  auto other =
      maker.Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); });
  Value y = other ? *other : maker.Fresh(scope, maker.AnyType(), x.shape().dims());
  ReduceWindowAttrs attrs;
  double count = 1;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    WindowDim w;
    if (maker.dice.Chance(60)) {
      w.size = maker.dice.Between(1, 3);
      w.stride = maker.dice.Between(1, 3);
      w.pad_low = maker.dice.Between(-1, 3);
      w.pad_high = maker.dice.Between(-1, 3);
      w.window_dilation = maker.dice.Chance(25) ? 3 : 1;
      w.base_dilation = maker.dice.Chance(25) ? maker.dice.Between(2, 3) : 1;
    }
    count *= static_cast<double>(w.size);
    attrs.window.dims.push_back(w);
  }
  auto cx = AnyCombiner(maker, x, count), cy = AnyCombiner(maker, y, count);
  if (!cx || !cy) return;
  if (cx->op == Op::kAdd) cx->init = 0;
  if (cy->op == Op::kAdd) cy->init = 0;
  Scope inner = NewScope(maker, scope, "reducer");
  Builder b = inner.builder();
  Instruction* p[4];
  for (int64_t i = 0; i < 4; ++i) {
    p[i] = *b.Parameter(i, Shape::Scalar(i % 2 == 0 ? x.dtype() : y.dtype()));
  }
  auto first = b.Add(cx->op, {p[0], p[2]}), second = b.Add(cy->op, {p[1], p[3]});
  if (!first || !second) return;
  Instruction* both[] = {*first, *second};
  inner.computation->set_root(*b.Tuple(both));
  attrs.to_apply = inner.computation;
  Value ix = maker.Scalar(scope, x.dtype(), cx->init),
        iy = maker.Scalar(scope, y.dtype(), cy->init);
  auto made = scope.builder().Add(Op::kReduceWindow, {x.at, y.at, ix.at, iy.at}, attrs);
  if (!made) return;
  maker.Push(scope, scope.builder().GetTupleElement(*made, 0),
             Combined(maker, *cx, x.known, x.dtype(), count));
  maker.Push(scope, scope.builder().GetTupleElement(*made, 1),
             Combined(maker, *cy, y.known, y.dtype(), count));
}

// Arithmetic with the constants that rewrites look for, and of values with themselves.
void AlgebraAny(Maker& maker, Scope& scope) {
  Value x = maker.Any(scope);
  DType t = x.dtype();
  if (t == DType::kPred || IsComplex(t) || !maker.IsUsable(x)) return;
  Builder b = scope.builder();
  constexpr double kConstants[] = {0, 1, -1, 2, 4, 0.5, -2, 3};
  double value = maker.dice.Of(kConstants);
  bool small = BitWidth(t) < 8;
  if (small || IsInteger(t)) value = std::abs(std::trunc(value));
  if (small) value = std::min(value, 1.0);
  auto filled = b.Fill(x.shape(), value);
  if (!filled) return;
  Value c{*filled, maker.Unknown(t)};
  c.known.magnitude = std::abs(value);
  c.known.whole = value == std::trunc(value);
  if (maker.dice.Chance(15)) c = x;
  bool swapped = maker.dice.Chance(30);
  const Value &left = swapped ? c : x, &right = swapped ? x : c;
  constexpr Op kOps[] = {Op::kAdd,     Op::kSubtract, Op::kMultiply, Op::kMultiply, Op::kMaximum,
                         Op::kMinimum, Op::kDivide,   Op::kPower,    Op::kRemainder};
  Op op = maker.dice.Of(kOps);
  bool floats = IsFloat(t), exact = x.known.exact();
  auto made = b.Add(op, {left.at, right.at});
  if (!floats) {
    maker.Push(scope, made, maker.Unknown(t));
    return;
  }
  switch (op) {
    case Op::kAdd:
    case Op::kSubtract:
      if (maker.edges && (x.known.product || c.known.product)) return;
      maker.Push(scope, made, maker.Sum(left, right));
      return;
    case Op::kMultiply: maker.Push(scope, made, maker.Product(left, right)); return;
    case Op::kMaximum:
    case Op::kMinimum: {
      Known known = maker.Union(x.known, c.known);
      known.ulps = 0;
      maker.Push(scope, made, known);
      return;
    }
    case Op::kPower:
      if (exact && maker.HasSignedZeros(left))
        maker.Push(scope, made, maker.Inexact(8, t, kUnlimited));
      return;
    default:
      if (exact && maker.HasSignedZeros(right)) maker.Push(scope, made, maker.Unknown(t));
  }
}

// A triangular system whose matrix has small numbers beside the diagonal. The other triangle, and a
// diagonal of ones, are not read.
void TriangularSystem(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kC64, DType::kC128};
  DType t = maker.dice.Of(kTypes);
  int64_t n = maker.dice.Between(1, 9), m = maker.dice.Between(1, 5);
  Dimensions batch;
  if (maker.dice.Chance(40)) batch.push_back(maker.dice.Between(1, 3));
  auto first = static_cast<int64_t>(batch.size());
  Dimensions dims = batch, right = batch;
  dims.insert(dims.end(), {n, n});
  TriangularSolveAttrs attrs{.left_side = maker.dice.Chance(50), .lower = maker.dice.Chance(50)};
  attrs.unit_diagonal = maker.dice.Chance(40);
  constexpr TransposeA kForms[] = {TransposeA::kNoTranspose, TransposeA::kTranspose,
                                   TransposeA::kAdjoint};
  attrs.transpose_a = maker.dice.Of(kForms);
  right.insert(right.end(), {attrs.left_side ? n : m, attrs.left_side ? m : n});
  Value x = maker.Like(scope, t, Dims(dims), true), y = maker.Like(scope, t, Dims(right), true);
  if (!maker.IsUsable(x) || !maker.IsUsable(y) || y.known.magnitude > 100) return;
  Builder b = scope.builder();
  double scale = std::exp2(
      -std::ceil(std::log2(8 * static_cast<double>(n) * std::max(1.0, x.known.magnitude))));
  Shape shape = ArrayShape(t, dims), square(DType::kS32, {n, n});
  auto small = b.Add(Op::kMultiply, {x.at, *b.Fill(shape, scale)});
  auto rows = b.Add(Op::kIota, {}, IotaAttrs{.iota_dimension = 0}, &square);
  auto columns = b.Add(Op::kIota, {}, IotaAttrs{.iota_dimension = 1}, &square);
  if (!small || !rows || !columns) return;
  auto diagonal = b.Broadcast(*b.Compare(*rows, *columns, Direction::kEq),
                              ArrayShape(DType::kPred, dims), {first, first + 1});
  if (!diagonal) return;
  auto matrix = b.Add(Op::kSelect, {*diagonal, *b.Fill(shape, 2), *small});
  if (!matrix) return;
  Known known = maker.Inexact(0, t, 4 * y.known.magnitude + 1);
  known.error = 200 * static_cast<double>(n) * Epsilon(t) * known.magnitude;
  maker.Push(scope, b.Add(Op::kTriangularSolve, {*matrix, y.at}, attrs), known);
}

void BatchNormGradAny(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  DType t = maker.dice.Chance(70) ? DType::kF32 : DType::kF64;
  Dimensions dims = maker.AnyDims(200);
  while (dims.size() < 2) dims.push_back(maker.dice.Between(1, 5));
  Value x = maker.Like(scope, t, Dims(dims), true), grad = maker.Like(scope, t, Dims(dims), true);
  if (x.shape().elements() == 0) return;
  int64_t feature = maker.dice.Below(x.shape().rank());
  Dims vector({x.shape().dim(feature)});
  Value scale = maker.Like(scope, t, vector, true), mean = maker.Like(scope, t, vector, true);
  Value variance = maker.Like(scope, t, vector, true);
  double largest = 0;
  for (const Value& v : {x, grad, scale, mean, variance}) {
    largest = std::max(largest, v.known.magnitude);
  }
  if (largest > 12) return;
  Builder b = scope.builder();
  auto positive = b.Add(Op::kAbs, {variance.at});
  if (!positive) return;
  auto made = b.Add(Op::kBatchNormGrad, {x.at, scale.at, mean.at, *positive, grad.at},
                    BatchNormAttrs{.epsilon = 1, .feature_index = feature});
  if (!made) return;
  auto count = static_cast<double>(x.shape().elements());
  double distance = x.known.magnitude + mean.known.magnitude, g = grad.known.magnitude;
  Known data = maker.Inexact(0, t, (scale.known.magnitude + 1) * g * (2 + distance * distance));
  Known sum = maker.Inexact(0, t, count * g * (distance + 1));
  data.error = 40 * (count + 8) * Epsilon(t) * data.magnitude;
  sum.error = 40 * (count + 8) * Epsilon(t) * sum.magnitude;
  maker.Push(scope, b.GetTupleElement(*made, 0), data);
  maker.Push(scope, b.GetTupleElement(*made, 1), sum);
  maker.Push(scope, b.GetTupleElement(*made, 2), sum);
}

// A number of another width is several, or several are one.
void BitcastWidth(Maker& maker, Scope& scope) {
  Value x = maker.Exact(scope);
  DType from = x.dtype(), to = maker.AnyType();
  if (IsComplex(from) || IsComplex(to) || from == DType::kPred || to == DType::kPred) return;
  if (IsFloat(from) && !std::isfinite(x.known.magnitude)) return;
  if (!maker.HasSignedZeros(x)) return;
  int wide = BitWidth(from), narrow = BitWidth(to);
  if (wide == narrow || BitWidth(from) % 2 != 0 || BitWidth(to) % 2 != 0) return;
  Dimensions dims(x.shape().dims().begin(), x.shape().dims().end());
  if (wide > narrow) {
    if (wide % narrow != 0) return;
    dims.push_back(wide / narrow);
  } else {
    if (narrow % wide != 0 || dims.empty() || dims.back() != narrow / wide) {
      if (narrow % wide != 0) return;
      dims.push_back(narrow / wide);
      x = maker.Fresh(scope, from, dims);
      if (IsFloat(from) && !std::isfinite(x.known.magnitude)) return;
    }
    dims.pop_back();
  }
  Shape shape = ArrayShape(to, dims);
  maker.Push(scope,
             scope.builder().Add(Op::kBitcastConvert, std::span(&x.at, 1), NoAttrs{}, &shape),
             maker.Unknown(to));
}

// A function of scalars over several arrays.
void MapMany(Maker& maker, Scope& scope) {
  Value x = maker.Exact(scope);
  std::vector<Value> arrays = {x};
  for (int64_t n = maker.dice.Between(1, 2); n > 0; --n) {
    auto v = maker.Find(scope, [&](const Value& y) {
      return y.known.exact() && y.shape().dims() == x.shape().dims();
    });
    arrays.push_back(v ? *v : maker.Fresh(scope, maker.AnyType(), x.shape().dims()));
  }
  Scope inner = NewScope(maker, scope, "mapped");
  inner.depth = 3;
  std::vector<Instruction*> operands;
  for (const Value& v : arrays) {
    Instruction* p =
        *inner.builder().Parameter(static_cast<int64_t>(operands.size()), Shape::Scalar(v.dtype()));
    inner.values.push_back({p, v.known});
    operands.push_back(v.at);
  }
  for (int64_t n = maker.dice.Between(1, 4); n > 0; --n) {
    constexpr void (*kMakes[])(Maker&, Scope&) = {Unary, Binary, Binary, CompareAndSelect,
                                                  ConvertAny};
    maker.dice.Of(kMakes)(maker, inner);
  }
  for (const Instruction* i : *inner.computation) {
    if (!i->shape().IsScalar()) return;
  }
  Value result = inner.values.back();
  inner.computation->set_root(result.at);
  MapAttrs attrs;
  attrs.to_apply = inner.computation;
  for (int64_t d = 0; d < x.shape().rank(); ++d) attrs.dimensions.push_back(d);
  maker.Push(scope, scope.builder().Add(Op::kMap, operands, attrs), result.known);
}

// Tokens, memory of another type of the same bytes, and states of a generator.
void TokensAny(Maker& maker, Scope& scope) {
  Value x = maker.Any(scope);
  Builder b = scope.builder();
  if (maker.dice.Chance(50)) {
    Shape same = ArrayShape(x.dtype(), OtherDims(maker, x.shape().elements()));
    maker.Push(scope, b.Add(Op::kBitcast, std::span(&x.at, 1), NoAttrs{}, &same), x.known);
    return;
  }
  auto first = b.Add(Op::kAfterAll, {});
  if (!first) return;
  auto second = b.Add(Op::kAfterAll, {*first, *first});
  if (!second) return;
  maker.Push(scope, b.Add(Op::kAddDependency, {x.at, *second}), x.known);
}

// Two arrays of whole numbers with a carry each, in a function of all four.
void ScanMany(Maker& maker, Scope& scope) {
  auto found = maker.Find(scope, [](const Value& v) {
    return IsInteger(v.dtype()) && v.shape().rank() > 0 && v.shape().elements() <= 800;
  });
  Dimensions fresh = maker.AnyDims(400);
  if (fresh.empty()) fresh.push_back(maker.dice.Between(1, 9));
  Value x = found ? *found : maker.Fresh(scope, maker.AnyInteger(), fresh);
  Value y = maker.Like(scope, x.dtype(), x.shape().dims(), true);
  int64_t dim = maker.dice.Below(x.shape().rank());
  Dimensions dims;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (d != dim) dims.push_back(x.shape().dim(d));
  }
  Shape slice = ArrayShape(x.dtype(), dims);
  Scope inner = NewScope(maker, scope, "steps");
  Builder b = inner.builder();
  std::vector<Instruction*> now;
  for (int64_t k = 0; k < 4; ++k) now.push_back(*b.Parameter(k, slice));
  constexpr Op kOps[] = {Op::kAdd, Op::kSubtract, Op::kMultiply, Op::kMaximum, Op::kXor};
  for (int64_t n = maker.dice.Between(2, 5); n > 0; --n) {
    auto size = static_cast<int64_t>(now.size());
    Instruction* left = now[static_cast<size_t>(maker.dice.Below(size))];
    Instruction* right = now[static_cast<size_t>(maker.dice.Below(size))];
    auto made = b.Add(maker.dice.Of(kOps), {left, right});
    if (!made) return;
    now.push_back(*made);
  }
  std::vector<Instruction*> results;
  for (int k = 0; k < 4; ++k) {
    results.push_back(now[now.size() - 1 - static_cast<size_t>(maker.dice.Below(4))]);
  }
  inner.computation->set_root(*b.Tuple(results));
  auto first = scope.builder().Fill(slice, 0), second = scope.builder().Fill(slice, 1);
  if (!first || !second) return;
  ScanAttrs attrs{.dimensions = {dim}, .num_carries = 2, .is_reverse = maker.dice.Chance(40)};
  attrs.to_apply = inner.computation;
  auto made = scope.builder().Add(Op::kScan, {x.at, y.at, *first, *second}, attrs);
  if (!made) return;
  for (int64_t k = 0; k < 4; ++k) {
    maker.Push(scope, scope.builder().GetTupleElement(*made, k), maker.Unknown(x.dtype()));
  }
}

}  // namespace weft::hlo::random
