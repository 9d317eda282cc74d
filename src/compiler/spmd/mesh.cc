// The mesh that the shardings of a module are about.
#include <algorithm>
#include <functional>

#include "compiler/spmd/form.h"
#include "program/work_bounds.h"

namespace weft::compiler::spmd {
namespace {

using hlo::Sharding;

constexpr int64_t kMaxDevices = program::WorkBounds::kLiteral;
static_assert(kMaxDevices <= int64_t{1} << AxisList::kMost,
              "a mesh has more pieces than lists hold");

void VisitShardings(const Sharding& sharding, const std::function<void(const Sharding&)>& visit) {
  for (const Sharding& element : sharding.elements) VisitShardings(element, visit);
  if (sharding.kind != Sharding::Kind::kTuple) visit(sharding);
}

void VisitShardings(const hlo::Module& module, const std::function<void(const Sharding&)>& visit) {
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* i : *computation) {
      if (i->sharding() != nullptr) VisitShardings(*i->sharding(), visit);
    }
  }
}

int64_t ProductOf(std::span<const int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size < 1 || product > kMaxDevices / size) return kMaxDevices + 1;
    product *= size;
  }
  return product;
}

std::vector<int64_t> AxisSizesOf(const hlo::Mesh& mesh) {
  std::vector<int64_t> sizes;
  for (const hlo::MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  return sizes;
}

// The sizes of the grid that a sharding is cut from; empty: none.
std::vector<int64_t> GridOf(const Sharding& sharding) {
  if (sharding.kind == Sharding::Kind::kNamed && !sharding.named->mesh.maximal) {
    return AxisSizesOf(sharding.named->mesh);
  }
  if (sharding.kind != Sharding::Kind::kTiled) return {};
  return sharding.devices.iota ? sharding.devices.iota->dims : sharding.tile_dims;
}

std::vector<int64_t> ExpandOrder(const hlo::Mesh& mesh) {
  if (!mesh.devices) return {};
  if (!mesh.devices->iota) return mesh.devices->ids;
  hlo::ReplicaGroups groups;
  groups.form = hlo::ReplicaGroups::Form::kIota;
  groups.iota = mesh.devices->iota.value();
  groups.num_groups = 1;
  groups.group_size = ProductOf(groups.iota.dims);
  Result<std::vector<std::vector<int64_t>>> expanded = groups.Expand(groups.group_size);
  return expanded && expanded->size() == 1 ? (*expanded)[0] : std::vector<int64_t>();
}

// Cuts between axes, as strides: kept where each divides the next.
void AddCuts(std::vector<int64_t>& cuts, std::span<const int64_t> sizes) {
  int64_t stride = 1;
  for (size_t k = sizes.size(); k-- > 0;) {
    stride *= sizes[k];
    const bool fits = std::ranges::all_of(
        cuts, [&](int64_t cut) { return cut % stride == 0 || stride % cut == 0; });
    if (fits && std::ranges::find(cuts, stride) == cuts.end()) cuts.push_back(stride);
  }
  std::ranges::sort(cuts);
}

// Pieces of prime size of the axis `size` that follows `pre` others of it, the last one of stride
// `stride`; appended minor to major.
void AppendPieces(std::vector<Piece>& minor_first, int64_t axis, int64_t pre, int64_t size,
                  int64_t stride) {
  for (int64_t prime = 2; size > 1; ++prime) {
    if (prime * prime > size) prime = size;
    while (size % prime == 0) {
      size /= prime;
      minor_first.push_back({.axis = axis, .pre = pre * size, .size = prime, .stride = stride});
      stride *= prime;
    }
  }
}

}  // namespace

Result<DeviceMesh> DeviceMesh::FromAxes(std::vector<hlo::MeshAxis> axes,
                                        std::vector<int64_t> order) {
  DeviceMesh mesh;
  mesh.axes = std::move(axes);
  std::vector<Piece> minor_first;
  for (size_t k = mesh.axes.size(); k-- > 0;) {
    const int64_t size = mesh.axes[k].size;
    if (size < 1 || mesh.devices > kMaxDevices / size) {
      return InvalidArgument("mesh: too many devices: axis ", mesh.axes[k].name, " of size ", size);
    }
    AppendPieces(minor_first, static_cast<int64_t>(k), 1, size, mesh.devices);
    mesh.devices *= size;
  }
  mesh.pieces.assign(minor_first.rbegin(), minor_first.rend());
  std::vector<int64_t> sorted = order;
  std::ranges::sort(sorted);
  bool in_place = true;
  for (size_t k = 0; k < order.size(); ++k) {
    in_place &= order[k] == static_cast<int64_t>(k);
    if (sorted[k] == static_cast<int64_t>(k)) continue;
    return InvalidArgument("mesh: device ids are not 0 to ", order.size() - 1);
  }
  if (!order.empty() && static_cast<int64_t>(order.size()) != mesh.devices) {
    return InvalidArgument("mesh: ", order.size(), " device ids for ", mesh.devices, " devices");
  }
  if (!in_place) mesh.order = std::move(order);
  return mesh;
}

Result<DeviceMesh> DeviceMesh::Of(const hlo::Module& module) {
  int64_t devices = std::max<int64_t>(module.config().num_partitions, 1);
  if (devices == 1) {
    VisitShardings(module,
                   [&](const Sharding& s) { devices = std::max(devices, ProductOf(GridOf(s))); });
  }
  const hlo::Mesh* named = nullptr;
  std::vector<int64_t> cuts = {1};
  if (devices > 1) cuts.push_back(devices);
  VisitShardings(module, [&](const Sharding& s) {
    const std::vector<int64_t> grid = GridOf(s);
    if (ProductOf(grid) != devices) return;
    if (s.kind == Sharding::Kind::kNamed && named == nullptr) named = &s.named->mesh;
    AddCuts(cuts, grid);
  });
  if (named != nullptr) return FromAxes(named->axes, ExpandOrder(*named));
  std::vector<hlo::MeshAxis> parts;
  for (size_t k = cuts.size(); k-- > 1;) parts.push_back({"", cuts[k] / cuts[k - 1]});
  DeviceMesh mesh = TRY(FromAxes(std::move(parts)));
  // One axis without a name, of which the pieces are parts.
  mesh.axes = {{"", mesh.devices}};
  int64_t pre = 1;
  for (Piece& piece : mesh.pieces) {
    piece.axis = 0;
    piece.pre = pre;
    pre *= piece.size;
  }
  return mesh;
}

int64_t DeviceMesh::SizeOf(AxisSpan axes) const {
  int64_t product = 1;
  for (int axis : axes) product *= size(axis);
  return product;
}

int64_t DeviceMesh::SizeOf(AxisSet set) const {
  int64_t product = 1;
  for (size_t k = 0; k < pieces.size(); ++k) {
    if ((set >> k) & 1) product *= pieces[k].size;
  }
  return product;
}

bool DeviceMesh::AreWholeAxes(AxisSpan list) const {
  int64_t done = 1, axis = -1;  // of `axis`, its first `done` parts are there
  for (int k : list) {
    const Piece& piece = pieces[static_cast<size_t>(k)];
    const bool whole = axis < 0 || done == axes[static_cast<size_t>(axis)].size;
    if (axes[static_cast<size_t>(piece.axis)].name.empty()) return true;
    if (piece.axis == axis ? piece.pre != done : !whole || piece.pre != 1) return false;
    done = piece.axis == axis ? done * piece.size : piece.size;
    axis = piece.axis;
  }
  return axis < 0 || done == axes[static_cast<size_t>(axis)].size;
}

int64_t DeviceMesh::IndexOf(int64_t place, AxisSpan axes) const {
  int64_t index = 0;
  for (int axis : axes) {
    const Piece& piece = pieces[static_cast<size_t>(axis)];
    index = index * piece.size + place / piece.stride % piece.size;
  }
  return index;
}

std::vector<std::vector<int64_t>> DeviceMesh::Groups(AxisSpan axes) const {
  std::vector<std::vector<int64_t>> groups;
  const int64_t count = SizeOf(axes);
  for (int64_t place = 0; place < devices; ++place) {
    if (IndexOf(place, axes) != 0) continue;
    std::vector<int64_t>& group = groups.emplace_back(static_cast<size_t>(count));
    for (int64_t k = 0; k < count; ++k) {
      int64_t at = place, rest = k;
      for (size_t a = axes.size(); a-- > 0;) {
        const Piece& piece = pieces[static_cast<size_t>(axes[a])];
        at += rest % piece.size * piece.stride;
        rest /= piece.size;
      }
      group[static_cast<size_t>(k)] = DeviceAt(at);
    }
  }
  return groups;
}

std::string DeviceMesh::NameOf(AxisSpan list) const {
  std::string out;
  for (size_t k = 0; k < list.size(); ++k) {
    const Piece& piece = pieces[static_cast<size_t>(list[k])];
    const hlo::MeshAxis& axis = axes[static_cast<size_t>(piece.axis)];
    int64_t size = piece.size;
    while (k + 1 < list.size() && list[k + 1] == list[k] + 1 &&
           pieces[static_cast<size_t>(list[k + 1])].axis == piece.axis) {
      size *= pieces[static_cast<size_t>(list[++k])].size;
    }
    StrAppend(out, out.empty() ? "" : ",", axis.name);
    if (size != axis.size || axis.name.empty()) StrAppend(out, ":(", piece.pre, ")", size);
  }
  return out;
}

}  // namespace weft::compiler::spmd
