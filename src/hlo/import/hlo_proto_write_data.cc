// Shapes, literals, shardings and metadata as the messages of xla_data.proto.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/wire.h"
#include "hlo/import/hlo_proto.h"

namespace weft::hlo {
namespace {

WireWriter WriteLayout(const Shape& shape) {
  Layout layout = shape.LayoutOrDefault();
  WireWriter w;
  w.Ints(1, layout.minor_to_major);
  if (!layout.extras) return w;
  const LayoutExtras& extras = *layout.extras;
  for (const Tile& tile : extras.tiles) {
    WireWriter part;
    part.Ints(1, tile.dims);
    w.Message(6, part);
  }
  w.Int(7, extras.element_bits);
  w.Int(8, extras.memory_space);
  w.Int(15, extras.dynamic_metadata_prefix_bytes);
  w.Int(16, extras.tail_padding_alignment > 1 ? extras.tail_padding_alignment : 0);
  for (const SplitConfig& split : extras.splits) {
    WireWriter part;
    part.Int(1, split.dimension);
    part.Ints(2, split.indices);
    w.Message(17, part);
  }
  return w;
}

template <class T, class To>
void WriteNumbers(const Literal& literal, uint32_t field, WireWriter& w) {
  const T* values = reinterpret_cast<const T*>(literal.data());
  std::vector<To> numbers(static_cast<size_t>(literal.size()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<To>(values[i]);
  w.Ints(field, numbers);
}

void WriteElements(const Literal& literal, WireWriter& w) {
  std::string_view raw(reinterpret_cast<const char*>(literal.data()),
                       static_cast<size_t>(literal.byte_size()));
  if (uint32_t field = LiteralBytesField(literal.dtype()); field != 0) return w.Bytes(field, raw);
  uint32_t field = LiteralNumbersField(literal.dtype());
  switch (literal.dtype()) {
    case DType::kPred: WriteNumbers<uint8_t, uint8_t>(literal, field, w); break;
    case DType::kS32: WriteNumbers<int32_t, int64_t>(literal, field, w); break;
    case DType::kU32: WriteNumbers<uint32_t, uint64_t>(literal, field, w); break;
    case DType::kS64:
    case DType::kU64: WriteNumbers<uint64_t, uint64_t>(literal, field, w); break;
    default: w.Bytes(field, raw); break;  // floats: packed, little endian
  }
}

Shape RowMajor(Shape shape) {
  shape.ClearLayout();
  return shape;
}

WireWriter WriteAxisRef(const AxisRef& axis) {
  WireWriter w;
  w.Int(1, axis.axis);
  if (axis.sub) {
    WireWriter part;
    part.Int(1, axis.sub->first);
    part.Int(2, axis.sub->second);
    w.Message(2, part);
  }
  return w;
}

std::vector<int64_t> PermOf(const IotaDevices& iota) {
  if (!iota.perm.empty()) return iota.perm;
  std::vector<int64_t> identity(iota.dims.size());
  std::iota(identity.begin(), identity.end(), 0);
  return identity;
}

WireWriter WriteMesh(const Mesh& mesh) {
  WireWriter w;
  for (const MeshAxis& axis : mesh.axes) {
    WireWriter part;
    part.Bytes(1, axis.name);
    part.Int(2, axis.size);
    w.Message(1, part);
  }
  if (mesh.maximal) w.Ints(2, std::vector<int64_t>{*mesh.maximal});
  if (!mesh.devices) return w;
  w.Ints(2, mesh.devices->ids);
  if (mesh.devices->iota) {
    WireWriter part;
    part.Ints(1, mesh.devices->iota->dims);
    part.Ints(2, PermOf(*mesh.devices->iota));
    w.Message(3, part);
  }
  return w;
}

std::vector<AxisRef> AllAxes(const Mesh& mesh) {
  std::vector<AxisRef> axes(mesh.axes.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i].axis = static_cast<int64_t>(i);
  return axes;
}

WireWriter WriteNamedSharding(const NamedSharding& named) {
  using Form = NamedSharding::Form;
  WireWriter w;
  w.Message(2, WriteMesh(named.mesh));
  for (const DimSharding& dim : named.dims) {
    WireWriter part;
    for (const AxisRef& axis : dim.axes) part.Message(1, WriteAxisRef(axis));
    part.Int(2, !dim.open);
    w.Message(3, part);
  }
  auto axes = [&](uint32_t field, const std::vector<AxisRef>& list, bool all) {
    for (const AxisRef& a : all ? AllAxes(named.mesh) : list) w.Message(field, WriteAxisRef(a));
  };
  axes(4, named.replicated, false);
  axes(5, named.unreduced, named.form == Form::kUnreduced);
  axes(7, named.manual, named.form == Form::kManual);
  if (named.unreduced_kind != ReductionKind::kNone) {
    w.Int(8, static_cast<int64_t>(named.unreduced_kind) - 1);
  }
  return w;
}

int64_t ProtoOfShardingKind(Sharding::Kind kind) {
  switch (kind) {
    case Sharding::Kind::kMaximal: return 1;
    case Sharding::Kind::kTuple: return 2;
    case Sharding::Kind::kTiled: return 3;
    case Sharding::Kind::kManual: return 4;
    case Sharding::Kind::kUnknown: return 5;
    case Sharding::Kind::kUnreduced: return 6;
    case Sharding::Kind::kReplicated:
    case Sharding::Kind::kNamed: break;
  }
  return 0;
}

}  // namespace

WireWriter WriteShapeProto(const Shape& shape) {
  WireWriter w;
  w.Int(2, static_cast<int64_t>(ProtoOfDType(shape.dtype())));
  for (const Shape& element : shape.elements_of_tuple()) w.Message(4, WriteShapeProto(element));
  if (!shape.IsArray()) return w;
  w.Ints(3, shape.dims());
  std::vector<bool> dynamic;
  for (int64_t i = 0; i < shape.rank(); ++i) dynamic.push_back(shape.is_dynamic(i));
  w.Ints(6, dynamic);
  w.Message(5, WriteLayout(shape));
  return w;
}

WireWriter WriteLiteralProto(const Literal& literal) {
  WireWriter w;
  w.Message(1, WriteShapeProto(RowMajor(literal.shape())));
  for (const Literal& element : literal.tuple()) w.Message(10, WriteLiteralProto(element));
  if (literal.shape().IsArray()) WriteElements(literal, w);
  return w;
}

WireWriter WriteShardingProto(const Sharding& sharding) {
  WireWriter w;
  w.Int(1, ProtoOfShardingKind(sharding.kind));
  if (sharding.kind == Sharding::Kind::kMaximal) {
    w.Ints(3, std::vector<int64_t>{1});
    w.Ints(4, std::vector<int64_t>{sharding.device});
  } else {
    w.Ints(3, sharding.tile_dims);
    w.Ints(4, sharding.devices.ids);
    if (sharding.devices.iota) {
      w.Ints(9, sharding.devices.iota->dims);
      w.Ints(10, PermOf(*sharding.devices.iota));
    }
  }
  for (const Sharding& element : sharding.elements) w.Message(5, WriteShardingProto(element));
  w.Int(6, sharding.last_tile_dim_replicate);
  for (const Metadata& metadata : sharding.metadata) w.Message(7, WriteMetadataProto(metadata));
  std::vector<int64_t> last_dims;
  for (Sharding::Kind kind : sharding.last_tile_dims) {
    last_dims.push_back(ProtoOfShardingKind(kind));
  }
  w.Ints(8, last_dims);
  if (sharding.group != Sharding::Group::kNone) {
    w.Int(11, 1);
    w.Int(12, sharding.group_id);
    w.Int(13, sharding.group == Sharding::Group::kLike);
  }
  if (sharding.named) w.Message(14, WriteNamedSharding(*sharding.named));
  return w;
}

WireWriter WriteMetadataProto(const Metadata& metadata) {
  WireWriter w;
  w.Bytes(1, metadata.op_type);
  w.Bytes(2, metadata.op_name);
  w.Bytes(3, metadata.source_file);
  w.Int(4, metadata.source_line);
  w.Ints(5, metadata.profile_type);
  w.Bytes(12, metadata.deduplicated_name);
  w.Int(15, metadata.stack_frame_id);
  w.Bytes(16, metadata.scheduling_name);
  w.Int(17, metadata.source_end_line);
  w.Int(18, metadata.source_column);
  w.Int(19, metadata.source_end_column);
  return w;
}

WireWriter WriteFrontendAttributesProto(const FrontendAttributes& attributes) {
  WireWriter w;
  for (const FrontendAttribute& attribute : attributes) {
    WireWriter entry;
    entry.Bytes(1, attribute.key);
    entry.Bytes(2, attribute.value);
    w.Message(1, entry);
  }
  return w;
}

void WriteReplicaGroups(const ReplicaGroups& groups, WireWriter& to) {
  WireWriter w;
  switch (groups.form) {
    case ReplicaGroups::Form::kList:
      for (const auto& group : groups.groups) {
        WireWriter part;
        part.Ints(1, group);
        w.Message(1, part);
      }
      if (!groups.groups.empty()) to.Message(87, w);
      return;
    case ReplicaGroups::Form::kIota:
      w.Int(1, groups.num_groups);
      w.Int(2, groups.group_size);
      w.Ints(3, groups.iota.dims);
      w.Ints(4, PermOf(groups.iota));
      to.Message(92, w);
      return;
    case ReplicaGroups::Form::kMesh:
      w.Message(1, WriteMesh(groups.mesh));
      for (const AxisRef& axis : groups.axes) w.Message(2, WriteAxisRef(axis));
      to.Message(93, w);
      return;
  }
}

}  // namespace weft::hlo
