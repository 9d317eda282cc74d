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
Instruction* Maker::KeyOf(Builder& b, Instruction* x, int64_t form) const {
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

void Maker::SortByFunction(Scope& scope) {
  Value x = AnyOf(scope, 1, 500, true);
  DType t = x.dtype();
  if (t == DType::kF8E8M0FNU || t == DType::kPred) return;
  if ((IsFloat(t) || IsComplex(t)) && !std::isfinite(x.known.magnitude)) return;
  if (!HasSignedZeros(x)) return;
  std::vector<Value> arrays = {x};
  for (int64_t n = dice_.Between(0, 3); n > 0; --n) {
    auto other = Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); });
    if (other) arrays.push_back(*other);
  }
  Scope inner = NewScope(scope, "by_function");
  Builder b = inner.builder();
  std::vector<Instruction*> p;
  for (size_t i = 0; i < 2 * arrays.size(); ++i) {
    p.push_back(*b.Parameter(static_cast<int64_t>(i), Shape::Scalar(arrays[i / 2].dtype())));
  }
  Direction direction = dice_.Chance(50) ? Direction::kLt : Direction::kGt;
  if (IsComplex(t)) {  // by the real part, then by the other
    Instruction *r0 = *b.Add(Op::kReal, {p[0]}), *r1 = *b.Add(Op::kReal, {p[1]});
    Instruction *i0 = *b.Add(Op::kImag, {p[0]}), *i1 = *b.Add(Op::kImag, {p[1]});
    Instruction* tie = *b.Compare(r0, r1, Direction::kEq);
    Instruction* second = *b.Add(Op::kAnd, {tie, *b.Compare(i0, i1, direction)});
    inner.computation->set_root(*b.Add(Op::kOr, {*b.Compare(r0, r1, direction), second}));
  } else {
    int64_t form = dice_.Below(6);
    Instruction *first = KeyOf(b, p[0], form), *second = KeyOf(b, p[1], form);
    CompareAttrs order{.direction = direction};
    if (IsFloat(first->shape().dtype()) && dice_.Chance(60)) {
      order.type = ComparisonType::kTotalOrder;
    }
    inner.computation->set_root(*b.Add(Op::kCompare, {first, second}, order));
  }
  SortAttrs attrs{.dimensions = {dice_.Below(x.shape().rank())}, .is_stable = true};
  attrs.to_apply = inner.computation;
  PushSort(scope, arrays, attrs);
}

// Two arrays at once, each with its own op, in windows.
void Maker::ReduceWindowMany(Scope& scope) {
  Value x = AnyOf(scope, 1, 400, false);
  auto other = Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); });
  Value y = other ? *other : Fresh(scope, AnyType(), x.shape().dims());
  ReduceWindowAttrs attrs;
  double count = 1;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    WindowDim w;
    if (dice_.Chance(60)) {
      w.size = dice_.Between(1, 3);
      w.stride = dice_.Between(1, 3);
      w.pad_low = dice_.Between(-1, 3);
      w.pad_high = dice_.Between(-1, 3);
      w.window_dilation = dice_.Chance(25) ? 3 : 1;
      w.base_dilation = dice_.Chance(25) ? dice_.Between(2, 3) : 1;
    }
    count *= static_cast<double>(w.size);
    attrs.window.dims.push_back(w);
  }
  auto cx = AnyCombiner(x, count), cy = AnyCombiner(y, count);
  if (!cx || !cy) return;
  if (cx->op == Op::kAdd) cx->init = 0;
  if (cy->op == Op::kAdd) cy->init = 0;
  Scope inner = NewScope(scope, "reducer");
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
  Value ix = Scalar(scope, x.dtype(), cx->init), iy = Scalar(scope, y.dtype(), cy->init);
  auto made = scope.builder().Add(Op::kReduceWindow, {x.at, y.at, ix.at, iy.at}, attrs);
  if (!made) return;
  Push(scope, scope.builder().GetTupleElement(*made, 0), Combined(*cx, x.known, x.dtype(), count));
  Push(scope, scope.builder().GetTupleElement(*made, 1), Combined(*cy, y.known, y.dtype(), count));
}

// Arithmetic with the constants that rewrites look for, and of values with themselves.
void Maker::AlgebraAny(Scope& scope) {
  Value x = Any(scope);
  DType t = x.dtype();
  if (t == DType::kPred || IsComplex(t) || !IsUsable(x)) return;
  Builder b = scope.builder();
  constexpr double kConstants[] = {0, 1, -1, 2, 4, 0.5, -2, 3};
  double value = dice_.Of(kConstants);
  bool small = BitWidth(t) < 8;
  if (small || IsInteger(t)) value = std::abs(std::trunc(value));
  if (small) value = std::min(value, 1.0);
  auto filled = b.Fill(x.shape(), value);
  if (!filled) return;
  Value c{*filled, Unknown(t)};
  c.known.magnitude = std::abs(value);
  c.known.whole = value == std::trunc(value);
  if (dice_.Chance(15)) c = x;
  bool swapped = dice_.Chance(30);
  const Value &left = swapped ? c : x, &right = swapped ? x : c;
  constexpr Op kOps[] = {Op::kAdd,     Op::kSubtract, Op::kMultiply, Op::kMultiply, Op::kMaximum,
                         Op::kMinimum, Op::kDivide,   Op::kPower,    Op::kRemainder};
  Op op = dice_.Of(kOps);
  bool floats = IsFloat(t), exact = x.known.exact();
  auto made = b.Add(op, {left.at, right.at});
  if (!floats) {
    Push(scope, made, Unknown(t));
    return;
  }
  switch (op) {
    case Op::kAdd:
    case Op::kSubtract:
      if (edges_ && (x.known.product || c.known.product)) return;
      Push(scope, made, Sum(left, right));
      return;
    case Op::kMultiply: Push(scope, made, Product(left, right)); return;
    case Op::kMaximum:
    case Op::kMinimum: {
      Known known = Union(x.known, c.known);
      known.ulps = 0;
      Push(scope, made, known);
      return;
    }
    case Op::kPower:
      if (exact && HasSignedZeros(left)) Push(scope, made, Inexact(8, t, kUnlimited));
      return;
    default:
      if (exact && HasSignedZeros(right)) Push(scope, made, Unknown(t));
  }
}

// A triangular system whose matrix has small numbers beside the diagonal. The other triangle, and a
// diagonal of ones, are not read.
void Maker::TriangularSystem(Scope& scope) {
  if (edges_) return;
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kC64, DType::kC128};
  DType t = dice_.Of(kTypes);
  int64_t n = dice_.Between(1, 9), m = dice_.Between(1, 5);
  Dimensions batch;
  if (dice_.Chance(40)) batch.push_back(dice_.Between(1, 3));
  auto first = static_cast<int64_t>(batch.size());
  Dimensions dims = batch, right = batch;
  dims.insert(dims.end(), {n, n});
  TriangularSolveAttrs attrs{.left_side = dice_.Chance(50), .lower = dice_.Chance(50)};
  attrs.unit_diagonal = dice_.Chance(40);
  constexpr TransposeA kForms[] = {TransposeA::kNoTranspose, TransposeA::kTranspose,
                                   TransposeA::kAdjoint};
  attrs.transpose_a = dice_.Of(kForms);
  right.insert(right.end(), {attrs.left_side ? n : m, attrs.left_side ? m : n});
  Value x = Like(scope, t, Dims(dims), true), y = Like(scope, t, Dims(right), true);
  if (!IsUsable(x) || !IsUsable(y) || y.known.magnitude > 100) return;
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
  Known known = Inexact(0, t, 4 * y.known.magnitude + 1);
  known.error = 200 * static_cast<double>(n) * Epsilon(t) * known.magnitude;
  Push(scope, b.Add(Op::kTriangularSolve, {*matrix, y.at}, attrs), known);
}

void Maker::BatchNormGradAny(Scope& scope) {
  if (edges_) return;
  DType t = dice_.Chance(70) ? DType::kF32 : DType::kF64;
  Dimensions dims = AnyDims(200);
  while (dims.size() < 2) dims.push_back(dice_.Between(1, 5));
  Value x = Like(scope, t, Dims(dims), true), grad = Like(scope, t, Dims(dims), true);
  if (x.shape().elements() == 0) return;
  int64_t feature = dice_.Below(x.shape().rank());
  Dims vector({x.shape().dim(feature)});
  Value scale = Like(scope, t, vector, true), mean = Like(scope, t, vector, true);
  Value variance = Like(scope, t, vector, true);
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
  Known data = Inexact(0, t, (scale.known.magnitude + 1) * g * (2 + distance * distance));
  Known sum = Inexact(0, t, count * g * (distance + 1));
  data.error = 40 * (count + 8) * Epsilon(t) * data.magnitude;
  sum.error = 40 * (count + 8) * Epsilon(t) * sum.magnitude;
  Push(scope, b.GetTupleElement(*made, 0), data);
  Push(scope, b.GetTupleElement(*made, 1), sum);
  Push(scope, b.GetTupleElement(*made, 2), sum);
}

// A number of another width is several, or several are one.
void Maker::BitcastWidth(Scope& scope) {
  Value x = Exact(scope);
  DType from = x.dtype(), to = AnyType();
  if (IsComplex(from) || IsComplex(to) || from == DType::kPred || to == DType::kPred) return;
  if (IsFloat(from) && !std::isfinite(x.known.magnitude)) return;
  if (!HasSignedZeros(x)) return;
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
      x = Fresh(scope, from, dims);
      if (IsFloat(from) && !std::isfinite(x.known.magnitude)) return;
    }
    dims.pop_back();
  }
  Shape shape = ArrayShape(to, dims);
  Push(scope, scope.builder().Add(Op::kBitcastConvert, std::span(&x.at, 1), NoAttrs{}, &shape),
       Unknown(to));
}

// A function of scalars over several arrays.
void Maker::MapMany(Scope& scope) {
  Value x = Exact(scope);
  std::vector<Value> arrays = {x};
  for (int64_t n = dice_.Between(1, 2); n > 0; --n) {
    auto v = Find(scope, [&](const Value& y) {
      return y.known.exact() && y.shape().dims() == x.shape().dims();
    });
    arrays.push_back(v ? *v : Fresh(scope, AnyType(), x.shape().dims()));
  }
  Scope inner = NewScope(scope, "mapped");
  inner.depth = 3;
  std::vector<Instruction*> operands;
  for (const Value& v : arrays) {
    Instruction* p =
        *inner.builder().Parameter(static_cast<int64_t>(operands.size()), Shape::Scalar(v.dtype()));
    inner.values.push_back({p, v.known});
    operands.push_back(v.at);
  }
  for (int64_t n = dice_.Between(1, 4); n > 0; --n) {
    constexpr void (Maker::* kMakes[])(Scope&) = {&Maker::Unary, &Maker::Binary, &Maker::Binary,
                                                  &Maker::CompareAndSelect, &Maker::ConvertAny};
    (this->*dice_.Of(kMakes))(inner);
  }
  for (const Instruction* i : *inner.computation) {
    if (!i->shape().IsScalar()) return;
  }
  Value result = inner.values.back();
  inner.computation->set_root(result.at);
  MapAttrs attrs;
  attrs.to_apply = inner.computation;
  for (int64_t d = 0; d < x.shape().rank(); ++d) attrs.dimensions.push_back(d);
  Push(scope, scope.builder().Add(Op::kMap, operands, attrs), result.known);
}

// Tokens, memory of another type of the same bytes, and states of a generator.
void Maker::TokensAny(Scope& scope) {
  Value x = Any(scope);
  Builder b = scope.builder();
  if (dice_.Chance(50)) {
    Shape same = ArrayShape(x.dtype(), OtherDims(x.shape().elements()));
    Push(scope, b.Add(Op::kBitcast, std::span(&x.at, 1), NoAttrs{}, &same), x.known);
    return;
  }
  auto first = b.Add(Op::kAfterAll, {});
  if (!first) return;
  auto second = b.Add(Op::kAfterAll, {*first, *first});
  if (!second) return;
  Push(scope, b.Add(Op::kAddDependency, {x.at, *second}), x.known);
}

// Two arrays of whole numbers with a carry each, in a function of all four.
void Maker::ScanMany(Scope& scope) {
  auto found = Find(scope, [](const Value& v) {
    return IsInteger(v.dtype()) && v.shape().rank() > 0 && v.shape().elements() <= 800;
  });
  Dimensions fresh = AnyDims(400);
  if (fresh.empty()) fresh.push_back(dice_.Between(1, 9));
  Value x = found ? *found : Fresh(scope, AnyInteger(), fresh);
  Value y = Like(scope, x.dtype(), x.shape().dims(), true);
  int64_t dim = dice_.Below(x.shape().rank());
  Dimensions dims;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (d != dim) dims.push_back(x.shape().dim(d));
  }
  Shape slice = ArrayShape(x.dtype(), dims);
  Scope inner = NewScope(scope, "steps");
  Builder b = inner.builder();
  std::vector<Instruction*> now;
  for (int64_t k = 0; k < 4; ++k) now.push_back(*b.Parameter(k, slice));
  constexpr Op kOps[] = {Op::kAdd, Op::kSubtract, Op::kMultiply, Op::kMaximum, Op::kXor};
  for (int64_t n = dice_.Between(2, 5); n > 0; --n) {
    auto size = static_cast<int64_t>(now.size());
    Instruction* left = now[static_cast<size_t>(dice_.Below(size))];
    Instruction* right = now[static_cast<size_t>(dice_.Below(size))];
    auto made = b.Add(dice_.Of(kOps), {left, right});
    if (!made) return;
    now.push_back(*made);
  }
  std::vector<Instruction*> results;
  for (int k = 0; k < 4; ++k) {
    results.push_back(now[now.size() - 1 - static_cast<size_t>(dice_.Below(4))]);
  }
  inner.computation->set_root(*b.Tuple(results));
  auto first = scope.builder().Fill(slice, 0), second = scope.builder().Fill(slice, 1);
  if (!first || !second) return;
  ScanAttrs attrs{.dimensions = {dim}, .num_carries = 2, .is_reverse = dice_.Chance(40)};
  attrs.to_apply = inner.computation;
  auto made = scope.builder().Add(Op::kScan, {x.at, y.at, *first, *second}, attrs);
  if (!made) return;
  for (int64_t k = 0; k < 4; ++k) {
    Push(scope, scope.builder().GetTupleElement(*made, k), Unknown(x.dtype()));
  }
}

}  // namespace weft::hlo::random
