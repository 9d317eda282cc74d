// Random data movement.
#include <algorithm>
#include <numeric>

#include "hlo/random/maker.h"

namespace weft::hlo::random {

Dimensions OtherDims(Maker& maker, int64_t elements) {
  Dimensions dims;
  int64_t left = elements;
  if (left == 0) return {maker.dice.Between(0, 3), 0};
  for (int i = 0; i < 3; ++i) {
    Dimensions factors;
    for (int64_t f = 1; f <= left; ++f) {
      if (left % f == 0) factors.push_back(f);
    }
    int64_t f =
        factors[static_cast<size_t>(maker.dice.Below(static_cast<int64_t>(factors.size())))];
    if (f == 1 && maker.dice.Chance(60)) continue;
    dims.push_back(f);
    left /= f;
  }
  if (left > 1)
    dims.insert(dims.begin() + maker.dice.Below(static_cast<int64_t>(dims.size()) + 1), left);
  return dims;
}

void BroadcastAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 0, 300, false);
  Dims from = x.shape().dims();
  Dimensions dims;
  Ints map;
  int64_t elements = std::max<int64_t>(x.shape().elements(), 1);
  for (size_t i = 0; i <= from.size(); ++i) {
    if (maker.dice.Chance(45)) {
      int64_t size = std::min(maker.AnySize(), 4000 / elements);
      dims.push_back(size);
      elements *= std::max<int64_t>(size, 1);
    }
    if (i == from.size()) break;
    map.push_back(static_cast<int64_t>(dims.size()));
    dims.push_back(from[static_cast<int64_t>(i)]);
  }
  Shape shape = ArrayShape(x.dtype(), dims);
  for (int64_t i = 0; i < x.shape().rank(); ++i) {
    shape.set_dynamic(map[static_cast<size_t>(i)], x.shape().is_dynamic(i));
  }
  maker.Push(scope, scope.builder().Broadcast(x.at, shape, map), x.known);
}

void ReshapeAny(Maker& maker, Scope& scope) {
  Value x = maker.Any(scope);
  maker.Push(scope, scope.builder().Reshape(x.at, OtherDims(maker, x.shape().elements())), x.known);
}

void TransposeAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 2, 3000, false);
  Ints order(static_cast<size_t>(x.shape().rank()));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(maker.dice.Below(static_cast<int64_t>(i)))]);
  }
  maker.Push(scope, scope.builder().Transpose(x.at, order), x.known);
}

void SliceAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 3000, false);
  SliceAttrs attrs;
  for (int64_t size : x.shape().dims()) {
    int64_t start = maker.dice.Chance(50) ? 0 : maker.dice.Between(0, size);
    int64_t limit = maker.dice.Chance(50) ? size : maker.dice.Between(start, size);
    attrs.slice.push_back({start, limit, maker.dice.Chance(70) ? 1 : maker.dice.Between(1, 4)});
  }
  maker.Push(scope, scope.builder().Add(Op::kSlice, {x.at}, attrs), x.known);
}

void PadAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 1000, false);
  Value fill = maker.Like(scope, x.dtype(), Dims(), false);
  PadAttrs attrs;
  for (int64_t size : x.shape().dims()) {
    PaddingDim p;
    if (maker.dice.Chance(60)) p.low = maker.dice.Between(-std::min<int64_t>(size, 3), 4);
    if (maker.dice.Chance(60)) p.high = maker.dice.Between(-std::min<int64_t>(size, 3), 4);
    if (maker.dice.Chance(20)) p.interior = maker.dice.Between(1, 2);
    attrs.padding.push_back(p);
  }
  maker.Push(scope, scope.builder().Add(Op::kPad, {x.at, fill.at}, attrs),
             maker.Union(x.known, fill.known));
}

void ConcatenateAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 1000, false);
  int64_t dim = maker.dice.Below(x.shape().rank());
  std::vector<Instruction*> parts = {x.at};
  Known known = x.known;
  for (int64_t n = maker.dice.Between(0, 3); n > 0; --n) {
    auto part = maker.Find(scope, [&](const Value& v) {
      if (v.dtype() != x.dtype() || v.shape().rank() != x.shape().rank()) return false;
      for (int64_t d = 0; d < x.shape().rank(); ++d) {
        if (d != dim && v.shape().dim(d) != x.shape().dim(d)) return false;
      }
      return true;
    });
    if (!part) {
      Dims dims = x.shape().dims();
      dims[dim] = maker.dice.Between(0, 9);
      part = maker.Fresh(scope, x.dtype(), dims);
    }
    known = maker.Union(known, part->known);
    parts.push_back(part->at);
  }
  if (maker.dice.Chance(50)) std::reverse(parts.begin(), parts.end());
  maker.Push(scope,
             scope.builder().Add(Op::kConcatenate, parts, DimensionsAttrs{.dimensions = {dim}}),
             known);
}

void ReverseAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 3000, false);
  DimensionsAttrs attrs;
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (maker.dice.Chance(60)) attrs.dimensions.push_back(d);
  }
  maker.Push(scope, scope.builder().Add(Op::kReverse, {x.at}, attrs), x.known);
}

void IotaAny(Maker& maker, Scope& scope) {
  Dimensions dims = maker.AnyDims(2000);
  if (dims.empty()) dims.push_back(maker.AnySize());
  DType t = maker.AnyType();
  if (t == DType::kPred || t == DType::kF4E2M1FN || (IsFloat(t) && BitWidth(t) == 8))
    t = DType::kF32;
  int64_t dim = maker.dice.Below(static_cast<int64_t>(dims.size()));
  Shape shape = ArrayShape(t, dims);
  Known known = maker.Unknown(t);
  known.magnitude = static_cast<double>(dims[static_cast<size_t>(dim)]);
  known.whole = true;
  maker.Push(scope, scope.builder().Add(Op::kIota, {}, IotaAttrs{.iota_dimension = dim}, &shape),
             known);
}

void GatherAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 2000, false);
  int64_t rank = x.shape().rank();
  GatherAttrs attrs;
  std::vector<int64_t> batch;
  for (int64_t n = maker.dice.Between(0, 2); n > 0; --n) batch.push_back(maker.dice.Between(1, 7));
  std::vector<std::pair<int64_t, size_t>> batching;  // dimensions of the operand and of the batch
  for (int64_t d = 0; d < rank; ++d) {
    int64_t size = x.shape().dim(d);
    if (rank > 1 && batching.size() < 2 && size > 0 && maker.dice.Chance(10)) {
      batching.push_back({d, batch.size()});
      batch.push_back(size);
      attrs.slice_sizes.push_back(1);
      continue;
    }
    if (maker.dice.Chance(60) || (d + 1 == rank && attrs.start_index_map.empty())) {
      attrs.start_index_map.push_back(d);
    }
    bool collapsed = size > 0 && maker.dice.Chance(50);
    attrs.slice_sizes.push_back(collapsed ? 1
                                : maker.dice.Chance(50)
                                    ? size
                                    : maker.dice.Between(0, std::min<int64_t>(size, 9)));
    if (collapsed) attrs.collapsed_slice_dims.push_back(d);
  }
  if (maker.dice.Chance(20))
    std::reverse(attrs.start_index_map.begin(), attrs.start_index_map.end());
  int64_t windows =
      rank - static_cast<int64_t>(attrs.collapsed_slice_dims.size() + batching.size());
  // Window dimensions lie anywhere among those of the result.
  std::vector<bool> is_window(static_cast<size_t>(windows) + batch.size(), false);
  for (int64_t left = windows; left > 0;) {
    size_t at = static_cast<size_t>(maker.dice.Below(static_cast<int64_t>(is_window.size())));
    if (is_window[at]) continue;
    is_window[at] = true;
    --left;
  }
  for (size_t i = 0; i < is_window.size(); ++i) {
    if (is_window[i]) attrs.offset_dims.push_back(static_cast<int64_t>(i));
  }
  attrs.index_vector_dim = maker.dice.Between(0, static_cast<int64_t>(batch.size()));
  Dimensions indices = batch;
  indices.insert(indices.begin() + attrs.index_vector_dim,
                 static_cast<int64_t>(attrs.start_index_map.size()));
  if (attrs.start_index_map.size() == 1 && maker.dice.Chance(50)) {
    indices = batch;
    attrs.index_vector_dim = static_cast<int64_t>(batch.size());
  }
  for (auto [of_operand, of_batch] : batching) {
    auto at = static_cast<int64_t>(of_batch);
    attrs.operand_batching_dims.push_back(of_operand);
    attrs.start_indices_batching_dims.push_back(at < attrs.index_vector_dim ? at : at + 1);
  }
  Value at = maker.Index(scope, indices);
  maker.Push(scope, scope.builder().Add(Op::kGather, {x.at, at.at}, attrs), x.known);
}

void DynamicSliceAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 3000, false);
  DynamicSliceAttrs attrs;
  std::vector<Instruction*> operands = {x.at};
  DType index = maker.Index(scope, {}).dtype();
  for (int64_t size : x.shape().dims()) {
    attrs.dynamic_slice_sizes.push_back(maker.dice.Chance(40) ? size : maker.dice.Between(0, size));
    operands.push_back(maker.Like(scope, index, Dims(), true).at);
  }
  maker.Push(scope, scope.builder().Add(Op::kDynamicSlice, operands, attrs), x.known);
}

void DynamicUpdateAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 1, 3000, false);
  Dimensions dims;
  for (int64_t size : x.shape().dims()) {
    dims.push_back(maker.dice.Chance(40) ? size
                                         : maker.dice.Between(0, std::min<int64_t>(size, 9)));
  }
  Value update = maker.Like(scope, x.dtype(), Dims(dims), false);
  auto fits = maker.Find(scope, [&](const Value& v) {
    if (v.dtype() != x.dtype() || v.shape().rank() != x.shape().rank()) return false;
    for (int64_t d = 0; d < x.shape().rank(); ++d) {
      if (v.shape().dim(d) > x.shape().dim(d)) return false;
    }
    return true;
  });
  if (fits && maker.dice.Chance(50)) update = *fits;
  std::vector<Instruction*> operands = {x.at, update.at};
  DType index = maker.Index(scope, {}).dtype();
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    operands.push_back(maker.Like(scope, index, Dims(), true).at);
  }
  maker.Push(scope, scope.builder().Add(Op::kDynamicUpdateSlice, operands, NoAttrs{}),
             maker.Union(x.known, update.known));
}

void TupleAndBack(Maker& maker, Scope& scope) {
  std::vector<Value> parts = {maker.Any(scope), maker.Any(scope), maker.Any(scope)};
  std::vector<Instruction*> operands;
  for (const Value& v : parts) operands.push_back(v.at);
  Builder b = scope.builder();
  auto tuple = b.Tuple(operands);
  if (!tuple) return;
  Instruction* from = *tuple;
  if (maker.dice.Chance(50)) from = b.Add(Op::kOptBarrier, {from}).value_or(from);
  for (int64_t k = 0; k < 3; ++k) {
    maker.Push(scope, b.GetTupleElement(from, k), parts[static_cast<size_t>(k)].known);
  }
  if (maker.dice.Chance(30)) maker.Push(scope, b.Add(Op::kCopy, {parts[0].at}), parts[0].known);
}

}  // namespace weft::hlo::random
