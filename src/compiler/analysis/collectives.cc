// Replica groups and forms of collectives.
#include "compiler/analysis/collectives.h"

#include <algorithm>

#include "hlo/evaluate/collectives.h"

namespace weft::compiler {

using hlo::GroupMode;
using hlo::Instruction;
using hlo::Op;

namespace {

using Groups = std::vector<std::vector<int64_t>>;

int64_t Replicas(const Instruction& i) {
  return std::max<int64_t>(i.parent()->module()->config().replica_count, 1);
}
int64_t Partitions(const Instruction& i) {
  return std::max<int64_t>(i.parent()->module()->config().num_partitions, 1);
}

// Groups of ids, with every id replaced by the devices it stands for: one group for each replica or
// partition that the ids do not say.
Groups InDevices(const Groups& groups, GroupMode mode, int64_t replicas, int64_t partitions) {
  if (mode == GroupMode::kFlattenedId) return groups;
  Groups all;
  for (const std::vector<int64_t>& group : groups) {
    if (mode == GroupMode::kCrossReplicaAndPartition) {
      all.emplace_back();
      for (int64_t id : group) {
        for (int64_t p = 0; p < partitions; ++p) all.back().push_back(id * partitions + p);
      }
      continue;
    }
    bool by_partition = mode == GroupMode::kCrossPartition;
    for (int64_t other = 0; other < (by_partition ? replicas : partitions); ++other) {
      all.emplace_back();
      for (int64_t id : group) {
        all.back().push_back(by_partition ? other * partitions + id : id * partitions + other);
      }
    }
  }
  return all;
}

int64_t IdsUnder(GroupMode mode, int64_t replicas, int64_t partitions) {
  if (mode == GroupMode::kCrossPartition) return partitions;
  return mode == GroupMode::kFlattenedId ? replicas * partitions : replicas;
}

Error OfOtherDevices(const Instruction& i, std::string_view what, int64_t ids) {
  Error error(Code::kInvalidArgument, StrCat(Mnemonic(i.op()), ": ", what, ", there are ", ids));
  return error.Hint(std::string(hlo::kMoreDevicesHint));
}

// Pairs of partitions, or of replicas.
Result<Groups> PairsInDevices(const Instruction& i, const hlo::IntPairs& pairs, bool by_partition) {
  GroupMode mode = by_partition ? GroupMode::kCrossPartition : GroupMode::kCrossReplica;
  int64_t ids = IdsUnder(mode, Replicas(i), Partitions(i));
  Groups named;
  for (auto [source, target] : pairs) {
    if (source < 0 || target < 0 || source >= ids || target >= ids) {
      std::string what = StrCat("pair {", source, ",", target, "}");
      return std::unexpected(OfOtherDevices(i, what, ids));
    }
    named.push_back({source, target});
  }
  return InDevices(named, mode, Replicas(i), Partitions(i));
}

}  // namespace

int64_t DeviceCount(const hlo::Module& module) {
  return std::max<int64_t>(module.config().replica_count, 1) *
         std::max<int64_t>(module.config().num_partitions, 1);
}

Result<Groups> DeviceGroups(const Instruction& i) {
  GroupMode mode = TRY(hlo::GroupModeOf(i.op(), i.attrs()));
  int64_t ids = IdsUnder(mode, Replicas(i), Partitions(i)), named = 0;
  Groups groups = TRY(i.attrs().Collective()->replica_groups.Expand(ids));
  if (groups.empty()) {
    groups.emplace_back();
    for (int64_t id = 0; id < ids; ++id) groups[0].push_back(id);
  }
  std::vector<bool> seen(static_cast<size_t>(ids));
  for (const std::vector<int64_t>& group : groups) {
    for (int64_t id : group) {
      if (id < 0 || id >= ids) {
        return std::unexpected(OfOtherDevices(i, StrCat("replica groups name ", id), ids));
      }
      if (seen[static_cast<size_t>(id)]) {
        return InvalidArgument(Mnemonic(i.op()), ": replica groups name ", id, " twice");
      }
      seen[static_cast<size_t>(id)] = true;
      ++named;
    }
  }
  if (named != ids && i.op() != Op::kCollectiveBroadcast) {
    return Unimplemented(Mnemonic(i.op()), ": replica groups name ", named, " of ", ids,
                         " devices");
  }
  return InDevices(groups, mode, Replicas(i), Partitions(i));
}

Result<Groups> DevicePairs(const Instruction& i) {
  Groups pairs;
  if (i.op() == Op::kCollectiveBroadcast) {
    for (const std::vector<int64_t>& group : TRY(DeviceGroups(i))) {
      for (int64_t device : group) pairs.push_back({group[0], device});
    }
    return pairs;
  }
  const auto& attrs = i.attrs<hlo::CollectivePermuteAttrs>();
  return PairsInDevices(i, attrs.source_target_pairs, attrs.channel_id.has_value());
}

Result<Groups> DevicePairs(const Instruction& op, std::string_view text) {
  std::optional<hlo::IntPairs> pairs = hlo::ParsePairs(text);
  if (!pairs) return InvalidArgument(Mnemonic(op.op()), ": pairs are ", text);
  return PairsInDevices(op, *pairs, Partitions(op) > 1 || Replicas(op) == 1);
}

std::optional<program::ReduceOp> SimpleReduction(const hlo::Computation& computation) {
  const Instruction& root = *computation.root();
  if (root.operand_count() != 2 || !root.operand(0)->IsParameter() ||
      !root.operand(1)->IsParameter() || root.operand(0) == root.operand(1)) {
    return std::nullopt;
  }
  switch (root.op()) {
    case Op::kAdd: return program::ReduceOp::kAdd;
    case Op::kMultiply: return program::ReduceOp::kMul;
    case Op::kMinimum: return program::ReduceOp::kMin;
    case Op::kMaximum: return program::ReduceOp::kMax;
    case Op::kAnd: return program::ReduceOp::kAnd;
    case Op::kOr: return program::ReduceOp::kOr;
    default: return std::nullopt;
  }
}

int64_t OuterElements(const Shape& shape, int64_t dim) {
  int64_t outer = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= shape.dim(d);
  return outer;
}

bool IsFlatCollective(const Instruction& i) {
  auto lead = [&](const hlo::Ints& dimensions) {
    return std::ranges::all_of(i.operands(), [&](const Instruction* operand) {
      return dimensions.size() == 1 && OuterElements(operand->shape(), dimensions[0]) <= 1;
    });
  };
  switch (i.op()) {
    case Op::kAllReduce:
      return SimpleReduction(*i.attrs<hlo::AllReduceAttrs>().to_apply).has_value();
    case Op::kAllGather: return lead(i.attrs<hlo::AllGatherAttrs>().dimensions);
    case Op::kAllToAll: return lead(i.attrs<hlo::AllToAllAttrs>().dimensions);
    case Op::kReduceScatter: {
      const auto& attrs = i.attrs<hlo::ReduceScatterAttrs>();
      return lead(attrs.dimensions) && SimpleReduction(*attrs.to_apply).has_value();
    }
    case Op::kCollectivePermute: return i.attrs<hlo::CollectivePermuteAttrs>().slice_sizes.empty();
    case Op::kCollectiveBroadcast:
      return !i.attrs<hlo::CollectiveBroadcastAttrs>().has_dynamic_root;
    default: return false;
  }
}

}  // namespace weft::compiler
