#include <algorithm>
#include <iterator>

#include "hlo/evaluate/collectives.h"
#include "hlo/module.h"
#include "hlo/ops/called.h"

namespace weft::hlo {
namespace {

// The ids of this device and of all devices under a mode.
struct GroupIds {
  int64_t mine = 0, count = 1;
};

GroupIds IdsUnder(const EvalContext& context, GroupMode mode) {
  switch (mode) {
    case GroupMode::kCrossPartition: return {context.partition(), context.num_partitions()};
    case GroupMode::kFlattenedId:
      return {context.device(), context.num_replicas() * context.num_partitions()};
    default: return {context.replica(), context.num_replicas()};
  }
}

// The devices that an id of a group stands for.
void AppendDevices(const EvalContext& context, GroupMode mode, int64_t id,
                   std::vector<int64_t>& devices) {
  int64_t partitions = context.num_partitions();
  switch (mode) {
    case GroupMode::kCrossPartition: devices.push_back(context.replica() * partitions + id); break;
    case GroupMode::kFlattenedId: devices.push_back(id); break;
    case GroupMode::kCrossReplicaAndPartition:
      for (int64_t p = 0; p < partitions; ++p) devices.push_back(id * partitions + p);
      break;
    default: devices.push_back(id * partitions + context.partition());
  }
}

}  // namespace

Result<GroupMode> GroupModeOf(Op op, const Attrs& attrs) {
  if (attrs.Is<AllReduceAttrs>() && attrs.As<AllReduceAttrs>().mode != GroupMode::kUnset) {
    return attrs.As<AllReduceAttrs>().mode;
  }
  if (attrs.Is<ReduceScatterAttrs>() && attrs.As<ReduceScatterAttrs>().mode != GroupMode::kUnset) {
    return attrs.As<ReduceScatterAttrs>().mode;
  }
  const CollectiveAttrs* collective = attrs.Collective();
  CHECK(collective != nullptr) << Mnemonic(op);
  if (!collective->channel_id) {
    if (collective->use_global_device_ids) {
      return InvalidArgument(Mnemonic(op), ": use_global_device_ids needs a channel_id");
    }
    return GroupMode::kCrossReplica;
  }
  bool has_global_ids = attrs.Is<AllReduceAttrs>() || attrs.Is<AllGatherAttrs>() ||
                        attrs.Is<ReduceScatterAttrs>() || attrs.Is<CollectiveReduceAttrs>();
  if (!has_global_ids) return GroupMode::kCrossPartition;
  return collective->use_global_device_ids ? GroupMode::kFlattenedId
                                           : GroupMode::kCrossReplicaAndPartition;
}

Result<std::optional<std::vector<int64_t>>> ParticipantsOf(const EvalContext& context,
                                                           const Instruction& instruction) {
  GroupMode mode = TRY(GroupModeOf(instruction.op(), instruction.attrs()));
  GroupIds ids = IdsUnder(context, mode);
  std::vector<std::vector<int64_t>> groups =
      TRY(instruction.attrs().Collective()->replica_groups.Expand(ids.count));
  if (groups.empty()) {
    groups.emplace_back();
    for (int64_t i = 0; i < ids.count; ++i) groups[0].push_back(i);
  }
  for (const std::vector<int64_t>& group : groups) {
    if (std::find(group.begin(), group.end(), ids.mine) == group.end()) continue;
    std::vector<int64_t> devices;
    for (int64_t id : group) {
      if (id < 0 || id >= ids.count) {
        auto error = InvalidArgument(Mnemonic(instruction.op()), ": replica group names ", id,
                                     ", there are ", ids.count);
        error.error().Hint(kMoreDevicesHint);
        return error;
      }
      AppendDevices(context, mode, id, devices);
    }
    std::vector<int64_t> sorted = devices;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      return InvalidArgument(Mnemonic(instruction.op()), ": a replica group repeats an id");
    }
    return devices;
  }
  return std::nullopt;
}

namespace {

bool HasSameSizes(const Literal& a, const Literal& b) {
  if (a.shape().IsTuple()) {
    for (size_t k = 0; k < a.tuple().size(); ++k) {
      if (!HasSameSizes(a.tuple()[k], b.tuple()[k])) return false;
    }
    return true;
  }
  if (!a.HasDynamicSizes() && !b.HasDynamicSizes()) return true;
  for (int64_t d = 0; d < a.shape().rank(); ++d) {
    if (a.dynamic_size(d) != b.dynamic_size(d)) return false;
  }
  return true;
}

}  // namespace

Status CheckSameShapes(const Instruction& instruction, std::span<const Literal> values) {
  for (const Literal& value : values) {
    if (!ShapesMatch(value.shape(), values[0].shape())) {
      return InvalidArgument(Mnemonic(instruction.op()), ": devices meet with ",
                             values[0].shape().ToStringWithoutLayout(), " and ",
                             value.shape().ToStringWithoutLayout());
    }
    if (!HasSameSizes(value, values[0])) {
      return InvalidArgument(Mnemonic(instruction.op()),
                             ": devices meet with arrays of different run-time sizes");
    }
  }
  return {};
}

std::optional<IntPairs> ParsePairs(std::string_view text) {
  IntPairs pairs;
  std::vector<int64_t> numbers;
  std::string digits;
  for (char c : text) {
    if ((c >= '0' && c <= '9') || c == '-') {
      digits.push_back(c);
      continue;
    }
    if (!digits.empty()) {
      std::optional<int64_t> number = ParseInt(digits);
      if (!number) return std::nullopt;
      numbers.push_back(*number);
      digits.clear();
    }
    if (c != '{' && c != '}' && c != ',' && c != ' ') return std::nullopt;
  }
  if (!digits.empty() || numbers.size() % 2 != 0) return std::nullopt;
  for (size_t i = 0; i < numbers.size(); i += 2) pairs.emplace_back(numbers[i], numbers[i + 1]);
  return pairs;
}

std::set<int64_t> MessageChannels(const Module& module) {
  std::set<int64_t> sent, received, both;
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      if (i->op() != Op::kSend && i->op() != Op::kRecv) continue;
      const auto& attrs = i->attrs<ChannelAttrs>();
      if (attrs.is_host_transfer) continue;
      (i->op() == Op::kSend ? sent : received).insert(attrs.channel_id.value_or(0));
    }
  }
  std::set_intersection(sent.begin(), sent.end(), received.begin(), received.end(),
                        std::inserter(both, both.end()));
  return both;
}

int64_t MailboxOf(const Instruction& end, const std::set<int64_t>& message_channels) {
  int64_t channel = end.attrs<ChannelAttrs>().channel_id.value_or(0);
  bool has_pairs = end.FrontendAttributeValue(kSendRecvPairs) != nullptr;
  return has_pairs && !message_channels.contains(channel) ? kNoChannel : channel;
}

}  // namespace weft::hlo
