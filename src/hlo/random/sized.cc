// Random arrays with a size of their own in one dimension, known when the program runs.
#include <algorithm>

#include "hlo/random/maker.h"

namespace weft::hlo::random {

Result<Instruction*> SizedSlice(Maker& maker, Scope& scope, const Value& x, int64_t dim) {
  Builder b = scope.builder();
  int64_t rank = x.shape().rank();
  SliceAttrs slice;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t n = x.shape().dim(d);
    slice.slice.push_back({d == dim ? maker.dice.Between(0, n) : 0, n, d == dim ? 2 : 1});
  }
  // A dimension of one element has that size.
  const SliceDim& cut_dim = slice.slice[static_cast<size_t>(dim)];
  if (cut_dim.limit - cut_dim.start <= 2) return nullptr;
  return b.Add(Op::kSlice, {x.at}, slice);
}

Result<Instruction*> SizedPad(Maker& maker, Scope& scope, const Value& x, int64_t dim,
                              Known& known) {
  Builder b = scope.builder();
  int64_t rank = x.shape().rank();
  PadAttrs pad;
  pad.padding.resize(static_cast<size_t>(rank));
  pad.padding[static_cast<size_t>(dim)] = {maker.dice.Between(0, 2), maker.dice.Between(0, 2),
                                           maker.dice.Between(0, 2)};
  Value fill = maker.Like(scope, x.dtype(), Dims(), false);
  known = maker.Union(known, fill.known);
  return b.Add(Op::kPad, {x.at, fill.at}, pad);
}

// Another copy beside it.
Result<Instruction*> SizedBroadcast(Scope& scope, const Value& x, int64_t dim) {
  Builder b = scope.builder();
  int64_t rank = x.shape().rank();
  if (x.shape().elements() > 300 || !x.shape().IsArray()) return nullptr;
  Dimensions dims = {2};
  Ints map;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(x.shape().dim(d)), map.push_back(d + 1);
  Shape shape = ArrayShape(x.dtype(), dims);
  shape.set_dynamic(dim + 1, true);
  return b.Broadcast(x.at, shape, map);
}

Result<Instruction*> SizedCollective(Maker& maker, Scope& scope, const Value& x) {
  Builder b = scope.builder();
  int64_t rank = x.shape().rank();
  if (Devices(maker) == 1 || !scope.uniform) return nullptr;
  if (maker.dice.Chance(50)) {
    CollectivePermuteAttrs attrs;
    if (maker.module.config().num_partitions > 1) attrs.channel_id = ++maker.channels;
    int64_t count = attrs.channel_id ? maker.module.config().num_partitions : Devices(maker);
    for (int64_t i = 0; i < count; i += 2) attrs.source_target_pairs.push_back({i, count - 1 - i});
    return b.Add(Op::kCollectivePermute, {x.at}, attrs);
  }
  AllGatherAttrs attrs;
  int64_t along = maker.dice.Below(rank);
  attrs.dimensions = {along};
  Shape shape = x.shape();
  shape.set_dim(along, shape.dim(along) * ChooseGroups(maker, attrs, true));
  return b.Add(Op::kAllGather, std::span(&x.at, 1), attrs, &shape);
}

Result<Instruction*> SizedSort(Maker& maker, Scope& scope, const Value& x, int64_t dim) {
  Builder b = scope.builder();
  if (!x.known.exact() || IsComplex(x.dtype()) || x.dtype() == DType::kF8E8M0FNU) return nullptr;
  if (IsFloat(x.dtype()) && !(x.known.magnitude < 1e9)) return nullptr;
  SortAttrs attrs{.dimensions = {dim}, .is_stable = true};
  Scope inner = NewScope(maker, scope, "sized_order");
  Builder r = inner.builder();
  Instruction* p = *r.Parameter(0, Shape::Scalar(x.dtype()));
  Instruction* q = *r.Parameter(1, Shape::Scalar(x.dtype()));
  inner.computation->set_root(*r.Compare(p, q, Direction::kLt));
  attrs.to_apply = inner.computation;
  return b.Add(Op::kSort, {x.at}, attrs);
}

// One op after which `dim` still has a size of its own; nothing where it does not fit.
void SizedStep(Maker& maker, Scope& scope, Value& x, int64_t& dim) {
  Builder b = scope.builder();
  int64_t rank = x.shape().rank();
  Result<Instruction*> made = nullptr;
  Known known = x.known;
  switch (maker.dice.Below(12)) {
    case 0: made = b.Add(Op::kReverse, {x.at}, DimensionsAttrs{.dimensions = {dim}}); break;
    case 1: made = SizedSlice(maker, scope, x, dim); break;
    case 2: {
      Dims dims = x.shape().dims();
      dims[dim] = maker.dice.Between(1, 5);
      Value other = maker.Like(scope, x.dtype(), dims, false);
      known = maker.Union(known, other.known);
      made = b.Add(Op::kConcatenate, {x.at, other.at, x.at}, DimensionsAttrs{.dimensions = {dim}});
      break;
    }
    case 3: made = SizedPad(maker, scope, x, dim, known); break;
    case 4: {
      Ints order(static_cast<size_t>(rank));
      for (int64_t d = 0; d < rank; ++d) order[static_cast<size_t>(d)] = (d + 1) % rank;
      made = b.Transpose(x.at, order);
      if (made) dim = (dim + rank - 1) % rank;
      break;
    }
    case 5: made = b.Convert(x.at, x.dtype()); break;
    case 6: {
      if (!maker.IsUsable(x)) return;
      known = maker.Sum(x, x);
      made = b.Add(Op::kAdd, {x.at, x.at});
      break;
    }
    case 7: {
      if (IsComplex(x.dtype()) || !IsComputable(x.dtype()) || !maker.IsUsable(x)) return;
      made = b.Add(Op::kMaximum, {x.at, x.at});
      known.ulps = 0;
      break;
    }
    case 8:
      made = SizedBroadcast(scope, x, dim);
      if (made && *made != nullptr) ++dim;
      break;
    case 9:
    case 10: made = SizedCollective(maker, scope, x); break;
    default: made = SizedSort(maker, scope, x, dim);
  }
  if (!made || *made == nullptr || (*made)->shape().elements() > 3000) return;
  x = {*made, known};
}

// An array with a size of its own in one dimension, moved about and folded along it.
void SizedAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 600, false);
  int64_t dim = maker.dice.Below(x.shape().rank()), bound = x.shape().dim(dim);
  Builder b = scope.builder();
  Value wanted = maker.Like(scope, DType::kS32, Dims(), true);
  // Devices that meet have the same sizes.
  if (Devices(maker) > 1)
    wanted = maker.Scalar(scope, DType::kS32, static_cast<double>(maker.dice.Below(bound + 1)));
  auto size = b.Add(Op::kClamp, {b.ScalarConstant(DType::kS32, 0), wanted.at,
                                 b.ScalarConstant(DType::kS32, static_cast<double>(bound))});
  if (!size) return;
  auto sized = b.Add(Op::kSetDimensionSize, {x.at, *size}, DimensionsAttrs{.dimensions = {dim}});
  if (!sized) return;
  Value now{*sized, x.known};
  for (int64_t n = maker.dice.Between(0, 3); n > 0; --n) SizedStep(maker, scope, now, dim);
  maker.Push(scope, b.Add(Op::kGetDimensionSize, {now.at}, DimensionsAttrs{.dimensions = {dim}}),
             maker.Unknown(DType::kS32));
  auto count = static_cast<double>(now.shape().dim(dim));
  auto c = AnyCombiner(maker, now, count);
  if (!c) return;
  Value init = maker.Scalar(scope, now.dtype(), c->init);
  ReduceAttrs attrs{.dimensions = {dim}};
  attrs.to_apply = BinaryComputation(maker, scope, c->op, now.dtype());
  maker.Push(scope, b.Add(Op::kReduce, {now.at, init.at}, attrs),
             Combined(maker, *c, now.known, now.dtype(), count));
}

}  // namespace weft::hlo::random
