#include <algorithm>

#include "compiler/passes/expand/expand_ops.h"
#include "hlo/clone.h"
#include "hlo/evaluate/collectives.h"
#include "hlo/ops/called.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::GroupMode;
using hlo::Instruction;
using hlo::Op;

// Whether every device is the only one of its group; not when the groups make no sense.
bool IsAlone(const Instruction& i) {
  const hlo::ModuleConfig& config = i.parent()->module()->config();
  Result<GroupMode> known = hlo::GroupModeOf(i.op(), i.attrs());
  if (!known) return false;
  GroupMode mode = *known;
  int64_t devices = config.replica_count;
  if (mode == GroupMode::kCrossPartition) devices = config.num_partitions;
  if (mode == GroupMode::kFlattenedId) devices = config.replica_count * config.num_partitions;
  if (mode == GroupMode::kCrossReplicaAndPartition && config.num_partitions != 1) return false;
  auto groups = i.attrs().Collective()->replica_groups.Expand(devices);
  if (!groups) return false;
  if (groups->empty()) return devices == 1;
  return static_cast<int64_t>(groups->size()) == devices &&
         std::ranges::all_of(*groups, [](const auto& group) { return group.size() == 1; });
}

// The operands, one or as a tuple, when they have the shape of the result.
Result<bool> ReplaceWithOperands(Instruction* i) {
  if (!i->shape().IsTuple()) {
    if (i->operand_count() != 1 || !hlo::ShapesMatch(i->operand(0)->shape(), i->shape())) {
      return false;
    }
    ReplaceWithValue(i, i->operand(0));
    return true;
  }
  if (i->operand_count() != i->shape().tuple_size()) return false;
  for (int64_t k = 0; k < i->operand_count(); ++k) {
    if (!hlo::ShapesMatch(i->operand(k)->shape(), i->shape().tuple_element(k))) return false;
  }
  Builder b(*i->parent(), i, i);
  hlo::ReplaceInstruction(i, TRY(b.Tuple(i->operands())));
  return true;
}

// One device sends to itself, or gets zeroes.
Result<bool> ExpandPermute(Instruction* i) {
  const auto& attrs = i->attrs<hlo::CollectivePermuteAttrs>();
  const hlo::ModuleConfig& config = i->parent()->module()->config();
  if (config.replica_count != 1 || config.num_partitions != 1) return false;
  if (!attrs.slice_sizes.empty() || i->operand_count() != 1) return false;
  if (attrs.source_target_pairs.empty()) {
    Builder b(*i->parent(), i, i);
    hlo::ReplaceInstruction(i, TRY(ZeroesOf(b, hlo::StripLayout(i->shape()))));
    return true;
  }
  if (attrs.source_target_pairs != hlo::IntPairs{{0, 0}}) return false;
  return ReplaceWithOperands(i);
}

Result<bool> ExpandDeviceId(Instruction* i, int64_t count) {
  if (count != 1) return false;
  Builder b(*i->parent(), i, i);
  hlo::ReplaceInstruction(i, b.ScalarConstant(DType::kU32, 0));
  return true;
}

}  // namespace

Result<bool> ExpandCollectives(Instruction* i) {
  const hlo::ModuleConfig& config = i->parent()->module()->config();
  switch (i->op()) {
    case Op::kPartitionId: return ExpandDeviceId(i, config.num_partitions);
    case Op::kReplicaId: return ExpandDeviceId(i, config.replica_count);
    case Op::kCollectivePermute: return ExpandPermute(i);
    case Op::kCollectiveReduce:
      if (i->attrs<hlo::CollectiveReduceAttrs>().has_dynamic_root) return false;
      break;
    case Op::kCollectiveBroadcast:
      if (i->attrs<hlo::CollectiveBroadcastAttrs>().has_dynamic_root) return false;
      break;
    case Op::kAllGather:
    case Op::kAllReduce:
    case Op::kAllToAll:
    case Op::kReduceScatter: break;
    default: return false;
  }
  if (!IsAlone(*i)) return false;
  return ReplaceWithOperands(i);
}

}  // namespace weft::compiler
