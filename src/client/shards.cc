#include "client/shards.h"

#include <algorithm>

#include "base/str.h"
#include "base/wire.h"
#include "client/strided.h"

namespace weft::client {
namespace {

using hlo::Sharding;

constexpr int64_t kMaxShardDevices = 1 << 16;

// Device ids in row-major order of the tiles.
Result<std::vector<int64_t>> ListDevices(const hlo::DeviceList& list, int64_t count) {
  if (!list.iota) return list.ids;
  const std::vector<int64_t>& dims = list.iota->dims;
  std::vector<int64_t> perm = list.iota->perm, ids;
  int64_t size = 1;
  for (int64_t dim : dims) {
    if (dim < 1 || size > kMaxShardDevices / dim) return InvalidArgument("sharding: devices");
    size *= dim;
  }
  if (perm.empty()) {
    for (size_t i = 0; i < dims.size(); ++i) perm.push_back(static_cast<int64_t>(i));
  }
  std::vector<bool> seen(dims.size());
  for (int64_t p : perm) {
    if (p < 0 || p >= static_cast<int64_t>(dims.size()) || seen[static_cast<size_t>(p)]) {
      return InvalidArgument("sharding: {", StrJoin(perm, ","), "} is no permutation");
    }
    seen[static_cast<size_t>(p)] = true;
  }
  if (size != count || perm.size() != dims.size()) {
    return InvalidArgument("sharding: ", size, " devices for ", count, " tiles");
  }
  Dims strides = RowMajorStrides(dims, 1);
  for (int64_t i = 0; i < size; ++i) {
    int64_t rest = i, id = 0;
    for (size_t d = perm.size(); d-- > 0;) {
      size_t from = static_cast<size_t>(perm[d]);
      id += rest % dims[from] * strides[from];
      rest /= dims[from];
    }
    ids.push_back(id);
  }
  return ids;
}

Result<Shards> OfTiles(const Sharding& sharding, const Shape& whole, int64_t devices) {
  int64_t rank = whole.rank(), tiles = 1;
  if (static_cast<int64_t>(sharding.tile_dims.size()) < rank) {
    return InvalidArgument("sharding ", sharding, " has too few dimensions for ", whole);
  }
  for (int64_t dim : sharding.tile_dims) {
    if (dim < 1 || tiles > kMaxShardDevices / dim) {
      return InvalidArgument("sharding ", sharding, " has too many tiles");
    }
    tiles *= dim;
  }
  std::vector<int64_t> ids = TRY(ListDevices(sharding.devices, tiles));
  if (static_cast<int64_t>(ids.size()) != tiles || tiles != devices) {
    return InvalidArgument("sharding ", sharding, " is not one of ", devices, " devices");
  }
  Shards shards = Shards::Replicated(rank, devices);
  for (int64_t d = 0; d < rank; ++d) shards.counts[d] = sharding.tile_dims[d];
  // The kinds of the last tile dimensions, those behind the array's own.
  size_t first_kind = sharding.tile_dims.size() - sharding.last_tile_dims.size();
  if (sharding.last_tile_dims.size() > sharding.tile_dims.size()) {
    return InvalidArgument("sharding ", sharding, " has more kinds than tile dimensions");
  }
  auto is_unreduced = [&](size_t d) {
    return d >= first_kind && sharding.last_tile_dims[d - first_kind] == Sharding::Kind::kUnreduced;
  };
  for (size_t d = 0; d < sharding.tile_dims.size(); ++d) {
    if (is_unreduced(d)) shards.parts *= sharding.tile_dims[d];
  }
  if (shards.parts > 1) shards.part_of.assign(static_cast<size_t>(devices), 0);
  for (int64_t t = 0; t < tiles; ++t) {
    int64_t device = ids[static_cast<size_t>(t)], rest = t;
    if (device < 0 || device >= devices) {
      return InvalidArgument("sharding ", sharding, " names device ", device, " of ", devices);
    }
    int64_t part_stride = 1;
    for (size_t d = sharding.tile_dims.size(); d-- > 0;) {
      int64_t at = rest % sharding.tile_dims[d];
      rest /= sharding.tile_dims[d];
      if (static_cast<int64_t>(d) < rank) shards.blocks[static_cast<size_t>(device)][d] = at;
      if (shards.parts > 1 && is_unreduced(d)) {
        shards.part_of[static_cast<size_t>(device)] += at * part_stride;
        part_stride *= sharding.tile_dims[d];
      }
    }
  }
  return shards;
}

// The part of a device's coordinate on an axis that "x":(pre)size names.
Status ApplyAxis(const hlo::Mesh& mesh, const hlo::AxisRef& ref, int64_t coordinate, int64_t& count,
                 int64_t& at) {
  int64_t size = mesh.axes[static_cast<size_t>(ref.axis)].size;
  if (ref.sub) {
    auto [before, part] = *ref.sub;
    if (before < 1 || part < 1 || before > size || part > size || size % (before * part) != 0) {
      return InvalidArgument("sharding: part (", before, ")", part, " of an axis of ", size);
    }
    coordinate = coordinate / (size / before / part) % part;
    size = part;
  }
  count *= size;
  at = at * size + coordinate;
  return {};
}

Shards Unreduced(const Shape& whole, int64_t devices) {
  Shards shards = Shards::Replicated(whole.rank(), devices);
  shards.parts = devices;
  for (int64_t i = 0; i < devices; ++i) shards.part_of.push_back(i);
  return shards;
}

Result<Shards> OfMesh(const hlo::NamedSharding& named, const Shape& whole, int64_t devices) {
  Shards shards = Shards::Replicated(whole.rank(), devices);
  const hlo::Mesh& mesh = named.mesh;
  if (named.form == hlo::NamedSharding::Form::kUnreduced) return Unreduced(whole, devices);
  if (named.form != hlo::NamedSharding::Form::kDims || mesh.maximal || mesh.axes.empty()) {
    return shards;
  }
  int64_t size = 1;
  std::vector<int64_t> sizes;
  for (const hlo::MeshAxis& axis : mesh.axes) {
    if (axis.size < 1 || size > kMaxShardDevices / axis.size) {
      return InvalidArgument("sharding: mesh axis ", axis.name, " of size ", axis.size);
    }
    size *= axis.size;
    sizes.push_back(axis.size);
  }
  std::vector<int64_t> ids;
  if (mesh.devices) ids = TRY(ListDevices(*mesh.devices, size));
  if (size != devices || (mesh.devices && static_cast<int64_t>(ids.size()) != size) ||
      static_cast<int64_t>(named.dims.size()) > whole.rank()) {
    return InvalidArgument("sharding: a mesh of ", size, " devices for ", devices, ", ",
                           named.dims.size(), " dimensions for ", whole);
  }
  Dims strides = RowMajorStrides(sizes, 1);
  if (named.unreduced_kind != hlo::ReductionKind::kNone) shards.reduction = named.unreduced_kind;
  if (!named.unreduced.empty()) shards.part_of.assign(static_cast<size_t>(devices), 0);
  // Where the axes put the device that stands at i of the mesh: `at` of `count`.
  auto apply = [&](std::span<const hlo::AxisRef> refs, int64_t i, int64_t& count,
                   int64_t& at) -> Status {
    for (const hlo::AxisRef& ref : refs) {
      if (ref.axis < 0 || ref.axis >= static_cast<int64_t>(sizes.size())) {
        return InvalidArgument("sharding: axis ", ref.axis, " of a mesh of ", sizes.size());
      }
      size_t axis = static_cast<size_t>(ref.axis);
      TRY(ApplyAxis(mesh, ref, i / strides[axis] % sizes[axis], count, at));
    }
    return {};
  };
  for (int64_t i = 0; i < size; ++i) {
    int64_t device = mesh.devices ? ids[static_cast<size_t>(i)] : i;
    if (device < 0 || device >= devices) return InvalidArgument("sharding: no device ", device);
    for (size_t d = 0; d < named.dims.size(); ++d) {
      int64_t count = 1, at = 0;
      TRY(apply(named.dims[d].axes, i, count, at));
      shards.counts[d] = count;
      shards.blocks[static_cast<size_t>(device)][d] = at;
    }
    if (named.unreduced.empty()) continue;
    shards.parts = 1;
    TRY(apply(named.unreduced, i, shards.parts, shards.part_of[static_cast<size_t>(device)]));
  }
  return shards;
}

}  // namespace

Shards Shards::Replicated(int64_t rank, int64_t devices) {
  Shards shards;
  shards.counts = Dims(static_cast<size_t>(rank), 1);
  shards.blocks.assign(static_cast<size_t>(devices), Dims(static_cast<size_t>(rank), 0));
  return shards;
}

Result<Shards> Shards::Of(const Sharding* sharding, const Shape& whole, int64_t devices) {
  if (sharding == nullptr || !whole.IsArray()) return Replicated(whole.rank(), devices);
  switch (sharding->kind) {
    case Sharding::Kind::kTiled: return OfTiles(*sharding, whole, devices);
    case Sharding::Kind::kNamed: return OfMesh(*sharding->named, whole, devices);
    case Sharding::Kind::kTuple:
      if (sharding->elements.size() == 1) return Of(&sharding->elements[0], whole, devices);
      return InvalidArgument("sharding: ", *sharding, " of an array");
    case Sharding::Kind::kUnreduced: return Unreduced(whole, devices);
    default: return Replicated(whole.rank(), devices);
  }
}

bool Shards::IsReplicated() const {
  return parts == 1 && std::all_of(counts.begin(), counts.end(), [](int64_t n) { return n == 1; });
}

int64_t Shards::BlockSize(const Shape& whole, int64_t dim) const {
  return (whole.dim(dim) + counts[dim] - 1) / counts[dim];
}

Shape Shards::ShardShape(const Shape& whole) const {
  Shape shape = whole;
  for (int64_t d = 0; d < whole.rank(); ++d) shape.set_dim(d, BlockSize(whole, d));
  return shape;
}

// Tiles, then devices that hold copies, then parts.
namespace {

// XLA's messages have no field for how parts are put together where it is not by adding them up:
// it is among the metadata.
void WriteReduction(WireWriter& out, const Shards& shards) {
  if (shards.parts == 1 || shards.reduction == hlo::ReductionKind::kSum) return;
  WireWriter metadata;
  metadata.Bytes(1, "sdy::reduction_op");
  metadata.Bytes(2, shards.reduction == hlo::ReductionKind::kMax ? "MAX" : "MIN");
  out.Message(7, metadata);
}

}  // namespace

std::string SerializeSharding(const Shards& shards) {
  constexpr int64_t kReplicated = 0, kUnreduced = 6;  // of OpSharding::Type
  WireWriter out;
  if (shards.IsReplicated()) {
    out.IntAlways(1, kReplicated);  // written out: nothing at all would say that there is none
    return out.Take();
  }
  if (shards.parts == static_cast<int64_t>(shards.blocks.size())) {
    out.Int(1, kUnreduced);
    WriteReduction(out, shards);
    return out.Take();
  }
  out.Int(1, 3);  // OTHER: tiled
  WriteReduction(out, shards);
  int64_t tiles = shards.parts, devices = static_cast<int64_t>(shards.blocks.size());
  std::vector<int64_t> dims(shards.counts.begin(), shards.counts.end());
  for (int64_t n : dims) tiles *= n;
  std::vector<std::vector<int64_t>> by_tile(static_cast<size_t>(tiles));
  for (int64_t i = 0; i < devices; ++i) {
    int64_t tile = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      tile = tile * dims[d] + shards.blocks[static_cast<size_t>(i)][d];
    }
    tile = tile * shards.parts + shards.part(static_cast<size_t>(i));
    by_tile[static_cast<size_t>(tile)].push_back(i);
  }
  const int64_t copies = std::max<int64_t>(devices / tiles, 1);
  std::vector<int64_t> ids, kinds;
  for (size_t first = 0; first < by_tile.size(); first += static_cast<size_t>(shards.parts)) {
    for (size_t copy = 0; copy < static_cast<size_t>(copies); ++copy) {
      for (size_t part = 0; part < static_cast<size_t>(shards.parts); ++part) {
        const std::vector<int64_t>& same = by_tile[first + part];
        if (copy < same.size()) ids.push_back(same[copy]);
      }
    }
  }
  if (copies > 1) dims.push_back(copies), kinds.push_back(kReplicated);
  if (shards.parts > 1) dims.push_back(shards.parts), kinds.push_back(kUnreduced);
  out.Ints(3, dims);
  out.Ints(4, ids);
  if (shards.parts == 1) {
    out.Int(6, copies > 1);
  } else {
    out.Ints(8, kinds);
  }
  return out.Take();
}

}  // namespace weft::client
