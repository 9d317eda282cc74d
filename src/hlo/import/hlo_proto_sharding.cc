// Shardings, meshes and replica groups of xla_data.proto.
#include <algorithm>

#include "base/wire.h"
#include "hlo/import/hlo_proto.h"

namespace weft::hlo {
namespace {

Result<Mesh> ReadMeshProto(std::string_view bytes) {
  Mesh mesh;
  std::vector<int64_t> ids;
  std::optional<IotaDevices> iota;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == 1) {
      MeshAxis& axis = mesh.axes.emplace_back();
      WireReader part(reader.Bytes());
      while (part.Next()) {
        if (part.field() == 1) axis.name = part.Bytes();
        if (part.field() == 2) axis.size = part.Int();
      }
      if (!part.ok()) return MalformedProto("MeshAxis");
    } else if (reader.field() == 2) {
      reader.Ints(ids);
    } else if (reader.field() == 3) {
      iota.emplace();
      WireReader part(reader.Bytes());
      while (part.Next()) {
        if (part.field() == 1) part.Ints(iota->dims);
        if (part.field() == 2) part.Ints(iota->perm);
      }
      if (!part.ok()) return MalformedProto("IotaTransform");
    }
  }
  if (!reader.ok()) return MalformedProto("MeshProto");
  if (mesh.axes.empty() && ids.size() == 1) {
    mesh.maximal = ids[0];
  } else if (!ids.empty() || iota) {
    mesh.devices = DeviceList{.ids = std::move(ids), .iota = std::move(iota)};
  }
  return mesh;
}

Result<AxisRef> ReadAxisRefProto(std::string_view bytes, const Mesh& mesh) {
  AxisRef axis;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == 1) axis.axis = reader.Int();
    if (reader.field() == 2) {
      axis.sub.emplace(1, 1);
      WireReader part(reader.Bytes());
      while (part.Next()) {
        if (part.field() == 1) axis.sub->first = part.Int();
        if (part.field() == 2) axis.sub->second = part.Int();
      }
      if (!part.ok()) return MalformedProto("SubAxis");
    }
  }
  if (!reader.ok()) return MalformedProto("AxisRefProto");
  if (axis.axis < 0 || axis.axis >= static_cast<int64_t>(mesh.axes.size())) {
    return InvalidArgument("a mesh of ", mesh.axes.size(), " axes has no axis ", axis.axis);
  }
  return axis;
}

Result<NamedSharding> ReadNamedSharding(std::string_view bytes) {
  NamedSharding named;
  WireReader first(bytes);
  while (first.Next()) {
    if (first.field() == 2) named.mesh = TRY(ReadMeshProto(first.Bytes()));
  }
  WireReader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 3: {
        DimSharding& dim = named.dims.emplace_back(DimSharding{.axes = {}, .open = true});
        WireReader part(reader.Bytes());
        while (part.Next()) {
          if (part.field() == 1)
            dim.axes.push_back(TRY(ReadAxisRefProto(part.Bytes(), named.mesh)));
          if (part.field() == 2) dim.open = !part.Bool();
        }
        if (!part.ok()) return MalformedProto("DimensionSharding");
        break;
      }
      case 4: named.replicated.push_back(TRY(ReadAxisRefProto(reader.Bytes(), named.mesh))); break;
      case 5: named.unreduced.push_back(TRY(ReadAxisRefProto(reader.Bytes(), named.mesh))); break;
      case 7: named.manual.push_back(TRY(ReadAxisRefProto(reader.Bytes(), named.mesh))); break;
      case 8: {
        uint64_t kind = reader.Varint();
        if (kind > 2) return InvalidArgument("a sharding with the reduction ", kind);
        named.unreduced_kind = static_cast<ReductionKind>(kind + 1);
        break;
      }
      default: break;
    }
  }
  if (!reader.ok()) return MalformedProto("NamedShardingProto");
  return named;
}

Result<Sharding::Kind> ShardingKind(uint64_t type) {
  using enum Sharding::Kind;
  static constexpr Sharding::Kind kKinds[] = {kReplicated, kMaximal, kTuple,    kTiled,
                                              kManual,     kUnknown, kUnreduced};
  if (type >= std::size(kKinds)) return InvalidArgument("a sharding of the type ", type);
  return kKinds[type];
}

Result<Sharding> ReadShardingAt(std::string_view bytes, int depth) {
  if (depth > kMaxProtoDepth) return InvalidArgument("sharding nested too deep");
  Sharding sharding;
  std::vector<int64_t> devices, last_dims;
  IotaDevices iota;
  bool grouped = false;
  uint64_t group = 0;
  WireReader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1: sharding.kind = TRY(ShardingKind(reader.Varint())); break;
      case 3: reader.Ints(sharding.tile_dims); break;
      case 4: reader.Ints(devices); break;
      case 5: sharding.elements.push_back(TRY(ReadShardingAt(reader.Bytes(), depth + 1))); break;
      case 6: sharding.last_tile_dim_replicate = reader.Bool(); break;
      case 7: sharding.metadata.push_back(TRY(ReadMetadataProto(reader.Bytes()))); break;
      case 8: reader.Ints(last_dims); break;
      case 9: reader.Ints(iota.dims); break;
      case 10: reader.Ints(iota.perm); break;
      case 11: grouped = reader.Bool(); break;
      case 12: sharding.group_id = reader.Int(); break;
      case 13: group = reader.Varint(); break;
      case 14:
        sharding.kind = Sharding::Kind::kNamed;
        sharding.named.Make() = TRY(ReadNamedSharding(reader.Bytes()));
        break;
      default: break;
    }
  }
  if (!reader.ok()) return MalformedProto("OpSharding");
  for (int64_t type : last_dims) {
    sharding.last_tile_dims.push_back(TRY(ShardingKind(static_cast<uint64_t>(type))));
  }
  if (grouped) sharding.group = group == 1 ? Sharding::Group::kLike : Sharding::Group::kAs;
  if (sharding.kind == Sharding::Kind::kMaximal) {
    if (devices.size() != 1) return InvalidArgument("a maximal sharding without its device");
    sharding.device = devices[0];
    sharding.tile_dims.clear();
  } else if (!iota.dims.empty()) {
    bool identity = std::is_sorted(iota.perm.begin(), iota.perm.end());
    if (identity) iota.perm.clear();
    sharding.devices.iota = std::move(iota);
  } else {
    sharding.devices.ids = std::move(devices);
  }
  return sharding;
}

}  // namespace

Result<Sharding> ReadShardingProto(std::string_view bytes) {
  return ReadShardingAt(bytes, 0);
}

// Field 49 is one group; 87, 92 and 93 are whole lists.
Result<ReplicaGroups> ReadReplicaGroupsProto(std::string_view bytes, uint32_t field) {
  ReplicaGroups groups;
  WireReader reader(bytes);
  if (field == 93) {
    groups.form = ReplicaGroups::Form::kMesh;
    WireReader first(bytes);
    while (first.Next()) {
      if (first.field() == 1) groups.mesh = TRY(ReadMeshProto(first.Bytes()));
    }
  } else if (field == 92) {
    groups.form = ReplicaGroups::Form::kIota;
  }
  if (field == 49) groups.groups.emplace_back();
  while (reader.Next()) {
    if (field == 49) {
      if (reader.field() == 1) reader.Ints(groups.groups.back());
    } else if (field == 87) {
      if (reader.field() != 1) continue;
      ReplicaGroups one = TRY(ReadReplicaGroupsProto(reader.Bytes(), 49));
      groups.groups.push_back(std::move(one.groups[0]));
    } else if (field == 93) {
      if (reader.field() == 2) {
        groups.axes.push_back(TRY(ReadAxisRefProto(reader.Bytes(), groups.mesh)));
      }
    } else {
      if (reader.field() == 1) groups.num_groups = reader.Int();
      if (reader.field() == 2) groups.group_size = reader.Int();
      if (reader.field() == 3) reader.Ints(groups.iota.dims);
      if (reader.field() == 4) reader.Ints(groups.iota.perm);
    }
  }
  if (!reader.ok()) return MalformedProto("ReplicaGroup");
  if (std::is_sorted(groups.iota.perm.begin(), groups.iota.perm.end())) groups.iota.perm.clear();
  return groups;
}

}  // namespace weft::hlo
