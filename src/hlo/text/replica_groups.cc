// The device ids that replica groups stand for.
#include <algorithm>
#include <set>

#include "hlo/sharding.h"

namespace weft::hlo {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 24;

using Groups = std::vector<std::vector<int64_t>>;

Result<int64_t> DeviceCount(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count) || count > kMaxDevices) {
      return ResourceExhausted("replica groups of more than ", kMaxDevices, " devices: [",
                               StrJoin(sizes, ","), "]");
    }
  }
  return count;
}

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

// Calls f(offset) for all indices of a box in row-major order.
template <class F>
void ForEachOffset(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, F&& f) {
  for (int64_t size : sizes) {
    if (size == 0) return;
  }
  std::vector<int64_t> index(sizes.size(), 0);
  int64_t offset = 0;
  for (;;) {
    f(offset);
    size_t d = sizes.size();
    for (;;) {
      if (d == 0) return;
      --d;
      offset += strides[d];
      if (++index[d] < sizes[d]) break;
      offset -= strides[d] * sizes[d];
      index[d] = 0;
    }
  }
}

Result<std::vector<int64_t>> ExpandIota(const IotaDevices& iota) {
  TRY(DeviceCount(iota.dims));
  std::vector<int64_t> strides = RowMajorStrides(iota.dims), sizes, permuted;
  for (size_t i = 0; i < iota.dims.size(); ++i) {
    size_t d = iota.perm.empty() ? i : static_cast<size_t>(iota.perm[i]);
    if (d >= iota.dims.size()) return InvalidArgument("replica groups: no dimension ", d);
    sizes.push_back(iota.dims[d]);
    permuted.push_back(strides[d]);
  }
  std::vector<int64_t> devices;
  ForEachOffset(sizes, permuted, [&](int64_t offset) { devices.push_back(offset); });
  return devices;
}

// A mesh whose axes are cut where sub-axes begin and end.
struct CutMesh {
  struct Part {
    int64_t axis, before, size, stride;
    bool used = false;
  };
  std::vector<Part> parts;
};

Result<CutMesh> Cut(const Mesh& mesh, const std::vector<AxisRef>& refs) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  TRY(DeviceCount(sizes));
  std::vector<int64_t> strides = RowMajorStrides(sizes);
  CutMesh cut;
  for (size_t a = 0; a < sizes.size(); ++a) {
    std::set<int64_t> points = {1, sizes[a]};
    for (const AxisRef& ref : refs) {
      if (ref.axis != static_cast<int64_t>(a) || !ref.sub) continue;
      points.insert(ref.sub->first);
      points.insert(ref.sub->first * ref.sub->second);
    }
    int64_t before = 1;
    for (int64_t point : points) {
      if (point == before && point == 1) continue;
      if (point % before != 0 || sizes[a] % point != 0) {
        return InvalidArgument("replica groups: axis ", mesh.axes[a].name, " of size ", sizes[a],
                               " cannot be cut at ", point);
      }
      cut.parts.push_back(
          {static_cast<int64_t>(a), before, point / before, strides[a] * (sizes[a] / point)});
      before = point;
    }
  }
  return cut;
}

Result<Groups> ExpandMesh(const Mesh& mesh, const std::vector<AxisRef>& refs) {
  if (mesh.maximal) return Groups{{*mesh.maximal}};
  CutMesh cut = TRY(Cut(mesh, refs));
  std::vector<int64_t> inner_sizes, inner_strides, outer_sizes, outer_strides;
  for (const AxisRef& ref : refs) {
    for (CutMesh::Part& part : cut.parts) {
      if (part.axis != ref.axis) continue;
      if (ref.sub && (part.before < ref.sub->first ||
                      part.before * part.size > ref.sub->first * ref.sub->second)) {
        continue;
      }
      if (part.used) {
        return InvalidArgument("replica groups: axis ",
                               mesh.axes[static_cast<size_t>(ref.axis)].name, " is used twice");
      }
      part.used = true;
      inner_sizes.push_back(part.size);
      inner_strides.push_back(part.stride);
    }
  }
  for (const CutMesh::Part& part : cut.parts) {
    if (part.used) continue;
    outer_sizes.push_back(part.size);
    outer_strides.push_back(part.stride);
  }
  std::vector<int64_t> ids;
  if (mesh.devices && mesh.devices->iota) {
    ids = TRY(ExpandIota(*mesh.devices->iota));
  } else if (mesh.devices) {
    ids = mesh.devices->ids;
  }
  Groups groups;
  bool in_range = true;
  ForEachOffset(outer_sizes, outer_strides, [&](int64_t outer) {
    std::vector<int64_t>& group = groups.emplace_back();
    ForEachOffset(inner_sizes, inner_strides, [&](int64_t inner) {
      size_t at = static_cast<size_t>(outer + inner);
      in_range &= !mesh.devices || at < ids.size();
      group.push_back(!mesh.devices ? outer + inner : at < ids.size() ? ids[at] : -1);
    });
  });
  if (!in_range) return InvalidArgument("replica groups: the mesh lists too few devices");
  return groups;
}

}  // namespace

Result<Groups> ReplicaGroups::Expand(int64_t num_devices) const {
  if (form == Form::kMesh) return ExpandMesh(mesh, axes);
  Groups result;
  if (form == Form::kIota) {
    std::vector<int64_t> devices = TRY(ExpandIota(iota));
    int64_t count = static_cast<int64_t>(devices.size());
    if (num_groups < 0 || group_size < 0 || num_groups > kMaxDevices || group_size > kMaxDevices ||
        num_groups * group_size != count) {
      return InvalidArgument("replica groups: [", num_groups, ",", group_size, "] of ", count,
                             " devices");
    }
    for (int64_t g = 0; g < num_groups; ++g) {
      auto first = devices.begin() + g * group_size;
      result.emplace_back(first, first + group_size);
    }
    return result;
  }
  if (!groups.empty() || num_devices == 0) return groups;
  if (num_devices < 0 || num_devices > kMaxDevices) {
    return InvalidArgument("replica groups: ", num_devices, " devices");
  }
  std::vector<int64_t>& all = result.emplace_back();
  for (int64_t i = 0; i < num_devices; ++i) all.push_back(i);
  return result;
}

}  // namespace weft::hlo
