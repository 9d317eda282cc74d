// How a whole array lies on several devices: which block each device holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/sharding.h"

namespace weft::pjrt {

// Every dimension is cut into `counts[d]` blocks of equal size (the last ones may lack elements,
// which count as padding); device i holds the block at `blocks[i]`.
struct Shards {
  Dims counts;
  std::vector<Dims> blocks;  // [device][dimension]

  static Shards Replicated(int64_t rank, int64_t devices);
  // Null: replicated. `axes`: of a named sharding, only these axes of the mesh cut; empty: all.
  static Result<Shards> Of(const hlo::Sharding* sharding, const Shape& whole, int64_t devices,
                           std::span<const std::string> axes = {});

  bool IsReplicated() const;
  Shape ShardShape(const Shape& whole) const;
  int64_t BlockSize(const Shape& whole, int64_t dim) const;
};

// The block of a device, zeroes where it lacks elements.
Result<Literal> TakeShard(const Literal& whole, const Shards& shards, int64_t device);
// The whole array from the shards of all devices.
Result<Literal> JoinShards(const Shape& whole, const Shards& shards,
                           std::span<const Literal* const> by_device);

// OpSharding in protobuf wire format.
std::string SerializeSharding(const Shards& shards);

}  // namespace weft::pjrt
