#include "compiler/spmd/emit.h"

#include <utility>

namespace weft::compiler::spmd {

using hlo::Attrs;
using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// The element of a table that is this device's.
Result<Instruction*> Emitter::ByDevice(Literal table) {
  Builder b(into_);
  if (device_ == nullptr) device_ = TRY(b.Add(Op::kPartitionId, {}));
  Instruction* places = b.Constant(std::move(table));
  Instruction* one = TRY(b.Add(Op::kDynamicSlice, {places, device_},
                               hlo::DynamicSliceAttrs{.dynamic_slice_sizes = {1}}));
  return b.Reshape(one, {});
}

Result<Instruction*> Emitter::IndexAlong(AxisSpan axes) {
  const AxisList key(axes);
  for (const auto& [known, index] : indices_) {
    if (known == key) return index;
  }
  Literal table(Shape(DType::kS32, {mesh().devices}));
  for (int64_t place = 0; place < mesh().devices; ++place) {
    table.SetInt(mesh().DeviceAt(place), mesh().IndexOf(place, axes));
  }
  Instruction* index = TRY(ByDevice(std::move(table)));
  indices_.emplace_back(std::move(key), index);
  return index;
}

Result<Instruction*> Emitter::LookUp(AxisSpan axes, std::span<const int64_t> values) {
  Literal table(Shape(DType::kS32, {mesh().devices}));
  for (int64_t place = 0; place < mesh().devices; ++place) {
    table.SetInt(mesh().DeviceAt(place), values[static_cast<size_t>(mesh().IndexOf(place, axes))]);
  }
  return ByDevice(std::move(table));
}

Result<Instruction*> Emitter::PadTo(Instruction* x, int64_t dim, int64_t size) {
  if (x->shape().dim(dim) == size) return x;
  Builder b = builder();
  hlo::PadAttrs attrs;
  attrs.padding.resize(static_cast<size_t>(x->shape().rank()));
  attrs.padding[static_cast<size_t>(dim)].high = size - x->shape().dim(dim);
  Instruction* zero = b.Constant(Literal(Shape::Scalar(x->shape().dtype())));
  return b.Add(Op::kPad, {x, zero}, std::move(attrs));
}

Result<Instruction*> Emitter::SliceAlong(Instruction* x, int64_t dim, int64_t begin, int64_t end) {
  if (begin == 0 && end == x->shape().dim(dim)) return x;
  hlo::SliceAttrs attrs;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    attrs.slice.push_back({d == dim ? begin : 0, d == dim ? end : x->shape().dim(d), 1});
  }
  return builder().Add(Op::kSlice, {x}, std::move(attrs));
}

Result<Instruction*> Emitter::TrimTo(Instruction* x, int64_t dim, int64_t size) {
  return SliceAlong(x, dim, 0, size);
}

Result<Instruction*> Emitter::Cut(Instruction* x, int64_t dim, AxisSpan axes) {
  const int64_t parts = mesh().SizeOf(axes);
  const int64_t part = (x->shape().dim(dim) + parts - 1) / parts;
  Instruction* index = TRY(IndexAlong(axes));
  Instruction* padded = TRY(PadTo(x, dim, part * parts));
  Builder b = builder();
  Instruction* start =
      TRY(b.Add(Op::kMultiply, {index, b.ScalarConstant(DType::kS32, static_cast<double>(part))}));
  Instruction* zero = b.ScalarConstant(DType::kS32, 0);
  std::vector<Instruction*> operands = {padded};
  hlo::DynamicSliceAttrs attrs;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    operands.push_back(d == dim ? start : zero);
    attrs.dynamic_slice_sizes.push_back(d == dim ? part : x->shape().dim(d));
  }
  return b.Add(Op::kDynamicSlice, operands, Attrs(std::move(attrs)));
}

Result<Instruction*> Emitter::Place(Instruction* x, int64_t dim, int64_t size, AxisSpan axes) {
  const int64_t part = x->shape().dim(dim);
  Instruction* index = TRY(IndexAlong(axes));
  Builder b = builder();
  Shape whole(x->shape().dtype(), x->shape().dims());
  whole.set_dim(dim, part * mesh().SizeOf(axes));
  Instruction* start =
      TRY(b.Add(Op::kMultiply, {index, b.ScalarConstant(DType::kS32, static_cast<double>(part))}));
  Instruction* zero = b.ScalarConstant(DType::kS32, 0);
  std::vector<Instruction*> operands = {TRY(ZeroesOf(b, whole)), x};
  for (int64_t d = 0; d < whole.rank(); ++d) operands.push_back(d == dim ? start : zero);
  Instruction* placed = TRY(b.Add(Op::kDynamicUpdateSlice, operands, Attrs(hlo::NoAttrs{})));
  return TrimTo(placed, dim, size);
}

Result<Instruction*> Emitter::MaskPadding(Instruction* x, int64_t dim, int64_t size, AxisSpan axes,
                                          Instruction* fill) {
  const int64_t part = x->shape().dim(dim);
  if (part * mesh().SizeOf(axes) == size) return x;
  Instruction* index = TRY(IndexAlong(axes));
  Builder b = builder();
  Shape places_shape(DType::kS32, x->shape().dims());
  Instruction* places =
      TRY(b.Add(Op::kIota, {}, Attrs(hlo::IotaAttrs{.iota_dimension = dim}), &places_shape));
  // The part of a device begins at index * part: elements before size - index * part are there.
  Instruction* start =
      TRY(b.Add(Op::kMultiply, {index, b.ScalarConstant(DType::kS32, static_cast<double>(part))}));
  Instruction* left =
      TRY(b.Add(Op::kSubtract, {b.ScalarConstant(DType::kS32, static_cast<double>(size)), start}));
  Instruction* limit = TRY(b.Broadcast(left, places_shape, {}));
  Instruction* there = TRY(b.Compare(places, limit, hlo::Direction::kLt));
  Instruction* other = TRY(b.Broadcast(fill, Shape(x->shape().dtype(), x->shape().dims()), {}));
  return b.Add(Op::kSelect, {there, x, other});
}

hlo::ReplicaGroups Emitter::GroupsOf(AxisSpan axes, bool all_replicas) const {
  hlo::ReplicaGroups groups;
  const std::vector<std::vector<int64_t>> one = mesh().Groups(axes);
  for (int64_t replica = 0; replica < (all_replicas ? state_.replicas : 1); ++replica) {
    for (std::vector<int64_t> group : one) {
      for (int64_t& device : group) device += replica * mesh().devices;
      groups.groups.push_back(std::move(group));
    }
  }
  return groups;
}

void Emitter::Fill(hlo::CollectiveAttrs& attrs, AxisSpan axes, bool global) {
  attrs.channel_id = state_.next_channel++;
  attrs.replica_groups = GroupsOf(axes, global);
  attrs.use_global_device_ids = global;
}

Result<Instruction*> Emitter::AllGather(Instruction* x, int64_t dim, AxisSpan axes) {
  hlo::AllGatherAttrs attrs;
  Fill(attrs, axes, true);
  attrs.dimensions = {dim};
  Shape shape(x->shape().dtype(), x->shape().dims());
  shape.set_dim(dim, shape.dim(dim) * mesh().SizeOf(axes));
  return builder().Add(Op::kAllGather, std::span(&x, 1), Attrs(std::move(attrs)), &shape);
}

Result<Instruction*> Emitter::AllReduce(Instruction* x, AxisSpan axes, hlo::Computation* function) {
  hlo::AllReduceAttrs attrs;
  Fill(attrs, axes, true);
  attrs.to_apply = function;
  return builder().Add(Op::kAllReduce, {x}, std::move(attrs));
}

Result<Instruction*> Emitter::ReduceScatter(Instruction* x, int64_t dim, AxisSpan axes,
                                            hlo::Computation* function) {
  const int64_t parts = mesh().SizeOf(axes);
  const int64_t part = (x->shape().dim(dim) + parts - 1) / parts;
  x = TRY(PadTo(x, dim, part * parts));
  hlo::ReduceScatterAttrs attrs;
  Fill(attrs, axes, true);
  attrs.dimensions = {dim};
  attrs.to_apply = function;
  Shape shape(x->shape().dtype(), x->shape().dims());
  shape.set_dim(dim, part);
  return builder().Add(Op::kReduceScatter, std::span(&x, 1), Attrs(std::move(attrs)), &shape);
}

Result<Instruction*> Emitter::AllToAll(Instruction* x, int64_t cut, int64_t join, AxisSpan axes) {
  const int64_t parts = mesh().SizeOf(axes);
  const int64_t part = (x->shape().dim(cut) + parts - 1) / parts;
  x = TRY(PadTo(x, cut, part * parts));
  Builder b = builder();
  // The parts get a dimension of their own, which goes before the one that they are joined along.
  Dims dims;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    if (d == cut) dims.push_back(parts);
    dims.push_back(d == cut ? part : x->shape().dim(d));
  }
  Instruction* split = TRY(b.Reshape(x, dims));
  hlo::AllToAllAttrs attrs;
  Fill(attrs, axes, false);
  attrs.dimensions = {cut};
  Instruction* moved = TRY(b.Add(Op::kAllToAll, {split}, std::move(attrs)));
  hlo::Ints order;
  Dims joined;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    if (d == join) order.push_back(cut);
    order.push_back(d < cut ? d : d + 1);
    const int64_t size = d == cut ? part : x->shape().dim(d);
    joined.push_back(d == join ? size * parts : size);
  }
  Instruction* turned = TRY(TransposeTo(b, moved, order));
  return ReshapeTo(b, turned, joined);
}

Result<Instruction*> Emitter::Broadcast(Instruction* x, int64_t device) {
  hlo::CollectiveBroadcastAttrs attrs;
  attrs.channel_id = state_.next_channel++;
  std::vector<int64_t>& group = attrs.replica_groups.groups.emplace_back();
  for (int64_t d = 0; d < mesh().devices; ++d) group.push_back((device + d) % mesh().devices);
  Shape shape(x->shape().dtype(), x->shape().dims());
  return builder().Add(Op::kCollectiveBroadcast, std::span(&x, 1), Attrs(std::move(attrs)), &shape);
}

Result<Instruction*> Emitter::Permute(Instruction* x, hlo::IntPairs pairs) {
  hlo::CollectivePermuteAttrs attrs;
  attrs.channel_id = state_.next_channel++;
  attrs.source_target_pairs = std::move(pairs);
  return builder().Add(Op::kCollectivePermute, {x}, std::move(attrs));
}

}  // namespace weft::compiler::spmd
