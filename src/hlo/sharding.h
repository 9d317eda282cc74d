// Shardings, device meshes and replica groups as HLO text spells them: plain data. What they mean
// to a partitioner is the compiler's business; here they are read, printed, compared and, for
// groups, listed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/value_ptr.h"
#include "hlo/metadata.h"

namespace weft::hlo {

// `<=[2,4]T(1,0)`: devices 0..n-1 reshaped to `dims`, transposed by `perm` (empty: not transposed).
struct IotaDevices {
  std::vector<int64_t> dims, perm;
  bool operator==(const IotaDevices&) const = default;
};

// Device ids in row-major order of some tile or mesh: written out, or as an iota.
struct DeviceList {
  std::vector<int64_t> ids;
  std::optional<IotaDevices> iota;
  bool operator==(const DeviceList&) const = default;
};

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};

// mesh["x"=2,"y"=4], device_ids=(...)  or  maximal_mesh[device_id=3].
struct Mesh {
  std::vector<MeshAxis> axes;
  std::optional<DeviceList> devices;  // absent: 0..n-1
  std::optional<int64_t> maximal;     // one device only
  bool operator==(const Mesh&) const = default;
};

// "x" or a part of it, "x":(2)4.
struct AxisRef {
  int64_t axis = 0;                                // index into Mesh::axes
  std::optional<std::pair<int64_t, int64_t>> sub;  // pre-size, size
  bool operator==(const AxisRef&) const = default;
};

struct DimSharding {
  std::vector<AxisRef> axes;
  bool open = false;  // `?`: may be sharded further
  // `p1`: propagated in round 1; absent: in round 0.
  std::optional<int64_t> priority = std::nullopt;
  bool operator==(const DimSharding&) const = default;
};

enum class ReductionKind : uint8_t { kNone, kSum, kMax, kMin };

struct NamedSharding {
  enum class Form : uint8_t { kDims, kReplicated, kUnreduced, kManual };
  Mesh mesh;
  Form form = Form::kDims;  // the short forms `mesh[...], replicated` have no dims
  std::vector<DimSharding> dims;
  std::vector<AxisRef> replicated, unreduced, manual;
  ReductionKind unreduced_kind = ReductionKind::kNone;
  bool operator==(const NamedSharding&) const = default;
};

struct Sharding {
  enum class Kind : uint8_t {
    kReplicated,
    kMaximal,
    kManual,
    kUnknown,
    kUnreduced,
    kTiled,
    kTuple,
    kNamed
  };
  Kind kind = Kind::kReplicated;
  int64_t device = 0;              // kMaximal
  std::vector<int64_t> tile_dims;  // kTiled: [2,2] of devices=[2,2]...
  DeviceList devices;              // kTiled
  bool last_tile_dim_replicate = false;
  std::vector<Kind> last_tile_dims;  // last_tile_dims={manual, replicated}
  enum class Group : uint8_t { kNone, kAs, kLike };
  Group group = Group::kNone;  // shard_as / shard_like
  int64_t group_id = 0;
  std::vector<Sharding> elements;  // kTuple
  ValuePtr<NamedSharding> named;   // kNamed
  std::vector<Metadata> metadata;

  bool operator==(const Sharding&) const = default;
  void AppendTo(std::string& out) const;  // "{devices=[2,2]<=[4]}"
  std::string ToString() const;
};

// Which devices take part together in a collective.
struct ReplicaGroups {
  enum class Form : uint8_t { kList, kIota, kMesh };
  Form form = Form::kList;
  std::vector<std::vector<int64_t>> groups;  // kList; empty: all in one group
  int64_t num_groups = 0, group_size = 0;    // kIota: [groups,size]<=...
  IotaDevices iota;                          // kIota
  Mesh mesh;                                 // kMesh
  std::vector<AxisRef> axes;                 // kMesh

  bool operator==(const ReplicaGroups&) const = default;
  // The groups written out; for an empty list, one group of 0..num_devices-1 (or none when
  // num_devices is 0).
  Result<std::vector<std::vector<int64_t>>> Expand(int64_t num_devices) const;
  void AppendTo(std::string& out) const;
  std::string ToString() const;
};

}  // namespace weft::hlo
