// Shardings, meshes and replica groups as text.
#include "hlo/text/printer.h"

namespace weft::hlo::text {
namespace {

void AppendIota(std::string& out, const IotaDevices& iota) {
  StrAppend(out, "[", StrJoin(iota.dims, ","), "]");
  if (iota.dims.size() <= 1) return;
  out.append("T(");
  for (size_t i = 0; i < iota.dims.size(); ++i) {
    StrAppend(out, i > 0 ? "," : "", iota.perm.empty() ? static_cast<int64_t>(i) : iota.perm[i]);
  }
  out.push_back(')');
}

void AppendMesh(std::string& out, const Mesh& mesh) {
  if (mesh.maximal) return StrAppend(out, "maximal_mesh[device_id=", *mesh.maximal, "]");
  out.append("mesh[");
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (i > 0) out.push_back(',');
    AppendQuoted(out, mesh.axes[i].name);
    StrAppend(out, "=", mesh.axes[i].size);
  }
  out.push_back(']');
  if (!mesh.devices) return;
  out.append(", device_ids=(");
  if (mesh.devices->iota) {
    AppendIota(out, *mesh.devices->iota);
  } else {
    AppendJoined(out, mesh.devices->ids, ",");
  }
  out.push_back(')');
}

void AppendAxisRef(std::string& out, const Mesh& mesh, const AxisRef& ref) {
  size_t axis = static_cast<size_t>(ref.axis);
  AppendQuoted(out, axis < mesh.axes.size() ? mesh.axes[axis].name : StrCat(ref.axis));
  if (ref.sub) StrAppend(out, ":(", ref.sub->first, ")", ref.sub->second);
}

void AppendAxes(std::string& out, const Mesh& mesh, const std::vector<AxisRef>& axes,
                bool open = false) {
  out.push_back('{');
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) out.append(", ");
    AppendAxisRef(out, mesh, axes[i]);
  }
  if (open) out.append(axes.empty() ? "?" : ", ?");
  out.push_back('}');
}

std::string_view ReductionName(ReductionKind kind) {
  static constexpr std::string_view kNames[] = {"", "sum", "max", "min"};
  return kNames[static_cast<int>(kind)];
}

void AppendNamed(std::string& out, const NamedSharding& n) {
  AppendMesh(out, n.mesh);
  if (n.mesh.maximal) return;
  switch (n.form) {
    case NamedSharding::Form::kReplicated: out.append(", replicated"); return;
    case NamedSharding::Form::kManual: out.append(", manual"); return;
    case NamedSharding::Form::kUnreduced:
      out.append(", unreduced");
      if (n.unreduced_kind != ReductionKind::kNone) {
        StrAppend(out, "=", ReductionName(n.unreduced_kind));
      }
      if (!n.unreduced.empty()) AppendAxes(out, n.mesh, n.unreduced);
      return;
    case NamedSharding::Form::kDims: break;
  }
  out.append(", [");
  for (size_t i = 0; i < n.dims.size(); ++i) {
    if (i > 0) out.append(", ");
    AppendAxes(out, n.mesh, n.dims[i].axes, n.dims[i].open);
    if (n.dims[i].priority) StrAppend(out, "p", *n.dims[i].priority);
  }
  out.push_back(']');
  auto list = [&](std::string_view name, std::string_view how, const std::vector<AxisRef>& axes) {
    if (axes.empty() && how.empty()) return;
    StrAppend(out, ", ", name, "=", how);
    AppendAxes(out, n.mesh, axes);
  };
  list("replicated", "", n.replicated);
  list("unreduced", ReductionName(n.unreduced_kind), n.unreduced);
  list("manual", "", n.manual);
}

std::string_view ShardingWord(Sharding::Kind kind) {
  switch (kind) {
    case Sharding::Kind::kMaximal: return "maximal";
    case Sharding::Kind::kManual: return "manual";
    case Sharding::Kind::kUnknown: return "unknown";
    case Sharding::Kind::kUnreduced: return "unreduced";
    default: return "replicated";
  }
}

void AppendTiled(std::string& out, const Sharding& s) {
  StrAppend(out, "devices=[", StrJoin(s.tile_dims, ","), "]");
  if (s.devices.iota) {
    out.append("<=");
    AppendIota(out, *s.devices.iota);
  } else {
    AppendJoined(out, s.devices.ids, ",");
  }
}

}  // namespace

void AppendSharding(std::string& out, const Sharding& s, bool metadata) {
  out.push_back('{');
  if (s.kind == Sharding::Kind::kTuple) {
    for (size_t i = 0; i < s.elements.size(); ++i) {
      if (i > 0) out.append(", ");
      if (i > 0 && i % 5 == 0) StrAppend(out, "/*index=", i, "*/");
      AppendSharding(out, s.elements[i], metadata);
    }
    out.push_back('}');
    return;
  }
  if (s.kind == Sharding::Kind::kNamed) {
    if (s.named) AppendNamed(out, *s.named);
  } else if (s.kind == Sharding::Kind::kTiled) {
    AppendTiled(out, s);
  } else {
    out.append(ShardingWord(s.kind));
    if (s.kind == Sharding::Kind::kMaximal) StrAppend(out, " device=", s.device);
  }
  if (s.last_tile_dim_replicate) out.append(" last_tile_dim_replicate");
  if (!s.last_tile_dims.empty()) {
    out.append(" last_tile_dims={");
    for (size_t i = 0; i < s.last_tile_dims.size(); ++i) {
      StrAppend(out, i > 0 ? ", " : "", ShardingWord(s.last_tile_dims[i]));
    }
    out.push_back('}');
  }
  if (s.group != Sharding::Group::kNone) {
    StrAppend(out, s.group == Sharding::Group::kAs ? " shard_as " : " shard_like ", s.group_id);
  }
  if (metadata && !s.metadata.empty()) {
    out.append(s.kind == Sharding::Kind::kNamed ? ", metadata=" : " metadata=");
    if (s.metadata.size() > 1) out.push_back('{');
    for (size_t i = 0; i < s.metadata.size(); ++i) {
      if (i > 0) out.append(", ");
      AppendMetadata(out, s.metadata[i]);
    }
    if (s.metadata.size() > 1) out.push_back('}');
  }
  out.push_back('}');
}

}  // namespace weft::hlo::text

namespace weft::hlo {

void Sharding::AppendTo(std::string& out) const {
  text::AppendSharding(out, *this, /*metadata=*/true);
}

std::string Sharding::ToString() const {
  std::string out;
  AppendTo(out);
  return out;
}

void ReplicaGroups::AppendTo(std::string& out) const {
  if (form == Form::kIota) {
    StrAppend(out, "[", num_groups, ",", group_size, "]<=");
    return text::AppendIota(out, iota);
  }
  if (form == Form::kMesh) {
    text::AppendMesh(out, mesh);
    return text::AppendAxes(out, mesh, axes);
  }
  out.push_back('{');
  for (size_t i = 0; i < groups.size(); ++i) {
    StrAppend(out, i > 0 ? ",{" : "{", StrJoin(groups[i], ","), "}");
  }
  out.push_back('}');
}

std::string ReplicaGroups::ToString() const {
  std::string out;
  AppendTo(out);
  return out;
}

}  // namespace weft::hlo
