// How a whole array lies on several devices: which block each device holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/fwd.h"
#include "hlo/sharding.h"

namespace weft::client {

// Every dimension is cut into `counts[d]` blocks of equal size (the last ones may lack elements,
// which count as padding); device i holds the block at `blocks[i]`. Of a value that is not reduced
// yet, devices hold summands: `part_of[i]` of `parts`.
struct Shards {
  Dims counts;
  std::vector<Dims> blocks;  // [device][dimension]
  int64_t parts = 1;
  std::vector<int64_t> part_of;                             // [device]; empty: all 0
  hlo::ReductionKind reduction = hlo::ReductionKind::kSum;  // kMax, kMin: not summands but so
  // Where only some axes of the mesh cut: devices that differ in those alone, in the order of the
  // mesh. Those of other groups may hold other values. Empty: all devices are one.
  std::vector<std::vector<int64_t>> groups;

  static Shards Replicated(int64_t rank, int64_t devices);
  // Null: replicated. `axes`: of a named sharding, only these axes of the mesh cut; empty: all.
  static Result<Shards> Of(const hlo::Sharding* sharding, const Shape& whole, int64_t devices,
                           std::span<const std::string> axes = {});

  bool operator==(const Shards&) const = default;
  bool IsReplicated() const;  // every device holds all of it
  int64_t part(size_t device) const { return part_of.empty() ? 0 : part_of[device]; }
  Shape ShardShape(const Shape& whole) const;
  int64_t BlockSize(const Shape& whole, int64_t dim) const;
};

// The block of a device, zeroes where it lacks elements. Of a sum, the first part is all of it.
Result<Literal> TakeShard(const Literal& whole, const Shards& shards, int64_t device);
// The whole array from the shards of all devices.
Result<Literal> JoinShards(const Shape& whole, const Shards& shards,
                           std::span<const Literal* const> by_device);

// How the results of a computation would lie by themselves, one for each element of a tuple.
// `calls` gets how the array operands of custom calls do.
using ShardsOfCalls = std::unordered_map<const hlo::Instruction*, std::vector<Shards>>;
std::vector<Shards> PropagateShards(const hlo::Computation& entry,
                                    std::span<const Shards> parameters, int64_t devices,
                                    ShardsOfCalls* calls = nullptr);

// OpSharding in protobuf wire format.
std::string SerializeSharding(const Shards& shards);

}  // namespace weft::client
