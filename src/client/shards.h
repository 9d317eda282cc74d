// How a whole array lies on several devices: which block each device holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
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

  static Shards Replicated(int64_t rank, int64_t devices);
  // Null: replicated.
  static Result<Shards> Of(const hlo::Sharding* sharding, const Shape& whole, int64_t devices);

  bool operator==(const Shards&) const = default;
  bool IsReplicated() const;  // every device holds all of it
  int64_t part(size_t device) const { return part_of.empty() ? 0 : part_of[device]; }
  Shape ShardShape(const Shape& whole) const;
  int64_t BlockSize(const Shape& whole, int64_t dim) const;
};

// OpSharding in protobuf wire format.
std::string SerializeSharding(const Shards& shards);

}  // namespace weft::client
