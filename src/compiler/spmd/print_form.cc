// The form of a sharding as HLO spells it: by names of axes, or as a tile assignment.
#include <algorithm>

#include "compiler/spmd/form.h"

namespace weft::compiler::spmd {
namespace {

using hlo::Sharding;

AxisList ListOf(AxisSet set, const DeviceMesh& mesh) {
  AxisList axes;
  for (int k = 0; k < static_cast<int>(mesh.pieces.size()); ++k) {
    if ((set & BitOf(k)) != 0) axes.push_back(k);
  }
  return axes;
}

// Neighbouring pieces of one axis as one reference.
std::vector<hlo::AxisRef> RefsOf(AxisSpan axes, const DeviceMesh& mesh) {
  std::vector<hlo::AxisRef> refs;
  for (size_t k = 0; k < axes.size();) {
    const Piece& first = mesh.pieces[static_cast<size_t>(axes[k])];
    int64_t size = first.size;
    for (++k; k < axes.size(); ++k) {
      const Piece& next = mesh.pieces[static_cast<size_t>(axes[k])];
      if (next.axis != first.axis || next.pre != first.pre * size) break;
      size *= next.size;
    }
    hlo::AxisRef& ref = refs.emplace_back();
    ref.axis = first.axis;
    if (size != mesh.axes[static_cast<size_t>(first.axis)].size) ref.sub = {first.pre, size};
  }
  return refs;
}

// Devices in row-major order of `axes`, which names every piece: an iota when the mesh and the
// form have no order of their own.
hlo::DeviceList DevicesBy(AxisSpan axes, const Form& form, const DeviceMesh& mesh) {
  hlo::DeviceList list;
  if (form.order.empty() && mesh.order.empty()) {
    // Runs of neighbouring pieces are one dimension of the iota.
    std::vector<AxisList> runs;
    for (Axis axis : axes) {
      if (!runs.empty() && runs.back().back() + 1 == axis) {
        runs.back().push_back(axis);
      } else {
        runs.push_back({axis});
      }
    }
    std::vector<size_t> by(runs.size());
    for (size_t k = 0; k < by.size(); ++k) by[k] = k;
    std::ranges::sort(by, [&](size_t a, size_t b) { return runs[a][0] < runs[b][0]; });
    hlo::IotaDevices& iota = list.iota.emplace();
    iota.perm.resize(runs.size());
    for (size_t k = 0; k < by.size(); ++k) {
      iota.dims.push_back(mesh.SizeOf(runs[by[k]]));
      iota.perm[by[k]] = static_cast<int64_t>(k);
    }
    if (runs.size() == 1) iota.perm.clear();
    return list;
  }
  list.ids.resize(static_cast<size_t>(mesh.devices));
  for (int64_t place = 0; place < mesh.devices; ++place) {
    list.ids[static_cast<size_t>(mesh.IndexOf(place, axes))] =
        form.order.empty() ? mesh.DeviceAt(place) : form.order[static_cast<size_t>(place)];
  }
  return list;
}

bool IsOpen(const Form& form) {
  return std::ranges::any_of(form.dims, [](const DimForm& dim) { return dim.open; });
}

}  // namespace

Sharding PrintTiled(const Form& form, const DeviceMesh& mesh) {
  Sharding s;
  const AxisSet all = mesh.all();
  if (form.cut() == 0 && form.manual == 0 && form.unreduced == 0) {
    s.kind = IsOpen(form) ? Sharding::Kind::kUnknown : Sharding::Kind::kReplicated;
    return s;
  }
  if (form.manual == all) s.kind = Sharding::Kind::kManual;
  if (form.unreduced == all) s.kind = Sharding::Kind::kUnreduced;
  if (form.manual == all || form.unreduced == all) return s;
  s.kind = Sharding::Kind::kTiled;
  AxisList by;
  for (const DimForm& dim : form.dims) {
    s.tile_dims.push_back(mesh.SizeOf(dim.axes));
    Append(by, dim.axes);
  }
  const AxisSet copies = all & ~(form.cut() | form.manual | form.unreduced);
  auto rest = [&](AxisSet set, Sharding::Kind kind) {
    const AxisList axes = ListOf(set, mesh);
    if (axes.empty()) return;
    s.tile_dims.push_back(mesh.SizeOf(axes));
    s.last_tile_dims.push_back(kind);
    Append(by, axes);
  };
  rest(form.manual, Sharding::Kind::kManual);
  rest(form.unreduced, Sharding::Kind::kUnreduced);
  rest(copies, Sharding::Kind::kReplicated);
  if (s.last_tile_dims.size() == 1 && copies != 0) {
    s.last_tile_dims.clear();
    s.last_tile_dim_replicate = true;
  }
  s.devices = DevicesBy(by, form, mesh);
  return s;
}

Sharding PrintNamed(const Form& form, const DeviceMesh& mesh) {
  Sharding s;
  s.kind = Sharding::Kind::kNamed;
  hlo::NamedSharding& named = s.named.Make();
  named.mesh.axes = mesh.axes;
  const std::vector<int64_t>& order = form.order.empty() ? mesh.order : form.order;
  if (!order.empty()) named.mesh.devices = hlo::DeviceList{.ids = order, .iota = {}};
  for (const DimForm& dim : form.dims) {
    hlo::DimSharding& to = named.dims.emplace_back();
    to.axes = RefsOf(dim.axes, mesh);
    to.open = dim.open;
    if (dim.priority != 0) to.priority = dim.priority;
  }
  named.replicated = RefsOf(ListOf(form.replicated, mesh), mesh);
  named.unreduced = RefsOf(ListOf(form.unreduced, mesh), mesh);
  named.manual = RefsOf(ListOf(form.manual, mesh), mesh);
  named.unreduced_kind = form.reduction;
  return s;
}

Sharding PrintForm(const Form& form, const DeviceMesh& mesh) {
  const bool named = !mesh.axes.empty() && !mesh.axes[0].name.empty();
  return named ? PrintNamed(form, mesh) : PrintTiled(form, mesh);
}

}  // namespace weft::compiler::spmd
