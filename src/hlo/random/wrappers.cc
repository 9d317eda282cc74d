// Random ops around others: fusions, asynchronous halves, collectives of one device, layouts,
// batched indices.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "hlo/random/maker.h"

namespace weft::hlo::random {

namespace {

// A computation of a few ops on values of the scope.
struct Body {
  Scope scope;
  std::vector<Instruction*> operands;
  std::vector<Value> results;
  Instruction* root = nullptr;  // the one, or a tuple
};

Body MakeBody(Maker& maker, Scope& outer, std::string_view name) {
  std::vector<Value> given = Several(maker, outer, maker.dice.Between(1, 3));
  Body body{NewScope(maker, outer, std::string(name)), {}, {}};
  Scope& inner = body.scope;
  inner.depth = 3;
  for (const Value& v : given) {
    Instruction* p =
        *inner.builder().Parameter(static_cast<int64_t>(body.operands.size()), v.shape());
    body.operands.push_back(v.at);
    inner.values.push_back({p, v.known});
  }
  constexpr void (*kMakes[])(Maker&, Scope&) = {
      Unary,          Binary,           CompareAndSelect, ConvertAny, BroadcastAny,
      ReshapeAny,     TransposeAny,     SliceAny,         PadAny,     ReduceAny,
      ConcatenateAny, DynamicUpdateAny, ReverseAny,       GatherAny};
  for (int64_t n = maker.dice.Between(1, 6); n > 0; --n) maker.dice.Of(kMakes)(maker, inner);
  body.results = {inner.values.back()};
  if (maker.dice.Chance(40)) body.results.push_back(maker.Any(inner));
  std::vector<Instruction*> roots;
  for (const Value& v : body.results) roots.push_back(v.at);
  body.root = roots.size() == 1 ? roots[0] : *inner.builder().Tuple(roots);
  inner.computation->set_root(body.root);
  return body;
}

void PushResults(Maker& maker, Scope& scope, Result<Instruction*> made, const Body& body) {
  if (!made) return;
  if (body.results.size() == 1) {
    maker.Push(scope, made, body.results[0].known);
    return;
  }
  for (size_t k = 0; k < body.results.size(); ++k) {
    maker.Push(scope, scope.builder().GetTupleElement(*made, static_cast<int64_t>(k)),
               body.results[k].known);
  }
}

}  // namespace

void FusionAny(Maker& maker, Scope& scope) {
  Body body = MakeBody(maker, scope, "fused");
  FusionAttrs attrs;
  attrs.calls = body.scope.computation;
  Shape shape = body.root->shape();
  PushResults(maker, scope, scope.builder().Add(Op::kFusion, body.operands, attrs, &shape), body);
}

void AsyncAny(Maker& maker, Scope& scope) {
  Value x = maker.Any(scope);
  Builder b = scope.builder();
  if (maker.dice.Chance(40)) {
    Shape shape = Shape::Tuple({x.shape(), x.shape(), Shape::Scalar(DType::kU32)});
    auto start = b.Add(Op::kCopyStart, std::span(&x.at, 1), CopyStartAttrs{}, &shape);
    if (!start) return;
    maker.Push(scope, b.Add(Op::kCopyDone, {*start}), x.known);
    return;
  }
  Body body = MakeBody(maker, scope, "wrapped");
  AsyncAttrs attrs;
  attrs.calls = body.scope.computation;
  std::vector<Shape> given;
  for (const Instruction* operand : body.operands) given.push_back(operand->shape());
  Shape result = body.root->shape();
  Shape shape = Shape::Tuple({Shape::Tuple(std::move(given)), result, Shape::Scalar(DType::kS32)});
  auto start = b.Add(Op::kAsyncStart, body.operands, attrs, &shape);
  if (!start) return;
  if (maker.dice.Chance(40)) {
    Shape same = (*start)->shape();
    auto update = b.Add(Op::kAsyncUpdate, std::span(&*start, 1), attrs, &same);
    if (update) start = update;
  }
  PushResults(maker, scope, b.Add(Op::kAsyncDone, std::span(&*start, 1), attrs, &result), body);
}

void CollectiveAny(Maker& maker, Scope& scope) {
  if (Devices(maker) > 1) return DeviceCollectiveAny(maker, scope);
  Value x = maker.AnyOf(scope, 1, 2000, false);
  Builder b = scope.builder();
  int64_t dim = maker.dice.Below(x.shape().rank());
  switch (maker.dice.Below(7)) {
    case 0: {
      if (!IsComputable(x.dtype()) && !IsInteger(x.dtype())) return;
      AllReduceAttrs attrs;
      attrs.to_apply = BinaryComputation(maker, scope, Op::kAdd, x.dtype());
      maker.Push(scope, b.Add(Op::kAllReduce, {x.at}, attrs), x.known);
      return;
    }
    case 1: {
      AllGatherAttrs attrs;
      attrs.dimensions = {dim};
      Shape shape = x.shape();
      maker.Push(scope, b.Add(Op::kAllGather, std::span(&x.at, 1), attrs, &shape), x.known);
      return;
    }
    case 2: {
      if (!IsComputable(x.dtype()) && !IsInteger(x.dtype())) return;
      if (x.shape().is_dynamic(dim)) return;
      ReduceScatterAttrs attrs;
      attrs.dimensions = {dim};
      attrs.to_apply = BinaryComputation(maker, scope, Op::kAdd, x.dtype());
      Shape shape = x.shape();
      maker.Push(scope, b.Add(Op::kReduceScatter, std::span(&x.at, 1), attrs, &shape), x.known);
      return;
    }
    case 3: {
      CollectivePermuteAttrs attrs;
      if (maker.dice.Chance(60)) attrs.source_target_pairs = {{0, 0}};
      maker.Push(scope, b.Add(Op::kCollectivePermute, {x.at}, attrs), x.known);
      return;
    }
    case 4: {
      maker.Push(scope, b.Add(Op::kCollectiveBroadcast, {x.at}), x.known);
      return;
    }
    case 5: {
      maker.Push(scope, b.Add(maker.dice.Chance(50) ? Op::kPartitionId : Op::kReplicaId, {}),
                 maker.Unknown(DType::kU32));
      return;
    }
    default: {
      if (x.shape().is_dynamic(dim)) return;
      AllToAllAttrs attrs;
      attrs.dimensions = {dim};
      maker.Push(scope, b.Add(Op::kAllToAll, {x.at}, attrs), x.known);
    }
  }
}

// A copy into another order of dimensions in memory, perhaps computed with in that order.
void LayoutAny(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 2, 2000, false);
  Shape shape = x.shape();
  Layout& layout = shape.MutableLayout();
  for (size_t i = layout.minor_to_major.size(); i > 1; --i) {
    std::swap(layout.minor_to_major[static_cast<int64_t>(i) - 1],
              layout.minor_to_major[maker.dice.Below(static_cast<int64_t>(i))]);
  }
  maker.Push(scope, scope.builder().Add(Op::kCopy, std::span(&x.at, 1), NoAttrs{}, &shape),
             x.known);
}

// Indices along one dimension for each place of another.
void GatherBatched(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 2, 1500, false);
  int64_t rank = x.shape().rank();
  int64_t batch = maker.dice.Below(rank), along = maker.dice.Below(rank);
  if (batch == along || x.shape().dim(along) == 0) return;
  int64_t count = maker.dice.Between(1, 7), index_batch = maker.dice.Below(2);
  Dimensions indices = {count};
  indices.insert(indices.begin() + index_batch, x.shape().dim(batch));
  GatherAttrs attrs;
  attrs.operand_batching_dims = {batch};
  attrs.start_indices_batching_dims = {index_batch};
  attrs.start_index_map = {along};
  attrs.collapsed_slice_dims = {along};
  attrs.index_vector_dim = 2;
  int64_t next = 2;
  for (int64_t d = 0; d < rank; ++d) {
    bool window = d != batch && d != along;
    attrs.slice_sizes.push_back(window ? x.shape().dim(d) : 1);
    if (window) attrs.offset_dims.push_back(next++);
  }
  Value at = maker.Index(scope, indices);
  maker.Push(scope, scope.builder().Add(Op::kGather, {x.at, at.at}, attrs), x.known);
}

void ScatterBatched(Maker& maker, Scope& scope) {
  Value x = maker.AnyOf(scope, 2, 1500, false);
  int64_t rank = x.shape().rank();
  int64_t batch = maker.dice.Below(rank), along = maker.dice.Below(rank);
  if (batch == along) return;
  int64_t count = maker.dice.Between(1, 7), index_batch = maker.dice.Below(2);
  Dimensions indices = {count};
  indices.insert(indices.begin() + index_batch, x.shape().dim(batch));
  Dimensions updates = indices;
  ScatterAttrs attrs;
  attrs.input_batching_dims = {batch};
  attrs.scatter_indices_batching_dims = {index_batch};
  attrs.scatter_dims_to_operand_dims = {along};
  attrs.inserted_window_dims = {along};
  attrs.index_vector_dim = 2;
  for (int64_t d = 0; d < rank; ++d) {
    if (d == batch || d == along) continue;
    attrs.update_window_dims.push_back(static_cast<int64_t>(updates.size()));
    updates.push_back(x.shape().dim(d));
  }
  Value at = maker.Index(scope, indices);
  Value source = maker.Like(scope, x.dtype(), Dims(updates), false);
  auto c = AnyCombiner(maker, x, static_cast<double>(count));
  if (!c || !maker.IsUsable(source) || !maker.IsUsable(x)) return;
  c->init = 0;
  attrs.to_apply = BinaryComputation(maker, scope, c->op, x.dtype());
  maker.Push(scope, scope.builder().Add(Op::kScatter, {x.at, at.at, source.at}, attrs),
             Combined(maker, *c, maker.Union(x.known, source.known), x.dtype(),
                      static_cast<double>(count)));
}

}  // namespace weft::hlo::random
