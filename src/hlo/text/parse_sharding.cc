// Shardings, meshes and replica groups.
#include "hlo/text/value_reader.h"

namespace weft::hlo::text {
namespace {

constexpr size_t kMaxMeshAxes = 256;

// The product of non-negative sizes; nothing on overflow or a negative size.
std::optional<int64_t> CheckedProduct(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return product;
}

std::vector<int64_t> AxisSizes(const Mesh& mesh) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  return sizes;
}

}  // namespace

Status ValueReader::ReadSharding(Sharding& sharding) {
  TRY(Expect(Tok::kLeftBrace));
  if (kind() != Tok::kLeftBrace && kind() != Tok::kRightBrace) return ReadSingleSharding(sharding);
  sharding.kind = Sharding::Kind::kTuple;
  if (Eat(Tok::kRightBrace)) return {};
  do {
    TRY(Expect(Tok::kLeftBrace));
    TRY(ReadSingleSharding(sharding.elements.emplace_back()));
  } while (Eat(Tok::kComma));
  return Expect(Tok::kRightBrace);
}

Status ValueReader::ReadSingleSharding(Sharding& s) {
  if (IsWord("mesh") || IsWord("maximal_mesh")) return ReadNamedSharding(s);
  const char* at = lexer_.token().begin;
  bool has_kind = false, has_device = false;
  while (!Eat(Tok::kRightBrace)) TRY(ReadShardingPart(s, has_kind, has_device));
  bool tiled = !s.tile_dims.empty();
  if (!has_kind && !tiled) return FailAt(at, "sharding: neither a kind nor devices=[...]");
  if (!has_kind) s.kind = Sharding::Kind::kTiled;
  if (s.kind == Sharding::Kind::kMaximal) {
    if (!has_device || tiled) return FailAt(at, "sharding: maximal takes one device=");
    return {};
  }
  if (has_device || (has_kind && tiled)) {
    return FailAt(at, "sharding: this kind takes no devices");
  }
  if (!tiled) return {};
  if (s.last_tile_dim_replicate && !s.last_tile_dims.empty()) {
    return FailAt(at, "sharding: both last_tile_dim_replicate and last_tile_dims");
  }
  std::optional<int64_t> tiles = CheckedProduct(s.tile_dims);
  std::optional<int64_t> devices = s.devices.iota ? CheckedProduct(s.devices.iota->dims)
                                                  : static_cast<int64_t>(s.devices.ids.size());
  if (!tiles || !devices || *tiles != *devices) {
    return FailAt(at, "sharding: ", devices.value_or(-1), " devices for [",
                  StrJoin(s.tile_dims, ","), "] tiles");
  }
  if (!s.devices.iota && *devices <= 1) {
    return FailAt(at, "sharding: a tiled sharding has more than one device");
  }
  return {};
}

// [2,2]<=[4], or [2,2]0,1,2,3.
Status ValueReader::ReadShardingDevices(Sharding& s, const char* at) {
  if (!s.tile_dims.empty()) return FailAt(at, "sharding: devices= twice");
  TRY(ReadIntList(Tok::kLeftSquare, Tok::kRightSquare, s.tile_dims));
  if (s.tile_dims.empty()) return FailAt(at, "sharding: devices=[] has no tiles");
  if (Eat(Tok::kLessEqual)) return ReadIota(s.devices.iota.emplace());
  do {
    TRY(ReadInt(s.devices.ids.emplace_back()));
  } while (Eat(Tok::kComma));
  return {};
}

Status ValueReader::ReadShardingPart(Sharding& s, bool& has_kind, bool& has_device) {
  using Kind = Sharding::Kind;
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {{"replicated", Kind::kReplicated},
                                                                 {"maximal", Kind::kMaximal},
                                                                 {"manual", Kind::kManual},
                                                                 {"unknown", Kind::kUnknown},
                                                                 {"unreduced", Kind::kUnreduced}};
  const char* at = lexer_.token().begin;
  auto find = [&](Kind& result) {
    for (const auto& [word, value] : kKinds) {
      if (!EatWord(word)) continue;
      result = value;
      return true;
    }
    return false;
  };
  Kind found = Kind::kReplicated;
  if (find(found)) {
    if (has_kind) return FailAt(at, "sharding: two kinds");
    has_kind = true;
    s.kind = found;
    return {};
  }
  if (EatWord("last_tile_dim_replicate")) {
    s.last_tile_dim_replicate = true;
    return {};
  }
  if (IsWord("shard_as") || IsWord("shard_like")) {
    s.group = IsWord("shard_as") ? Sharding::Group::kAs : Sharding::Group::kLike;
    lexer_.Next();
    return ReadInt(s.group_id);
  }
  if (kind() != Tok::kAttr) return Expected("a part of a sharding");
  std::string_view name;
  TRY(ReadAttrName(name));
  if (name == "device") {
    has_device = true;
    return ReadInt(s.device);
  }
  if (name == "devices") return ReadShardingDevices(s, at);
  if (name == "metadata") return ReadMetadataList(s.metadata);
  if (name == "last_tile_dims") {
    return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
      Kind dim = Kind::kReplicated;
      if (!find(dim) || dim == Kind::kUnknown) {
        return Expected("replicated, manual, unreduced or maximal");
      }
      s.last_tile_dims.push_back(dim);
      return {};
    });
  }
  return FailAt(at, "sharding: unknown ", name,
                "; allowed: device, devices, last_tile_dims, metadata");
}

Status ValueReader::ReadIota(IotaDevices& iota) {
  const char* at = lexer_.token().begin;
  TRY(ReadIntList(Tok::kLeftSquare, Tok::kRightSquare, iota.dims));
  if (iota.dims.empty()) return FailAt(at, "an iota of devices needs dimensions");
  if (!CheckedProduct(iota.dims)) return FailAt(at, "an iota of too many devices");
  if (iota.dims.size() == 1) return {};
  if (!EatWord("T")) return Expected("T(...), the transposition of the device iota");
  TRY(ReadIntList(Tok::kLeftParen, Tok::kRightParen, iota.perm));
  std::vector<bool> seen(iota.dims.size(), false);
  for (int64_t d : iota.perm) {
    if (d < 0 || d >= static_cast<int64_t>(seen.size()) || seen[static_cast<size_t>(d)]) {
      return FailAt(at, "T(", StrJoin(iota.perm, ","), ") is not an order of ", iota.dims.size(),
                    " dimensions");
    }
    seen[static_cast<size_t>(d)] = true;
  }
  if (iota.perm.size() != iota.dims.size()) {
    return FailAt(at, "T(", StrJoin(iota.perm, ","), ") is not an order of ", iota.dims.size(),
                  " dimensions");
  }
  return {};
}

Status ValueReader::ReadMesh(Mesh& mesh) {
  const char* at = lexer_.token().begin;
  if (EatWord("maximal_mesh")) {
    TRY(Expect(Tok::kLeftSquare));
    std::string_view name;
    TRY(ReadAttrName(name));
    if (name != "device_id") return FailAt(at, "maximal_mesh has device_id=");
    TRY(ReadInt(mesh.maximal.emplace()));
    return Expect(Tok::kRightSquare);
  }
  if (!EatWord("mesh")) return Expected("mesh or maximal_mesh");
  TRY(ReadList(Tok::kLeftSquare, Tok::kRightSquare, [&]() -> Status {
    if (mesh.axes.size() == kMaxMeshAxes) return Fail("more than ", kMaxMeshAxes, " mesh axes");
    MeshAxis& axis = mesh.axes.emplace_back();
    const char* axis_at = lexer_.token().begin;
    TRY(ReadString(axis.name));
    TRY(Expect(Tok::kEqual));
    TRY(ReadInt(axis.size));
    if (axis.size <= 0) return FailAt(axis_at, "a mesh axis of size ", axis.size);
    return {};
  }));
  std::optional<int64_t> devices = CheckedProduct(AxisSizes(mesh));
  if (!devices) return FailAt(at, "a mesh of too many devices");
  // `, device_ids=` belongs to the mesh; any other comma to what follows.
  if (kind() != Tok::kComma || mesh.axes.empty()) return {};
  const char* comma = lexer_.token().begin;
  lexer_.Next();
  if (kind() != Tok::kAttr || lexer_.token().text != "device_ids") {
    lexer_.ResumeAt(comma);
    return {};
  }
  lexer_.Next();
  DeviceList& list = mesh.devices.emplace();
  int64_t count = 0;
  if (lexer_.Peek() == Tok::kLeftSquare && kind() == Tok::kLeftParen) {
    lexer_.Next();
    TRY(ReadIota(list.iota.emplace()));
    TRY(Expect(Tok::kRightParen));
    count = CheckedProduct(list.iota->dims).value_or(-1);
  } else {
    TRY(ReadIntList(Tok::kLeftParen, Tok::kRightParen, list.ids));
    count = static_cast<int64_t>(list.ids.size());
  }
  if (count != *devices) {
    return FailAt(comma, "device_ids has ", count, " devices, the mesh ", *devices);
  }
  return {};
}

Status ValueReader::ReadAxisRef(const Mesh& mesh, AxisRef& axis) {
  const char* at = lexer_.token().begin;
  std::string name;
  TRY(ReadString(name));
  axis.axis = -1;
  int64_t count = static_cast<int64_t>(mesh.axes.size());
  for (int64_t i = 0; i < count; ++i) {
    if (mesh.axes[static_cast<size_t>(i)].name == name) axis.axis = i;
  }
  if (axis.axis < 0) axis.axis = ParseInt(name).value_or(-1);
  if (axis.axis < 0 || axis.axis >= count) return FailAt(at, "the mesh has no axis ", name);
  if (!Eat(Tok::kColon)) return {};
  auto& [before, size] = axis.sub.emplace();
  TRY(Expect(Tok::kLeftParen));
  TRY(ReadInt(before));
  TRY(Expect(Tok::kRightParen));
  TRY(ReadInt(size));
  int64_t whole = mesh.axes[static_cast<size_t>(axis.axis)].size;
  if (before <= 0 || size <= 0 || before > whole || size > whole / before) {
    return FailAt(at, "axis ", name, " of size ", whole, " has no part (", before, ")", size);
  }
  return {};
}

Status ValueReader::ReadAxisRefs(const Mesh& mesh, std::vector<AxisRef>& axes) {
  return ReadList(Tok::kLeftBrace, Tok::kRightBrace,
                  [&]() -> Status { return ReadAxisRef(mesh, axes.emplace_back()); });
}

Status ValueReader::ReadReductionKind(ReductionKind& kind) {
  if (EatWord("sum")) {
    kind = ReductionKind::kSum;
  } else if (EatWord("max")) {
    kind = ReductionKind::kMax;
  } else if (EatWord("min")) {
    kind = ReductionKind::kMin;
  } else {
    return Expected("sum, max or min");
  }
  return {};
}

// `p2` behind a dimension's axes.
Status ValueReader::ReadPriority(DimSharding& dim) {
  if (kind() != Tok::kIdent || !lexer_.token().text.starts_with("p")) return {};
  dim.priority = ParseInt(lexer_.token().text.substr(1));
  if (!dim.priority || *dim.priority < 0) return Expected("a priority, such as p1");
  lexer_.Next();
  return {};
}

Status ValueReader::ReadNamedSharding(Sharding& s) {
  s.kind = Sharding::Kind::kNamed;
  NamedSharding& n = s.named.Make();
  TRY(ReadMesh(n.mesh));
  if (!n.mesh.maximal) {
    Eat(Tok::kComma);
    bool assigned = kind() == Tok::kAttr && lexer_.token().text == "unreduced";
    if (EatWord("replicated")) {
      n.form = NamedSharding::Form::kReplicated;
    } else if (EatWord("manual")) {
      n.form = NamedSharding::Form::kManual;
    } else if (assigned || IsWord("unreduced")) {
      n.form = NamedSharding::Form::kUnreduced;
      lexer_.Next();
      if (assigned) TRY(ReadReductionKind(n.unreduced_kind));
      if (kind() == Tok::kLeftBrace) TRY(ReadAxisRefs(n.mesh, n.unreduced));
    } else {
      TRY(ReadList(Tok::kLeftSquare, Tok::kRightSquare, [&]() -> Status {
        DimSharding& dim = n.dims.emplace_back();
        TRY(ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
          if (dim.open) return Fail("'?' stands last");
          dim.open = Eat(Tok::kQuestion);
          if (dim.open) return {};
          return ReadAxisRef(n.mesh, dim.axes.emplace_back());
        }));
        return ReadPriority(dim);
      }));
    }
  }
  while (Eat(Tok::kComma)) TRY(ReadNamedShardingAttribute(s));
  return Expect(Tok::kRightBrace);
}

Status ValueReader::ReadNamedShardingAttribute(Sharding& s) {
  NamedSharding& n = *s.named;
  bool dims = !n.mesh.maximal && n.form == NamedSharding::Form::kDims;
  const char* at = lexer_.token().begin;
  std::string_view name;
  TRY(ReadAttrName(name));
  if (name == "metadata") return ReadMetadataList(s.metadata);
  if (dims && name == "replicated") return ReadAxisRefs(n.mesh, n.replicated);
  if (dims && name == "manual") return ReadAxisRefs(n.mesh, n.manual);
  if (dims && name == "unreduced") {
    if (kind() == Tok::kIdent) TRY(ReadReductionKind(n.unreduced_kind));
    return ReadAxisRefs(n.mesh, n.unreduced);
  }
  return FailAt(
      at, "sharding: unexpected ", name,
      dims ? "; allowed: replicated, unreduced, manual, metadata" : "; allowed: metadata");
}

Status ValueReader::ReadReplicaGroups(ReplicaGroups& groups) {
  if (kind() == Tok::kLeftBrace) return ReadIntListList(groups.groups);
  if (IsWord("mesh") || IsWord("maximal_mesh")) {
    groups.form = ReplicaGroups::Form::kMesh;
    TRY(ReadMesh(groups.mesh));
    return ReadAxisRefs(groups.mesh, groups.axes);
  }
  const char* at = lexer_.token().begin;
  groups.form = ReplicaGroups::Form::kIota;
  if (kind() != Tok::kLeftSquare) return Expected("replica groups: {{...}}, [n,m]<=[...] or mesh");
  std::vector<int64_t> dims;
  TRY(ReadIntList(Tok::kLeftSquare, Tok::kRightSquare, dims));
  TRY(Expect(Tok::kLessEqual));
  TRY(ReadIota(groups.iota));
  if (dims.size() != 2)
    return FailAt(at, "replica groups are [groups,size], not of ", dims.size(), " dimensions");
  std::optional<int64_t> count = CheckedProduct(dims);
  if (!count || count != CheckedProduct(groups.iota.dims)) {
    return FailAt(at, "[", StrJoin(dims, ","), "] replica groups of another number of devices [",
                  StrJoin(groups.iota.dims, ","), "]");
  }
  groups.num_groups = dims[0];
  groups.group_size = dims[1];
  return {};
}

}  // namespace weft::hlo::text
