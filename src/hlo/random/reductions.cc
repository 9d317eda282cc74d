// Random reductions, scatters, sorts and contractions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "hlo/random/maker.h"

namespace weft::hlo::random {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

bool IsReal(DType t) {
  return IsFloat(t) || IsComplex(t);
}

}  // namespace

// An op to fold `count` values with, whose result can be compared.
std::optional<Combiner> AnyCombiner(Maker& maker, const Value& v, double count) {
  DType t = v.dtype();
  (void)count;
  if (t == DType::kPred) {
    constexpr Combiner kOps[] = {{Op::kAnd, 1}, {Op::kOr, 0}, {Op::kXor, 0}, {Op::kMaximum, 0}};
    return maker.dice.Of(kOps);
  }
  if (IsInteger(t)) {
    constexpr Combiner kOps[] = {{Op::kAdd, 0}, {Op::kMultiply, 1}, {Op::kMaximum, 0},
                                 {Op::kAdd, 1}, {Op::kMinimum, 1},  {Op::kAnd, 1},
                                 {Op::kOr, 0},  {Op::kXor, 0}};
    return maker.dice.Of(kOps);
  }
  if (!IsComputable(t)) return std::nullopt;
  if (IsComplex(t)) {
    if (maker.edges || !maker.IsUsable(v)) return std::nullopt;
    return Combiner{Op::kAdd, 0};
  }
  if (maker.edges || !maker.IsUsable(v) || maker.dice.Chance(40)) {
    constexpr Combiner kOps[] = {{Op::kMaximum, -2}, {Op::kMinimum, 2}, {Op::kMaximum, -kNoBound}};
    Combiner c = maker.dice.Of(kOps);
    if (BitWidth(t) < 16 && std::isinf(c.init)) c.init = -4;
    return c;
  }
  return Combiner{Op::kAdd, maker.dice.Chance(70) ? 0.0 : 1.0};
}

Known Combined(const Maker& maker, const Combiner& combiner, const Known& known, DType dtype,
               double count) {
  if (!IsReal(dtype)) return maker.Unknown(dtype);
  Known result = known;
  result.magnitude = std::max(known.magnitude, std::abs(combiner.init));
  if (combiner.op == Op::kAdd) return maker.Folded(result, dtype, count + 1);
  result.ulps = 0;
  return result;
}

// The larger or lesser of two whole numbers by comparing them.
Computation* SelectingComputation(Maker& maker, Scope& scope, Op op, DType dtype) {
  Scope inner = NewScope(maker, scope, "selecting");
  Builder b = inner.builder();
  Instruction* x = *b.Parameter(0, Shape::Scalar(dtype));
  Instruction* y = *b.Parameter(1, Shape::Scalar(dtype));
  bool swapped = maker.dice.Chance(50);
  Direction direction = op == Op::kMaximum ? Direction::kGt : Direction::kLt;
  Instruction* first = *b.Compare(swapped ? y : x, swapped ? x : y, direction);
  inner.computation->set_root(*b.Add(Op::kSelect, {first, swapped ? y : x, swapped ? x : y}));
  return inner.computation;
}

Computation* BinaryComputation(Maker& maker, Scope& scope, Op op, DType dtype) {
  bool ordered = op == Op::kMaximum || op == Op::kMinimum;
  if (IsInteger(dtype) && ordered && maker.dice.Chance(30))
    return SelectingComputation(maker, scope, op, dtype);
  return *AddScalarBinary(maker.module, op, dtype, scope.computation);
}

void ReduceAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 3000, false);
  ReduceAttrs attrs;
  double count = 1;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (!maker.dice.Chance(55)) continue;
    attrs.dimensions.push_back(d);
    count *= static_cast<double>(x.shape().dim(d));
  }
  auto c = AnyCombiner(maker, x, count);
  if (!c) return;
  attrs.to_apply = BinaryComputation(maker, scope, c->op, x.dtype());
  Value init = maker.Scalar(scope, x.dtype(), c->init);
  maker.Push(scope, scope.builder().Add(Op::kReduce, {x.at, init.at}, attrs),
             Combined(maker, *c, x.known, x.dtype(), count));
}

// Two arrays at once, each with its own op.
void ReduceMany(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 2000, false);
  auto other =
      maker.Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); });
  Value y = other ? *other : maker.Fresh(scope, maker.AnyType(), x.shape().dims());
  ReduceAttrs attrs;
  double count = 1;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (!maker.dice.Chance(55)) continue;
    attrs.dimensions.push_back(d);
    count *= static_cast<double>(x.shape().dim(d));
  }
  auto cx = AnyCombiner(maker, x, count), cy = AnyCombiner(maker, y, count);
  if (!cx || !cy) return;
  Scope inner = NewScope(maker, scope, "reducer");
  Builder b = inner.builder();
  Instruction* p[4];
  for (int64_t i = 0; i < 4; ++i) {
    p[i] = *b.Parameter(i, Shape::Scalar(i % 2 == 0 ? x.dtype() : y.dtype()));
  }
  auto first = b.Add(cx->op, {p[0], p[2]});
  auto second = b.Add(cy->op, {p[1], p[3]});
  if (!first || !second) return;
  Instruction* both[] = {*first, *second};
  inner.computation->set_root(*b.Tuple(both));
  attrs.to_apply = inner.computation;
  Value ix = maker.Scalar(scope, x.dtype(), cx->init),
        iy = maker.Scalar(scope, y.dtype(), cy->init);
  auto made = scope.builder().Add(Op::kReduce, {x.at, y.at, ix.at, iy.at}, attrs);
  if (!made) return;
  maker.Push(scope, scope.builder().GetTupleElement(*made, 0),
             Combined(maker, *cx, x.known, x.dtype(), count));
  maker.Push(scope, scope.builder().GetTupleElement(*made, 1),
             Combined(maker, *cy, y.known, y.dtype(), count));
}

void ArgMax(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 2000, true);
  if (IsComplex(x.dtype()) || x.dtype() == DType::kF8E8M0FNU || x.dtype() == DType::kPred) return;
  if (maker.edges && IsFloat(x.dtype())) return;
  if (IsFloat(x.dtype()) && !std::isfinite(x.known.magnitude)) return;
  int64_t dim = maker.dice.Below(x.shape().rank());
  DType index = maker.dice.Chance(70) ? DType::kS32 : DType::kS64;
  Builder b = scope.builder();
  Shape shape = x.shape();
  shape.set_dtype(index);
  auto places = b.Add(Op::kIota, {}, IotaAttrs{.iota_dimension = dim}, &shape);
  if (!places) return;
  Scope inner = NewScope(maker, scope, "larger");
  Builder r = inner.builder();
  Instruction* v1 = *r.Parameter(0, Shape::Scalar(x.dtype()));
  Instruction* i1 = *r.Parameter(1, Shape::Scalar(index));
  Instruction* v2 = *r.Parameter(2, Shape::Scalar(x.dtype()));
  Instruction* i2 = *r.Parameter(3, Shape::Scalar(index));
  Direction before = maker.dice.Chance(50) ? Direction::kGt : Direction::kLt;
  Instruction* better = *r.Compare(v1, v2, before);
  Instruction* tie =
      *r.Add(Op::kAnd, {*r.Compare(v1, v2, Direction::kEq), *r.Compare(i1, i2, Direction::kLt)});
  Instruction* either = *r.Add(Op::kOr, {better, tie});
  Instruction* both[] = {*r.Add(Op::kSelect, {maker.dice.Chance(50) ? better : either, v1, v2}),
                         *r.Add(Op::kSelect, {either, i1, i2})};
  inner.computation->set_root(*r.Tuple(both));
  double init = BitWidth(x.dtype()) < 8 ? 0 : before == Direction::kGt ? -4 : 4;
  if (IsUnsigned(x.dtype())) init = before == Direction::kGt ? 0 : 3;
  Value ix = maker.Scalar(scope, x.dtype(), init), ii = maker.Scalar(scope, index, 0);
  auto made = b.Add(Op::kReduce, {x.at, *places, ix.at, ii.at},
                    ReduceAttrs{.dimensions = {dim}, .to_apply = inner.computation});
  if (!made) return;
  Known value = x.known;
  value.magnitude = std::max(value.magnitude, 4.0);
  maker.Push(scope, b.GetTupleElement(*made, 0), value);
  maker.Push(scope, b.GetTupleElement(*made, 1), maker.Unknown(index));
}

void ReduceWindowAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 600, false);
  ReduceWindowAttrs attrs;
  bool scan = maker.dice.Chance(30);
  int64_t along = maker.dice.Below(x.shape().rank());
  double count = 1;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    WindowDim w;
    int64_t n = x.shape().dim(d);
    if (scan && d == along && n > 0) {
      w.size = n;
      (maker.dice.Chance(60) ? w.pad_low : w.pad_high) = n - 1;
    } else if (!scan && maker.dice.Chance(70)) {
      w.size = maker.dice.Between(1, std::max<int64_t>(1, std::min<int64_t>(n, 4)));
      w.stride = maker.dice.Between(1, 3);
      w.pad_low = maker.dice.Between(-1, 2);
      w.pad_high = maker.dice.Between(0, 2);
      if (maker.dice.Chance(20)) w.window_dilation = 2;
      if (maker.dice.Chance(10)) w.base_dilation = 2;
    }
    count *= static_cast<double>(w.size);
    attrs.window.dims.push_back(w);
  }
  auto c = AnyCombiner(maker, x, count);
  if (!c) return;
  // A fold starts with the initial value once, or more often.
  if (c->op == Op::kAdd) c->init = 0;
  attrs.to_apply = BinaryComputation(maker, scope, c->op, x.dtype());
  Value init = maker.Scalar(scope, x.dtype(), c->init);
  maker.Push(scope, scope.builder().Add(Op::kReduceWindow, {x.at, init.at}, attrs),
             Combined(maker, *c, x.known, x.dtype(), count));
}

void SelectAndScatterAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 400, true);
  if (IsComplex(x.dtype()) || x.dtype() == DType::kPred || x.dtype() == DType::kF8E8M0FNU) return;
  if (IsFloat(x.dtype()) && !std::isfinite(x.known.magnitude)) return;
  SelectAndScatterAttrs attrs;
  Dimensions dims;
  double count = 1;
  for (int64_t n : x.shape().dims()) {
    WindowDim w;
    w.size = maker.dice.Between(1, 3);
    w.stride = maker.dice.Between(1, 3);
    w.pad_low = w.size > 1 && maker.dice.Chance(30) ? 1 : 0;
    int64_t padded = n + w.pad_low;
    if (padded < w.size) return;
    dims.push_back((padded - w.size) / w.stride + 1);
    count *= static_cast<double>(w.size);
    attrs.window.dims.push_back(w);
  }
  Value source = maker.Like(scope, x.dtype(), Dims(dims), false);
  if (!maker.IsUsable(source)) return;
  auto c = AnyCombiner(maker, source, count);
  if (!c) return;
  Scope inner = NewScope(maker, scope, "ge");
  Builder b = inner.builder();
  Instruction* a = *b.Parameter(0, Shape::Scalar(x.dtype()));
  Instruction* e = *b.Parameter(1, Shape::Scalar(x.dtype()));
  inner.computation->set_root(
      *b.Compare(a, e, maker.dice.Chance(70) ? Direction::kGe : Direction::kLe));
  attrs.select = inner.computation;
  attrs.scatter = BinaryComputation(maker, scope, c->op, x.dtype());
  Value init = maker.Scalar(scope, x.dtype(), std::isfinite(c->init) ? c->init : 0);
  maker.Push(scope, scope.builder().Add(Op::kSelectAndScatter, {x.at, source.at, init.at}, attrs),
             Combined(maker, *c, source.known, x.dtype(), count));
}

void PushSort(Maker& maker, Scope& scope, std::span<const Value> arrays, const SortAttrs& attrs) {
  std::vector<Instruction*> operands;
  for (const Value& v : arrays) operands.push_back(v.at);
  auto made = scope.builder().Add(Op::kSort, operands, attrs);
  if (!made) return;
  if (arrays.size() == 1) {
    maker.Push(scope, made, arrays[0].known);
    return;
  }
  for (size_t k = 0; k < arrays.size(); ++k) {
    maker.Push(scope, scope.builder().GetTupleElement(*made, static_cast<int64_t>(k)),
               arrays[k].known);
  }
}

void SortAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 600, true);
  if (IsComplex(x.dtype()) || x.dtype() == DType::kF8E8M0FNU || x.dtype() == DType::kPred) return;
  if (IsFloat(x.dtype()) && !std::isfinite(x.known.magnitude)) return;
  if (!maker.HasSignedZeros(x)) return;
  SortAttrs attrs{.dimensions = {maker.dice.Below(x.shape().rank())}, .is_stable = true};
  std::vector<Value> arrays = {x};
  if (maker.dice.Chance(50)) {
    auto other =
        maker.Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); });
    if (other) arrays.push_back(*other);
  }
  Scope inner = NewScope(maker, scope, "compare");
  Builder b = inner.builder();
  Instruction *first = nullptr, *second = nullptr;
  for (int64_t i = 0; i < static_cast<int64_t>(2 * arrays.size()); ++i) {
    Instruction* p = *b.Parameter(i, Shape::Scalar(arrays[static_cast<size_t>(i / 2)].dtype()));
    if (i == 0) first = p;
    if (i == 1) second = p;
  }
  // Where there may be NaNs, only the total order is an order.
  CompareAttrs order{.direction = maker.dice.Chance(50) ? Direction::kLt : Direction::kGt};
  if (IsFloat(x.dtype())) order.type = ComparisonType::kTotalOrder;
  inner.computation->set_root(*b.Add(Op::kCompare, {first, second}, order));
  attrs.to_apply = inner.computation;
  PushSort(maker, scope, arrays, attrs);
}

void DotAny(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  auto found = maker.Find(scope, [&](const Value& v) {
    return v.shape().rank() >= 1 && v.shape().elements() <= 600 && maker.IsUsable(v) &&
           (IsFloat(v.dtype()) ? BitWidth(v.dtype()) >= 16 : BitWidth(v.dtype()) >= 8) &&
           v.dtype() != DType::kPred;
  });
  Value x = found ? *found : maker.Fresh(scope, DType::kF32, maker.AnyDims(400));
  int64_t rank = x.shape().rank();
  DotAttrs attrs;
  Dimensions dims;
  double count = 1;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t role = maker.dice.Below(4);
    if (role == 0) {
      attrs.lhs_batch_dims.push_back(d);
      attrs.rhs_batch_dims.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(x.shape().dim(d));
    } else if (role <= 2) {
      attrs.lhs_contracting_dims.push_back(d);
      attrs.rhs_contracting_dims.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(x.shape().dim(d));
      count *= static_cast<double>(x.shape().dim(d));
    }
  }
  for (int64_t n = maker.dice.Between(0, 2); n > 0; --n) dims.push_back(maker.dice.Between(1, 17));
  Value y = maker.Like(scope, x.dtype(), Dims(dims), false);
  if (!maker.IsUsable(y)) return;
  Known known = maker.Product(x, y);
  Known sum = maker.Folded(known, x.dtype(), std::max(count, 1.0));
  if (known.whole && sum.magnitude > LargestExact(x.dtype()) && IsReal(x.dtype())) {
    sum.error = std::max(sum.error, count * Epsilon(x.dtype()) * sum.magnitude);
  }
  maker.Push(scope, scope.builder().Add(Op::kDot, {x.at, y.at}, attrs), sum);
}

// exp(x - max) / sum: one operand, several reductions, broadcast back.
void Softmax(Maker& maker, Scope& scope) {
  if (maker.edges) return;
  DType t = maker.dice.Chance(70) ? DType::kF32 : DType::kBF16;
  auto found = maker.Find(scope, [&](const Value& v) {
    return v.dtype() == t && v.shape().rank() >= 1 && v.known.magnitude <= 50 &&
           v.known.error < 1e-2 && v.shape().elements() > 0;
  });
  Dimensions fresh = maker.AnyDims(1500);
  fresh.push_back(maker.dice.Between(1, 40));
  Value x = found ? *found : maker.Fresh(scope, t, fresh);
  if (x.shape().elements() == 0) return;
  if (!(x.known.magnitude <= 50)) return;
  int64_t dim = maker.dice.Chance(70) ? x.shape().rank() - 1 : maker.dice.Below(x.shape().rank());
  Builder b = scope.builder();
  Ints kept;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (d != dim) kept.push_back(d);
  }
  auto largest = b.Reduce(x.at, b.ScalarConstant(t, -1000), {dim},
                          BinaryComputation(maker, scope, Op::kMaximum, t));
  if (!largest) return;
  auto shift = b.Broadcast(*largest, x.shape(), kept);
  auto centred = b.Add(Op::kSubtract, {x.at, *shift});
  auto exp = b.Add(Op::kExponential, {*centred});
  auto sum =
      b.Reduce(*exp, b.ScalarConstant(t, 0), {dim}, BinaryComputation(maker, scope, Op::kAdd, t));
  if (!sum) return;
  auto wide = b.Broadcast(*sum, x.shape(), kept);
  auto n = static_cast<double>(x.shape().dim(dim));
  Known known = maker.Inexact(0, t, 1);
  known.error = 2 * x.known.error * n + (n + 400) * Epsilon(t);
  maker.Push(scope, b.Add(Op::kDivide, {*exp, *wide}), known);
}

}  // namespace weft::hlo::random
