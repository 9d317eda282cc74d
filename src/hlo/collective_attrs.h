// Attribute structs of collectives and transfers. Included by hlo/attrs.h, which has the others.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hlo/attr_types.h"
#include "hlo/field.h"
#include "hlo/fwd.h"

namespace weft::hlo {

using Ints = std::vector<int64_t>;

struct CollectiveAttrs {  // the part that all collectives share
  std::optional<int64_t> channel_id;
  ReplicaGroups replica_groups;
  bool constrain_layout = false, use_global_device_ids = false;
};
struct AllGatherAttrs : CollectiveAttrs {
  Ints dimensions;
  void Fields(FieldList& f) {
    f("channel_id", channel_id), f("replica_groups", replica_groups),
        f.Required("dimensions", dimensions);
    f("constrain_layout", constrain_layout), f("use_global_device_ids", use_global_device_ids);
  }
};
struct AllReduceAttrs : CollectiveAttrs {
  Computation* to_apply = nullptr;
  GroupMode mode = GroupMode::kUnset;
  void Fields(FieldList& f) {
    f("channel_id", channel_id), f("replica_groups", replica_groups),
        f("constrain_layout", constrain_layout);
    f("use_global_device_ids", use_global_device_ids), f("mode", mode),
        f.Required("to_apply", to_apply);
  }
};
struct ReduceScatterAttrs : CollectiveAttrs {
  Ints dimensions;
  Computation* to_apply = nullptr;
  GroupMode mode = GroupMode::kUnset;
  void Fields(FieldList& f) {
    f("channel_id", channel_id), f("replica_groups", replica_groups),
        f("constrain_layout", constrain_layout);
    f("use_global_device_ids", use_global_device_ids), f.Required("dimensions", dimensions),
        f("mode", mode);
    f.Required("to_apply", to_apply);
  }
};
struct CollectiveReduceAttrs : CollectiveAttrs {
  Computation* to_apply = nullptr;
  bool has_dynamic_root = false;
  void Fields(FieldList& f) {
    f("channel_id", channel_id), f("replica_groups", replica_groups),
        f("constrain_layout", constrain_layout);
    f("use_global_device_ids", use_global_device_ids), f("has_dynamic_root", has_dynamic_root);
    f.Required("to_apply", to_apply);
  }
};
struct AllToAllAttrs : CollectiveAttrs {
  Ints dimensions;  // empty: the tuple form, one operand per participant
  void Fields(FieldList& f) {
    f("channel_id", channel_id), f("replica_groups", replica_groups), f("dimensions", dimensions);
    f("constrain_layout", constrain_layout);
  }
};
struct RaggedAllToAllAttrs : CollectiveAttrs {
  Ints dimensions;
  void Fields(FieldList& f) {
    f("channel_id", channel_id), f("replica_groups", replica_groups), f("dimensions", dimensions);
  }
};
struct CollectiveBroadcastAttrs : CollectiveAttrs {
  bool has_dynamic_root = false;
  void Fields(FieldList& f) {
    f("channel_id", channel_id), f("replica_groups", replica_groups),
        f("has_dynamic_root", has_dynamic_root);
  }
};
struct CollectivePermuteAttrs : CollectiveAttrs {
  IntPairs source_target_pairs;
  std::vector<Ints> slice_sizes;  // in-place form (4 operands)
  void Fields(FieldList& f) {
    f("channel_id", channel_id), f.Required("source_target_pairs", source_target_pairs);
    f("slice_sizes", slice_sizes);
  }
};
struct ChannelAttrs {  // send, recv and their done
  std::optional<int64_t> channel_id;
  bool is_host_transfer = false;
  void Fields(FieldList& f) {
    f("channel_id", channel_id), f("is_host_transfer", is_host_transfer);
  }
};

}  // namespace weft::hlo
