#include "compiler/spmd/form.h"

#include <algorithm>
#include <numeric>

namespace weft::compiler::spmd {
namespace {

using hlo::NamedSharding;
using hlo::Sharding;

// A sharding written out: devices in row-major order of parts, where each part is a dimension or
// a kind of rest (copies, manual, summands).
struct Assignment {
  std::vector<int64_t> devices;
  std::vector<int64_t> parts;  // sizes, whose product is the number of devices
};

// Devices of `grid` (row-major; `order` of them when given) in row-major order of `by`, which names
// every axis of the grid once.
std::vector<int64_t> Arrange(std::span<const int64_t> grid, std::span<const int64_t> by,
                             std::span<const int64_t> order) {
  std::vector<int64_t> strides(grid.size(), 1);
  for (size_t k = grid.size(); k-- > 1;) strides[k - 1] = strides[k] * grid[k];
  std::vector<int64_t> devices = {0};
  for (int64_t axis : by) {
    std::vector<int64_t> next;
    for (int64_t base : devices) {
      for (int64_t k = 0; k < grid[static_cast<size_t>(axis)]; ++k) {
        next.push_back(base + k * strides[static_cast<size_t>(axis)]);
      }
    }
    devices = std::move(next);
  }
  if (!order.empty()) {
    for (int64_t& device : devices) device = order[static_cast<size_t>(device)];
  }
  return devices;
}

// The pieces that each part is made of, when the devices stand as in the mesh.
bool Recognize(const Assignment& a, std::span<const int64_t> places, const DeviceMesh& mesh,
               std::vector<AxisList>& parts) {
  parts.assign(a.parts.size(), {});
  AxisSet used = 0;
  int64_t at = 1;
  for (size_t part = a.parts.size(); part-- > 0;) {
    int64_t rest = a.parts[part];
    while (rest > 1) {
      const int64_t stride = places[static_cast<size_t>(at)] - places[0];
      int found = -1;
      for (size_t k = 0; k < mesh.pieces.size(); ++k) {
        const Piece& piece = mesh.pieces[k];
        const bool free = ((used >> k) & 1) == 0;
        if (free && piece.stride == stride && rest % piece.size == 0) found = static_cast<int>(k);
      }
      if (found < 0) return false;
      used |= BitOf(found);
      parts[part].insert_at(0, found);
      at *= mesh.size(found);
      rest /= mesh.size(found);
    }
  }
  AxisList all;
  for (const AxisList& part : parts) Append(all, part);
  for (size_t k = 0; k < places.size(); ++k) {
    if (mesh.IndexOf(places[k], all) != static_cast<int64_t>(k)) return false;
  }
  return true;
}

// Pieces of the right sizes, and the order of devices that makes them what the assignment says.
Status Fit(const Assignment& a, const DeviceMesh& mesh, std::vector<AxisList>& parts,
           std::vector<int64_t>& order) {
  parts.assign(a.parts.size(), {});
  AxisSet used = 0;
  for (size_t part = 0; part < a.parts.size(); ++part) {
    int64_t rest = a.parts[part];
    for (int k = 0; k < static_cast<int>(mesh.pieces.size()) && rest > 1; ++k) {
      if ((used & BitOf(k)) != 0 || rest % mesh.size(k) != 0) continue;
      used |= BitOf(k);
      parts[part].push_back(k);
      rest /= mesh.size(k);
    }
    if (rest > 1) {
      return InvalidArgument("sharding: ", a.parts[part], " parts do not fit a mesh of ",
                             mesh.devices, " devices");
    }
  }
  AxisList all;
  for (const AxisList& part : parts) Append(all, part);
  order.resize(static_cast<size_t>(mesh.devices));
  for (int64_t place = 0; place < mesh.devices; ++place) {
    order[static_cast<size_t>(place)] = a.devices[static_cast<size_t>(mesh.IndexOf(place, all))];
  }
  return {};
}

// Pieces for every part; `order` is set when devices stand otherwise than in the mesh.
Status ReadParts(const Assignment& a, const DeviceMesh& mesh, std::vector<AxisList>& parts,
                 std::vector<int64_t>& order) {
  if (static_cast<int64_t>(a.devices.size()) != mesh.devices) {
    return InvalidArgument("sharding: of ", a.devices.size(), " devices in a program of ",
                           mesh.devices);
  }
  std::vector<int64_t> place_of(a.devices.size(), -1), places;
  for (int64_t place = 0; place < mesh.devices; ++place) {
    place_of[static_cast<size_t>(mesh.DeviceAt(place))] = place;
  }
  std::vector<bool> seen(a.devices.size(), false);
  for (int64_t device : a.devices) {
    if (device < 0 || device >= mesh.devices || seen[static_cast<size_t>(device)]) {
      return InvalidArgument("sharding: device ", device, " of ", mesh.devices,
                             " is not there or there twice");
    }
    seen[static_cast<size_t>(device)] = true;
    places.push_back(place_of[static_cast<size_t>(device)]);
  }
  if (places[0] == 0 && Recognize(a, places, mesh, parts)) return {};
  return Fit(a, mesh, parts, order);
}

AxisSet SetOf(AxisSpan axes) {
  AxisSet set = 0;
  for (int axis : axes) set |= BitOf(axis);
  return set;
}

Result<Form> ReadTiled(const Sharding& s, const Shape& shape, const DeviceMesh& mesh) {
  Assignment a{.devices = {}, .parts = s.tile_dims};
  if (s.devices.iota) {
    std::vector<int64_t> by = s.devices.iota->perm;
    if (by.empty()) {
      by.resize(s.devices.iota->dims.size());
      std::iota(by.begin(), by.end(), 0);
    }
    if (std::accumulate(a.parts.begin(), a.parts.end(), int64_t{1}, std::multiplies<>()) !=
        mesh.devices) {
      return InvalidArgument("sharding: ", s.ToString(), " in a program of ", mesh.devices,
                             " devices");
    }
    a.devices = Arrange(s.devices.iota->dims, by, {});
  } else {
    a.devices = s.devices.ids;
  }
  const size_t rest = s.last_tile_dim_replicate ? 1 : s.last_tile_dims.size();
  if (a.parts.size() != static_cast<size_t>(shape.rank()) + rest) {
    return InvalidArgument("sharding: ", s.ToString(), " of ", shape.ToStringWithoutLayout(),
                           ": dimensions differ in number");
  }
  std::vector<AxisList> parts;
  Form form = Form::Replicated(shape.rank());
  TRY(ReadParts(a, mesh, parts, form.order));
  for (size_t d = 0; d < form.dims.size(); ++d) form.dims[d].axes = parts[d];
  for (size_t k = 0; k < s.last_tile_dims.size(); ++k) {
    const AxisSet set = SetOf(parts[form.dims.size() + k]);
    if (s.last_tile_dims[k] == Sharding::Kind::kManual) form.manual |= set;
    if (s.last_tile_dims[k] == Sharding::Kind::kUnreduced) form.unreduced |= set;
  }
  return form;
}

// One axis or part of one, as a run of a finer grid.
struct NamedPart {
  int64_t axis, pre, size;
  bool operator==(const NamedPart&) const = default;
};

// The finest grid that all references of a sharding are made of: axes cut at their sub-axes.
Result<std::vector<NamedPart>> FinestGrid(const NamedSharding& n,
                                          std::span<const hlo::AxisRef> refs) {
  std::vector<NamedPart> grid;
  for (size_t k = 0; k < n.mesh.axes.size(); ++k) {
    const int64_t axis = static_cast<int64_t>(k), size = n.mesh.axes[k].size;
    std::vector<int64_t> cuts = {1, size};
    for (const hlo::AxisRef& ref : refs) {
      if (ref.axis != axis || !ref.sub) continue;
      cuts.push_back(ref.sub->first);
      cuts.push_back(ref.sub->first * ref.sub->second);
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      if (cuts[c + 1] % cuts[c] != 0 || size % cuts[c + 1] != 0) {
        return InvalidArgument("sharding: sub-axes of \"", n.mesh.axes[k].name, "\" of size ", size,
                               " do not divide each other");
      }
      grid.push_back({axis, cuts[c], cuts[c + 1] / cuts[c]});
    }
    if (size == 1) grid.push_back({axis, 1, 1});
  }
  return grid;
}

// The devices of a named mesh in the order of its axes; empty: as they are numbered.
std::vector<int64_t> OrderOfDevices(const NamedSharding& n) {
  std::vector<int64_t> order;
  if (n.mesh.devices && !n.mesh.devices->iota) order = n.mesh.devices->ids;
  if (n.mesh.devices && n.mesh.devices->iota) {
    std::vector<int64_t> perm = n.mesh.devices->iota->perm;
    if (perm.empty()) {
      perm.resize(n.mesh.devices->iota->dims.size());
      std::iota(perm.begin(), perm.end(), 0);
    }
    order = Arrange(n.mesh.devices->iota->dims, perm, {});
  }
  return order;
}

// How many parts each list of axes makes, the axes of no list last, and which devices have them.
Result<Assignment> AssignParts(const NamedSharding& n, std::span<const NamedPart> grid,
                               std::span<const std::vector<hlo::AxisRef>> lists) {
  std::vector<bool> taken(grid.size(), false);
  std::vector<int64_t> by, sizes;
  for (const NamedPart& part : grid) sizes.push_back(part.size);
  Assignment a;
  for (const auto& list : lists) {
    int64_t count = 1;
    for (const hlo::AxisRef& ref : list) {
      const int64_t pre = ref.sub ? ref.sub->first : 1;
      const int64_t size =
          ref.sub ? ref.sub->second : n.mesh.axes[static_cast<size_t>(ref.axis)].size;
      for (size_t g = 0; g < grid.size(); ++g) {
        const NamedPart& part = grid[g];
        if (part.axis != ref.axis || part.pre < pre || part.pre * part.size > pre * size) continue;
        if (taken[g] && part.size > 1) {
          return InvalidArgument("sharding: axis \"",
                                 n.mesh.axes[static_cast<size_t>(ref.axis)].name, "\" twice");
        }
        taken[g] = true;
        by.push_back(static_cast<int64_t>(g));
        count *= part.size;
      }
    }
    a.parts.push_back(count);
  }
  int64_t rest = 1;
  for (size_t g = 0; g < grid.size(); ++g) {
    if (taken[g]) continue;
    by.push_back(static_cast<int64_t>(g));
    rest *= grid[g].size;
  }
  a.parts.push_back(rest);
  a.devices = Arrange(sizes, by, OrderOfDevices(n));
  return a;
}

Result<Form> ReadNamed(const NamedSharding& n, const Shape& shape, const DeviceMesh& mesh) {
  if (n.mesh.maximal || n.mesh.axes.empty()) return Form::Replicated(shape.rank());
  Form form = Form::Replicated(shape.rank());
  if (n.form == NamedSharding::Form::kReplicated) return form;
  if (n.form == NamedSharding::Form::kManual) form.manual = mesh.all();
  if (n.form == NamedSharding::Form::kUnreduced && n.unreduced.empty()) {
    form.unreduced = mesh.all();
  }
  if (n.form == NamedSharding::Form::kManual || form.unreduced != 0) return form;
  if (n.form == NamedSharding::Form::kDims && n.dims.size() != form.dims.size()) {
    return InvalidArgument("sharding: ", n.dims.size(), " dimensions for ",
                           shape.ToStringWithoutLayout());
  }
  std::vector<std::vector<hlo::AxisRef>> lists;
  for (const hlo::DimSharding& dim : n.dims) lists.push_back(dim.axes);
  lists.resize(form.dims.size());
  lists.push_back(n.replicated);
  lists.push_back(n.unreduced);
  lists.push_back(n.manual);
  std::vector<hlo::AxisRef> refs;
  for (const auto& list : lists) refs.insert(refs.end(), list.begin(), list.end());
  const std::vector<NamedPart> grid = TRY(FinestGrid(n, refs));
  Assignment a = TRY(AssignParts(n, grid, lists));
  std::vector<AxisList> parts;
  TRY(ReadParts(a, mesh, parts, form.order));
  const size_t rank = form.dims.size();
  for (size_t d = 0; d < rank; ++d) {
    form.dims[d].axes = parts[d];
    if (d >= n.dims.size()) continue;
    form.dims[d].open = n.dims[d].open;
    form.dims[d].priority = n.dims[d].priority.value_or(0);
  }
  form.replicated = SetOf(parts[rank]);
  form.unreduced = SetOf(parts[rank + 1]);
  form.manual = SetOf(parts[rank + 2]);
  form.reduction = n.unreduced_kind;
  return form;
}

}  // namespace

Form Form::Replicated(int64_t rank, bool open) {
  Form form;
  form.dims.resize(static_cast<size_t>(rank));
  for (DimForm& dim : form.dims) dim.open = open;
  return form;
}

AxisSet Form::cut() const {
  AxisSet set = 0;
  for (const DimForm& dim : dims) set |= SetOf(dim.axes);
  return set;
}

bool Form::SameAs(const Form& other) const {
  if (unreduced != other.unreduced || order != other.order) return false;
  return std::ranges::equal(dims, other.dims,
                            [](const DimForm& a, const DimForm& b) { return a.axes == b.axes; });
}

std::string Form::ToString(const DeviceMesh& mesh) const {
  std::string out = "[";
  for (size_t d = 0; d < dims.size(); ++d) {
    StrAppend(out, d > 0 ? ", {" : "{", mesh.NameOf(dims[d].axes));
    if (dims[d].open) out.append(dims[d].axes.empty() ? "?" : ",?");
    out.push_back('}');
    if (dims[d].priority != 0) StrAppend(out, "p", dims[d].priority);
  }
  out.push_back(']');
  auto list = [&](std::string_view name, AxisSet set) {
    AxisList axes;
    for (int k = 0; k < static_cast<int>(mesh.pieces.size()); ++k) {
      if ((set & BitOf(k)) != 0) axes.push_back(k);
    }
    if (!axes.empty()) StrAppend(out, " ", name, " {", mesh.NameOf(axes), "}");
  };
  list("replicated", replicated);
  list("unreduced", unreduced);
  list("manual", manual);
  if (!order.empty()) StrAppend(out, " on (", StrJoin(order, ","), ")");
  return out;
}

Result<Form> ReadForm(const Sharding& sharding, const Shape& shape, const DeviceMesh& mesh) {
  const int64_t rank = shape.IsArray() ? shape.rank() : 0;
  Form form = Form::Replicated(rank);
  if (!shape.IsArray()) return form;
  switch (sharding.kind) {
    case Sharding::Kind::kReplicated:
    case Sharding::Kind::kMaximal: return form;
    case Sharding::Kind::kUnknown: return Form::Replicated(rank, true);
    case Sharding::Kind::kManual: form.manual = mesh.all(); return form;
    case Sharding::Kind::kUnreduced: form.unreduced = mesh.all(); return form;
    case Sharding::Kind::kTiled: return ReadTiled(sharding, shape, mesh);
    case Sharding::Kind::kNamed: return ReadNamed(*sharding.named, shape, mesh);
    case Sharding::Kind::kTuple: break;
  }
  return InvalidArgument("sharding: one of a tuple for ", shape.ToStringWithoutLayout());
}

Result<const Form*> FormReader::Read(const Sharding& sharding, const Shape& shape) {
  for (size_t k = 0; k < known_.size(); ++k) {
    if (known_[k].rank != shape.rank() || !(*known_[k].sharding == sharding)) continue;
    if (k > 0) std::swap(known_[k], known_[k - 1]);
    return &known_[k > 0 ? k - 1 : 0].form;
  }
  Form form = TRY(ReadForm(sharding, shape, mesh_));
  if (std::ssize(known_) > mesh_.devices) known_.pop_back();
  known_.push_back({&sharding, shape.rank(), std::move(form)});
  return &known_.back().form;
}

Shape LocalShape(const Shape& shape, const Form& form, const DeviceMesh& mesh) {
  Shape local = shape;
  for (int64_t d = 0; shape.IsArray() && d < shape.rank(); ++d) {
    const int64_t parts = mesh.SizeOf(form.dims[static_cast<size_t>(d)].axes);
    if (parts > 1) local.set_dim(d, (shape.dim(d) + parts - 1) / parts);
  }
  return local;
}

std::vector<const Shape*> LeavesOf(const Shape& shape) {
  if (!shape.IsTuple()) return {&shape};
  std::vector<const Shape*> leaves;
  shape.ForEachSubShape([&](const Shape& sub, const ShapeIndex&) {
    if (!sub.IsTuple()) leaves.push_back(&sub);
  });
  return leaves;
}

const Sharding* LeafSharding(const Sharding* sharding, const Shape& shape, size_t leaf) {
  if (sharding == nullptr || sharding->kind != Sharding::Kind::kTuple) return sharding;
  if (!shape.IsTuple()) return sharding->elements.size() == 1 ? &sharding->elements[0] : nullptr;
  return leaf < sharding->elements.size() ? &sharding->elements[leaf] : nullptr;
}

}  // namespace weft::compiler::spmd
