// Random arrays with a size of their own in one dimension, known when the program runs.
#include <algorithm>

#include "hlo/random/maker.h"

namespace weft::hlo::random {

// One op after which `dim` still has a size of its own; nothing where it does not fit.
void Maker::SizedStep(Scope& scope, Value& x, int64_t& dim) {
  Builder b = scope.builder();
  int64_t rank = x.shape().rank();
  Result<Instruction*> made = nullptr;
  Known known = x.known;
  switch (dice_.Below(12)) {
    case 0: made = b.Add(Op::kReverse, {x.at}, DimensionsAttrs{.dimensions = {dim}}); break;
    case 1: {
      SliceAttrs slice;
      for (int64_t d = 0; d < rank; ++d) {
        int64_t n = x.shape().dim(d);
        slice.slice.push_back({d == dim ? dice_.Between(0, n) : 0, n, d == dim ? 2 : 1});
      }
      // A dimension of one element has that size.
      const SliceDim& cut_dim = slice.slice[static_cast<size_t>(dim)];
      if (cut_dim.limit - cut_dim.start <= 2) return;
      made = b.Add(Op::kSlice, {x.at}, slice);
      break;
    }
    case 2: {
      Dims dims = x.shape().dims();
      dims[dim] = dice_.Between(1, 5);
      Value other = Like(scope, x.dtype(), dims, false);
      known = Union(known, other.known);
      made = b.Add(Op::kConcatenate, {x.at, other.at, x.at}, DimensionsAttrs{.dimensions = {dim}});
      break;
    }
    case 3: {
      PadAttrs pad;
      pad.padding.resize(static_cast<size_t>(rank));
      pad.padding[static_cast<size_t>(dim)] = {dice_.Between(0, 2), dice_.Between(0, 2),
                                               dice_.Between(0, 2)};
      Value fill = Like(scope, x.dtype(), Dims(), false);
      known = Union(known, fill.known);
      made = b.Add(Op::kPad, {x.at, fill.at}, pad);
      break;
    }
    case 4: {
      Ints order(static_cast<size_t>(rank));
      for (int64_t d = 0; d < rank; ++d) order[static_cast<size_t>(d)] = (d + 1) % rank;
      made = b.Transpose(x.at, order);
      if (made) dim = (dim + rank - 1) % rank;
      break;
    }
    case 5: made = b.Convert(x.at, x.dtype()); break;
    case 6: {
      if (!IsUsable(x)) return;
      known = Sum(x, x);
      made = b.Add(Op::kAdd, {x.at, x.at});
      break;
    }
    case 7: {
      if (IsComplex(x.dtype()) || !IsComputable(x.dtype()) || !IsUsable(x)) return;
      made = b.Add(Op::kMaximum, {x.at, x.at});
      known.ulps = 0;
      break;
    }
    case 8: {  // another copy beside it
      if (x.shape().elements() > 300 || !x.shape().IsArray()) return;
      Dimensions dims = {2};
      Ints map;
      for (int64_t d = 0; d < rank; ++d) dims.push_back(x.shape().dim(d)), map.push_back(d + 1);
      Shape shape = ArrayShape(x.dtype(), dims);
      shape.set_dynamic(dim + 1, true);
      made = b.Broadcast(x.at, shape, map);
      if (made) ++dim;
      break;
    }
    case 9:
    case 10: {
      if (Devices() == 1 || !scope.uniform) return;
      if (dice_.Chance(50)) {
        CollectivePermuteAttrs attrs;
        if (module_.config().num_partitions > 1) attrs.channel_id = ++channels_;
        int64_t count = attrs.channel_id ? module_.config().num_partitions : Devices();
        for (int64_t i = 0; i < count; i += 2)
          attrs.source_target_pairs.push_back({i, count - 1 - i});
        made = b.Add(Op::kCollectivePermute, {x.at}, attrs);
        break;
      }
      AllGatherAttrs attrs;
      int64_t along = dice_.Below(rank);
      attrs.dimensions = {along};
      Shape shape = x.shape();
      shape.set_dim(along, shape.dim(along) * ChooseGroups(attrs, true));
      made = b.Add(Op::kAllGather, std::span(&x.at, 1), attrs, &shape);
      break;
    }
    default: {
      if (!x.known.exact() || IsComplex(x.dtype()) || x.dtype() == DType::kF8E8M0FNU) return;
      if (IsFloat(x.dtype()) && !(x.known.magnitude < 1e9)) return;
      SortAttrs attrs{.dimensions = {dim}, .is_stable = true};
      Scope inner = NewScope(scope, "sized_order");
      Builder r = inner.builder();
      Instruction* p = *r.Parameter(0, Shape::Scalar(x.dtype()));
      Instruction* q = *r.Parameter(1, Shape::Scalar(x.dtype()));
      inner.computation->set_root(*r.Compare(p, q, Direction::kLt));
      attrs.to_apply = inner.computation;
      made = b.Add(Op::kSort, {x.at}, attrs);
    }
  }
  if (!made || (*made)->shape().elements() > 3000) return;
  x = {*made, known};
}

// An array with a size of its own in one dimension, moved about and folded along it.
void Maker::SizedAny(Scope& scope) {
  Value x = AnyOf(scope, 1, 600, false);
  int64_t dim = dice_.Below(x.shape().rank()), bound = x.shape().dim(dim);
  Builder b = scope.builder();
  Value wanted = Like(scope, DType::kS32, Dims(), true);
  // Devices that meet have the same sizes.
  if (Devices() > 1)
    wanted = Scalar(scope, DType::kS32, static_cast<double>(dice_.Below(bound + 1)));
  auto size = b.Add(Op::kClamp, {b.ScalarConstant(DType::kS32, 0), wanted.at,
                                 b.ScalarConstant(DType::kS32, static_cast<double>(bound))});
  if (!size) return;
  auto sized = b.Add(Op::kSetDimensionSize, {x.at, *size}, DimensionsAttrs{.dimensions = {dim}});
  if (!sized) return;
  Value now{*sized, x.known};
  for (int64_t n = dice_.Between(0, 3); n > 0; --n) SizedStep(scope, now, dim);
  Push(scope, b.Add(Op::kGetDimensionSize, {now.at}, DimensionsAttrs{.dimensions = {dim}}),
       Unknown(DType::kS32));
  auto count = static_cast<double>(now.shape().dim(dim));
  auto c = AnyCombiner(now, count);
  if (!c) return;
  Value init = Scalar(scope, now.dtype(), c->init);
  ReduceAttrs attrs{.dimensions = {dim}};
  attrs.to_apply = BinaryComputation(scope, c->op, now.dtype());
  Push(scope, b.Add(Op::kReduce, {now.at, init.at}, attrs),
       Combined(*c, now.known, now.dtype(), count));
}

}  // namespace weft::hlo::random
