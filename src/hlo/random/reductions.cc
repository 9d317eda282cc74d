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
std::optional<Maker::Combiner> Maker::AnyCombiner(const Value& v, double count) {
  DType t = v.dtype();
  (void)count;
  if (t == DType::kPred) {
    constexpr Combiner kOps[] = {{Op::kAnd, 1}, {Op::kOr, 0}, {Op::kXor, 0}, {Op::kMaximum, 0}};
    return dice_.Of(kOps);
  }
  if (IsInteger(t)) {
    constexpr Combiner kOps[] = {{Op::kAdd, 0}, {Op::kMultiply, 1}, {Op::kMaximum, 0},
                                 {Op::kAdd, 1}, {Op::kMinimum, 1},  {Op::kAnd, 1},
                                 {Op::kOr, 0},  {Op::kXor, 0}};
    return dice_.Of(kOps);
  }
  if (!IsComputable(t)) return std::nullopt;
  if (IsComplex(t)) {
    if (edges_ || !IsUsable(v)) return std::nullopt;
    return Combiner{Op::kAdd, 0};
  }
  if (edges_ || !IsUsable(v) || dice_.Chance(40)) {
    constexpr Combiner kOps[] = {{Op::kMaximum, -2}, {Op::kMinimum, 2}, {Op::kMaximum, -kNoBound}};
    Combiner c = dice_.Of(kOps);
    if (BitWidth(t) < 16 && std::isinf(c.init)) c.init = -4;
    return c;
  }
  return Combiner{Op::kAdd, dice_.Chance(70) ? 0.0 : 1.0};
}

Known Maker::Combined(const Combiner& combiner, const Known& known, DType dtype,
                      double count) const {
  if (!IsReal(dtype)) return Unknown(dtype);
  Known result = known;
  result.magnitude = std::max(known.magnitude, std::abs(combiner.init));
  if (combiner.op == Op::kAdd) return Folded(result, dtype, count + 1);
  result.ulps = 0;
  return result;
}

// The larger or lesser of two whole numbers by comparing them.
Computation* Maker::SelectingComputation(Scope& scope, Op op, DType dtype) {
  Scope inner = NewScope(scope, "selecting");
  Builder b = inner.builder();
  Instruction* x = *b.Parameter(0, Shape::Scalar(dtype));
  Instruction* y = *b.Parameter(1, Shape::Scalar(dtype));
  bool swapped = dice_.Chance(50);
  Direction direction = op == Op::kMaximum ? Direction::kGt : Direction::kLt;
  Instruction* first = *b.Compare(swapped ? y : x, swapped ? x : y, direction);
  inner.computation->set_root(*b.Add(Op::kSelect, {first, swapped ? y : x, swapped ? x : y}));
  return inner.computation;
}

Computation* Maker::BinaryComputation(Scope& scope, Op op, DType dtype) {
  bool ordered = op == Op::kMaximum || op == Op::kMinimum;
  if (IsInteger(dtype) && ordered && dice_.Chance(30))
    return SelectingComputation(scope, op, dtype);
  return *AddScalarBinary(module_, op, dtype, scope.computation);
}

void Maker::ReduceAny(Scope& scope) {
  Value x = AnyOf(scope, 1, 3000, false);
  ReduceAttrs attrs;
  double count = 1;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (!dice_.Chance(55)) continue;
    attrs.dimensions.push_back(d);
    count *= static_cast<double>(x.shape().dim(d));
  }
  auto c = AnyCombiner(x, count);
  if (!c) return;
  attrs.to_apply = BinaryComputation(scope, c->op, x.dtype());
  Value init = Scalar(scope, x.dtype(), c->init);
  Push(scope, scope.builder().Add(Op::kReduce, {x.at, init.at}, attrs),
       Combined(*c, x.known, x.dtype(), count));
}

// Two arrays at once, each with its own op.
void Maker::ReduceMany(Scope& scope) {
  Value x = AnyOf(scope, 1, 2000, false);
  auto other = Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); });
  Value y = other ? *other : Fresh(scope, AnyType(), x.shape().dims());
  ReduceAttrs attrs;
  double count = 1;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (!dice_.Chance(55)) continue;
    attrs.dimensions.push_back(d);
    count *= static_cast<double>(x.shape().dim(d));
  }
  auto cx = AnyCombiner(x, count), cy = AnyCombiner(y, count);
  if (!cx || !cy) return;
  Scope inner = NewScope(scope, "reducer");
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
  Value ix = Scalar(scope, x.dtype(), cx->init), iy = Scalar(scope, y.dtype(), cy->init);
  auto made = scope.builder().Add(Op::kReduce, {x.at, y.at, ix.at, iy.at}, attrs);
  if (!made) return;
  Push(scope, scope.builder().GetTupleElement(*made, 0), Combined(*cx, x.known, x.dtype(), count));
  Push(scope, scope.builder().GetTupleElement(*made, 1), Combined(*cy, y.known, y.dtype(), count));
}

void Maker::ArgMax(Scope& scope) {
  Value x = AnyOf(scope, 1, 2000, true);
  if (IsComplex(x.dtype()) || x.dtype() == DType::kF8E8M0FNU || x.dtype() == DType::kPred) return;
  if (edges_ && IsFloat(x.dtype())) return;
  if (IsFloat(x.dtype()) && !std::isfinite(x.known.magnitude)) return;
  int64_t dim = dice_.Below(x.shape().rank());
  DType index = dice_.Chance(70) ? DType::kS32 : DType::kS64;
  Builder b = scope.builder();
  Shape shape = x.shape();
  shape.set_dtype(index);
  auto places = b.Add(Op::kIota, {}, IotaAttrs{.iota_dimension = dim}, &shape);
  if (!places) return;
  Scope inner = NewScope(scope, "larger");
  Builder r = inner.builder();
  Instruction* v1 = *r.Parameter(0, Shape::Scalar(x.dtype()));
  Instruction* i1 = *r.Parameter(1, Shape::Scalar(index));
  Instruction* v2 = *r.Parameter(2, Shape::Scalar(x.dtype()));
  Instruction* i2 = *r.Parameter(3, Shape::Scalar(index));
  Direction before = dice_.Chance(50) ? Direction::kGt : Direction::kLt;
  Instruction* better = *r.Compare(v1, v2, before);
  Instruction* tie =
      *r.Add(Op::kAnd, {*r.Compare(v1, v2, Direction::kEq), *r.Compare(i1, i2, Direction::kLt)});
  Instruction* either = *r.Add(Op::kOr, {better, tie});
  Instruction* both[] = {*r.Add(Op::kSelect, {dice_.Chance(50) ? better : either, v1, v2}),
                         *r.Add(Op::kSelect, {either, i1, i2})};
  inner.computation->set_root(*r.Tuple(both));
  double init = BitWidth(x.dtype()) < 8 ? 0 : before == Direction::kGt ? -4 : 4;
  if (IsUnsigned(x.dtype())) init = before == Direction::kGt ? 0 : 3;
  Value ix = Scalar(scope, x.dtype(), init), ii = Scalar(scope, index, 0);
  auto made = b.Add(Op::kReduce, {x.at, *places, ix.at, ii.at},
                    ReduceAttrs{.dimensions = {dim}, .to_apply = inner.computation});
  if (!made) return;
  Known value = x.known;
  value.magnitude = std::max(value.magnitude, 4.0);
  Push(scope, b.GetTupleElement(*made, 0), value);
  Push(scope, b.GetTupleElement(*made, 1), Unknown(index));
}

void Maker::ReduceWindowAny(Scope& scope) {
  Value x = AnyOf(scope, 1, 600, false);
  ReduceWindowAttrs attrs;
  bool scan = dice_.Chance(30);
  int64_t along = dice_.Below(x.shape().rank());
  double count = 1;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    WindowDim w;
    int64_t n = x.shape().dim(d);
    if (scan && d == along && n > 0) {
      w.size = n;
      (dice_.Chance(60) ? w.pad_low : w.pad_high) = n - 1;
    } else if (!scan && dice_.Chance(70)) {
      w.size = dice_.Between(1, std::max<int64_t>(1, std::min<int64_t>(n, 4)));
      w.stride = dice_.Between(1, 3);
      w.pad_low = dice_.Between(-1, 2);
      w.pad_high = dice_.Between(0, 2);
      if (dice_.Chance(20)) w.window_dilation = 2;
      if (dice_.Chance(10)) w.base_dilation = 2;
    }
    count *= static_cast<double>(w.size);
    attrs.window.dims.push_back(w);
  }
  auto c = AnyCombiner(x, count);
  if (!c) return;
  // A fold starts with the initial value once, or more often.
  if (c->op == Op::kAdd) c->init = 0;
  attrs.to_apply = BinaryComputation(scope, c->op, x.dtype());
  Value init = Scalar(scope, x.dtype(), c->init);
  Push(scope, scope.builder().Add(Op::kReduceWindow, {x.at, init.at}, attrs),
       Combined(*c, x.known, x.dtype(), count));
}

void Maker::SelectAndScatterAny(Scope& scope) {
  Value x = AnyOf(scope, 1, 400, true);
  if (IsComplex(x.dtype()) || x.dtype() == DType::kPred || x.dtype() == DType::kF8E8M0FNU) return;
  if (IsFloat(x.dtype()) && !std::isfinite(x.known.magnitude)) return;
  SelectAndScatterAttrs attrs;
  Dimensions dims;
  double count = 1;
  for (int64_t n : x.shape().dims()) {
    WindowDim w;
    w.size = dice_.Between(1, 3);
    w.stride = dice_.Between(1, 3);
    w.pad_low = w.size > 1 && dice_.Chance(30) ? 1 : 0;
    int64_t padded = n + w.pad_low;
    if (padded < w.size) return;
    dims.push_back((padded - w.size) / w.stride + 1);
    count *= static_cast<double>(w.size);
    attrs.window.dims.push_back(w);
  }
  Value source = Like(scope, x.dtype(), Dims(dims), false);
  if (!IsUsable(source)) return;
  auto c = AnyCombiner(source, count);
  if (!c) return;
  Scope inner = NewScope(scope, "ge");
  Builder b = inner.builder();
  Instruction* a = *b.Parameter(0, Shape::Scalar(x.dtype()));
  Instruction* e = *b.Parameter(1, Shape::Scalar(x.dtype()));
  inner.computation->set_root(*b.Compare(a, e, dice_.Chance(70) ? Direction::kGe : Direction::kLe));
  attrs.select = inner.computation;
  attrs.scatter = BinaryComputation(scope, c->op, x.dtype());
  Value init = Scalar(scope, x.dtype(), std::isfinite(c->init) ? c->init : 0);
  Push(scope, scope.builder().Add(Op::kSelectAndScatter, {x.at, source.at, init.at}, attrs),
       Combined(*c, source.known, x.dtype(), count));
}

void Maker::ScatterAny(Scope& scope) {
  Value x = AnyOf(scope, 1, 2000, false);
  int64_t rank = x.shape().rank();
  ScatterAttrs attrs;
  Dimensions batch, windows;
  for (int64_t n = dice_.Between(0, 2); n > 0; --n) batch.push_back(dice_.Between(1, 9));
  for (int64_t d = 0; d < rank; ++d) {
    if (dice_.Chance(60) || (d + 1 == rank && attrs.scatter_dims_to_operand_dims.empty())) {
      attrs.scatter_dims_to_operand_dims.push_back(d);
    }
    int64_t size = x.shape().dim(d);
    if (size > 0 && dice_.Chance(55)) {
      attrs.inserted_window_dims.push_back(d);
    } else {
      windows.push_back(dice_.Chance(50) ? size : dice_.Between(0, std::min<int64_t>(size, 9)));
    }
  }
  bool first = dice_.Chance(50);  // window dimensions before the others
  for (size_t i = 0; i < windows.size(); ++i) {
    attrs.update_window_dims.push_back(static_cast<int64_t>(first ? i : i + batch.size()));
  }
  Dimensions updates = first ? windows : batch;
  updates.insert(updates.end(), first ? batch.begin() : windows.begin(),
                 first ? batch.end() : windows.end());
  attrs.index_vector_dim = static_cast<int64_t>(batch.size());
  Dimensions indices = batch;
  indices.push_back(static_cast<int64_t>(attrs.scatter_dims_to_operand_dims.size()));
  if (indices.back() == 1 && dice_.Chance(50)) indices.pop_back();
  double count = 1;
  for (int64_t n : batch) count *= static_cast<double>(n);
  Value at = Index(scope, indices);
  int64_t arrays = dice_.Chance(25) ? 2 : 1;
  std::vector<Value> operands = {x}, sources;
  if (arrays == 2) {
    auto other = Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); });
    operands.push_back(other ? *other : Fresh(scope, AnyType(), x.shape().dims()));
  }
  std::vector<Known> known;
  std::vector<std::optional<Op>> ops;
  for (const Value& operand : operands) {
    sources.push_back(Like(scope, operand.dtype(), Dims(updates), false));
    auto c = AnyCombiner(operand, count);
    if (!c || !IsUsable(sources.back()) || dice_.Chance(35)) {
      ops.push_back(std::nullopt);
      known.push_back(Union(operand.known, sources.back().known));
    } else {
      ops.push_back(c->op);
      c->init = 0;
      known.push_back(
          Combined(*c, Union(operand.known, sources.back().known), operand.dtype(), count));
    }
  }
  Scope inner = NewScope(scope, "combine");
  Builder b = inner.builder();
  std::vector<Instruction*> p, roots;
  for (int64_t i = 0; i < 2 * arrays; ++i) {
    p.push_back(*b.Parameter(i, Shape::Scalar(operands[static_cast<size_t>(i % arrays)].dtype())));
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    Instruction* update = p[k + static_cast<size_t>(arrays)];
    roots.push_back(ops[k] ? b.Add(*ops[k], {p[k], update}).value_or(update) : update);
  }
  inner.computation->set_root(arrays == 1 ? roots[0] : *b.Tuple(roots));
  attrs.to_apply = inner.computation;
  std::vector<Instruction*> all;
  for (const Value& v : operands) all.push_back(v.at);
  all.push_back(at.at);
  for (const Value& v : sources) all.push_back(v.at);
  auto made = scope.builder().Add(Op::kScatter, all, attrs);
  if (!made) return;
  if (arrays == 1) {
    Push(scope, made, known[0]);
    return;
  }
  for (int64_t k = 0; k < arrays; ++k) {
    Push(scope, scope.builder().GetTupleElement(*made, k), known[static_cast<size_t>(k)]);
  }
}

void Maker::PushSort(Scope& scope, std::span<const Value> arrays, const SortAttrs& attrs) {
  std::vector<Instruction*> operands;
  for (const Value& v : arrays) operands.push_back(v.at);
  auto made = scope.builder().Add(Op::kSort, operands, attrs);
  if (!made) return;
  if (arrays.size() == 1) {
    Push(scope, made, arrays[0].known);
    return;
  }
  for (size_t k = 0; k < arrays.size(); ++k) {
    Push(scope, scope.builder().GetTupleElement(*made, static_cast<int64_t>(k)), arrays[k].known);
  }
}

void Maker::SortAny(Scope& scope) {
  Value x = AnyOf(scope, 1, 600, true);
  if (IsComplex(x.dtype()) || x.dtype() == DType::kF8E8M0FNU || x.dtype() == DType::kPred) return;
  if (IsFloat(x.dtype()) && !std::isfinite(x.known.magnitude)) return;
  if (!HasSignedZeros(x)) return;
  SortAttrs attrs{.dimensions = {dice_.Below(x.shape().rank())}, .is_stable = true};
  std::vector<Value> arrays = {x};
  if (dice_.Chance(50)) {
    auto other = Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); });
    if (other) arrays.push_back(*other);
  }
  Scope inner = NewScope(scope, "compare");
  Builder b = inner.builder();
  Instruction *first = nullptr, *second = nullptr;
  for (int64_t i = 0; i < static_cast<int64_t>(2 * arrays.size()); ++i) {
    Instruction* p = *b.Parameter(i, Shape::Scalar(arrays[static_cast<size_t>(i / 2)].dtype()));
    if (i == 0) first = p;
    if (i == 1) second = p;
  }
  // Where there may be NaNs, only the total order is an order.
  CompareAttrs order{.direction = dice_.Chance(50) ? Direction::kLt : Direction::kGt};
  if (IsFloat(x.dtype())) order.type = ComparisonType::kTotalOrder;
  inner.computation->set_root(*b.Add(Op::kCompare, {first, second}, order));
  attrs.to_apply = inner.computation;
  PushSort(scope, arrays, attrs);
}

void Maker::DotAny(Scope& scope) {
  if (edges_) return;
  auto found = Find(scope, [&](const Value& v) {
    return v.shape().rank() >= 1 && v.shape().elements() <= 600 && IsUsable(v) &&
           (IsFloat(v.dtype()) ? BitWidth(v.dtype()) >= 16 : BitWidth(v.dtype()) >= 8) &&
           v.dtype() != DType::kPred;
  });
  Value x = found ? *found : Fresh(scope, DType::kF32, AnyDims(400));
  int64_t rank = x.shape().rank();
  DotAttrs attrs;
  Dimensions dims;
  double count = 1;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t role = dice_.Below(4);
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
  for (int64_t n = dice_.Between(0, 2); n > 0; --n) dims.push_back(dice_.Between(1, 17));
  Value y = Like(scope, x.dtype(), Dims(dims), false);
  if (!IsUsable(y)) return;
  Known known = Product(x, y);
  Known sum = Folded(known, x.dtype(), std::max(count, 1.0));
  if (known.whole && sum.magnitude > LargestExact(x.dtype()) && IsReal(x.dtype())) {
    sum.error = std::max(sum.error, count * Epsilon(x.dtype()) * sum.magnitude);
  }
  Push(scope, scope.builder().Add(Op::kDot, {x.at, y.at}, attrs), sum);
}

// exp(x - max) / sum: one operand, several reductions, broadcast back.
void Maker::Softmax(Scope& scope) {
  if (edges_) return;
  DType t = dice_.Chance(70) ? DType::kF32 : DType::kBF16;
  auto found = Find(scope, [&](const Value& v) {
    return v.dtype() == t && v.shape().rank() >= 1 && v.known.magnitude <= 50 &&
           v.known.error < 1e-2 && v.shape().elements() > 0;
  });
  Dimensions fresh = AnyDims(1500);
  fresh.push_back(dice_.Between(1, 40));
  Value x = found ? *found : Fresh(scope, t, fresh);
  if (x.shape().elements() == 0) return;
  if (!(x.known.magnitude <= 50)) return;
  int64_t dim = dice_.Chance(70) ? x.shape().rank() - 1 : dice_.Below(x.shape().rank());
  Builder b = scope.builder();
  Ints kept;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (d != dim) kept.push_back(d);
  }
  auto largest =
      b.Reduce(x.at, b.ScalarConstant(t, -1000), {dim}, BinaryComputation(scope, Op::kMaximum, t));
  if (!largest) return;
  auto shift = b.Broadcast(*largest, x.shape(), kept);
  auto centred = b.Add(Op::kSubtract, {x.at, *shift});
  auto exp = b.Add(Op::kExponential, {*centred});
  auto sum = b.Reduce(*exp, b.ScalarConstant(t, 0), {dim}, BinaryComputation(scope, Op::kAdd, t));
  if (!sum) return;
  auto wide = b.Broadcast(*sum, x.shape(), kept);
  auto n = static_cast<double>(x.shape().dim(dim));
  Known known = Inexact(0, t, 1);
  known.error = 2 * x.known.error * n + (n + 400) * Epsilon(t);
  Push(scope, b.Add(Op::kDivide, {*exp, *wide}), known);
}

}  // namespace weft::hlo::random
