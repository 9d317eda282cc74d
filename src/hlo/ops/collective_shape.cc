#include "hlo/ops/collective_shape.h"

#include <algorithm>
#include <map>

#include "hlo/attrs.h"
#include "hlo/evaluate/collectives.h"
#include "hlo/module.h"
#include "hlo/ops/called.h"

namespace weft::hlo {
namespace {

Status CheckArrayOperands(const InferArgs& args) {
  if (args.size() == 0) return InvalidArgument(Mnemonic(args.op), ": has no operands");
  for (int64_t i = 0; i < args.size(); ++i) {
    if (!args.operand(i).IsArray()) {
      return InvalidArgument(Mnemonic(args.op), ": operand ", i, " must be an array, got ",
                             args.operand(i).ToStringWithoutLayout());
    }
  }
  return {};
}

int64_t CeilDivide(int64_t a, int64_t b) {
  return b <= 0 ? 1 : a / b + (a % b != 0 ? 1 : 0);
}

// The number of participants as the shapes tell, else as the replica groups do.
Result<int64_t> ShardCount(const InferArgs& args, const Shape* declared, int64_t dim) {
  if (declared != nullptr) {
    const Shape* first = declared;
    if (args.size() > 1) {
      if (!declared->IsTuple() || declared->tuple_size() != args.size()) {
        return InvalidArgument(Mnemonic(args.op), ": ", args.size(), " operands, the result is ",
                               declared->ToStringWithoutLayout());
      }
      first = &declared->tuple_element(0);
    }
    if (!first->IsArray() || dim >= first->rank()) {
      return InvalidArgument(Mnemonic(args.op), ": dimension ", dim, " is not one of the result ",
                             declared->ToStringWithoutLayout());
    }
    int64_t from = args.operand(0).dim(dim), to = first->dim(dim);
    if (from < 0 || to < 0) return 1;
    return std::max<int64_t>(CeilDivide(to, from), 1);
  }
  std::vector<std::vector<int64_t>> groups = TRY(args.attrs.Collective()->replica_groups.Expand(0));
  if (groups.empty()) {
    return InvalidArgument(Mnemonic(args.op), ": the result shape must be written");
  }
  return static_cast<int64_t>(groups[0].size());
}

Shape SoleOrTuple(std::vector<Shape> shapes) {
  if (shapes.size() == 1) return std::move(shapes[0]);
  return Shape::Tuple(std::move(shapes));
}

// How many ids the groups name; checks that they are 0..n-1, each once.
Result<int64_t> CountIds(const Instruction& instruction,
                         const std::vector<std::vector<int64_t>>& groups) {
  std::string_view op = Mnemonic(instruction.op());
  std::vector<int64_t> ids;
  for (const std::vector<int64_t>& group : groups) {
    if (group.empty()) return InvalidArgument(op, ": a replica group is empty");
    ids.insert(ids.end(), group.begin(), group.end());
  }
  std::sort(ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == static_cast<int64_t>(i)) continue;
    if (i > 0 && ids[i] == ids[i - 1]) {
      return InvalidArgument(op, ": replica ", ids[i], " is repeated in the replica groups");
    }
    return InvalidArgument(op, ": replica ", ids[i], " in the replica groups is out of range [0, ",
                           ids.size(), ")");
  }
  return static_cast<int64_t>(ids.size());
}

Status CheckIdCount(const Instruction& instruction, GroupMode mode, int64_t n) {
  const ModuleConfig& config = instruction.parent()->module()->config();
  int64_t expected = config.replica_count;
  if (mode == GroupMode::kCrossPartition) expected = config.num_partitions;
  if (mode == GroupMode::kFlattenedId &&
      __builtin_mul_overflow(config.replica_count, config.num_partitions, &expected)) {
    return InvalidArgument(Mnemonic(instruction.op()), ": too many devices");
  }
  if (expected == 1 || n == expected) return {};
  return InvalidArgument(Mnemonic(instruction.op()), ": the replica groups name ", n,
                         " ids, in mode ", Name(mode), " there are ", expected);
}

// Participants per group as far as the module says; 1 when it does not.
int64_t GroupSize(const Instruction& instruction, GroupMode mode,
                  const std::vector<std::vector<int64_t>>& groups) {
  const ModuleConfig& config = instruction.parent()->module()->config();
  int64_t all = mode == GroupMode::kCrossPartition ? config.num_partitions : config.replica_count;
  int64_t size = groups.empty() ? all : static_cast<int64_t>(groups[0].size());
  if (mode == GroupMode::kCrossReplicaAndPartition &&
      __builtin_mul_overflow(size, config.num_partitions, &size)) {
    return 1;
  }
  return size;
}

Status CheckShardCount(const Instruction& instruction, int64_t size) {
  if (size == 1) return {};
  std::string_view op = Mnemonic(instruction.op());
  const Shape* large = nullptr;
  const Shape* small = nullptr;
  int64_t dim = 0;
  auto first = [](const Shape& s) { return s.IsTuple() ? &s.tuple_element(0) : &s; };
  switch (instruction.op()) {
    case Op::kAllGather:
    case Op::kAllGatherStart: {
      const Shape& shape = instruction.op() == Op::kAllGather
                               ? instruction.shape()
                               : instruction.shape().tuple_element(1);
      large = first(shape), small = &instruction.operand(0)->shape();
      dim = instruction.attrs<AllGatherAttrs>().dimensions[0];
      break;
    }
    case Op::kReduceScatter:
      large = &instruction.operand(0)->shape(), small = first(instruction.shape());
      dim = instruction.attrs<ReduceScatterAttrs>().dimensions[0];
      break;
    case Op::kAllToAll: {
      const Ints& dims = instruction.attrs<AllToAllAttrs>().dimensions;
      const Shape& operand = instruction.operand(0)->shape();
      if (dims.empty()) {
        if (instruction.operand_count() == size) return {};
        return InvalidArgument(op, ": ", instruction.operand_count(), " operands for groups of ",
                               size);
      }
      if (operand.is_unbounded(dims[0]) || operand.dim(dims[0]) % size == 0) return {};
      return InvalidArgument(op, ": dimension ", dims[0], " of ", operand.ToStringWithoutLayout(),
                             " does not divide by the group size ", size);
    }
    default: return {};
  }
  if (large->is_unbounded(dim) || small->is_unbounded(dim) || small->dim(dim) == 0) return {};
  int64_t shards = CeilDivide(large->dim(dim), small->dim(dim));
  if (shards == size) return {};
  return InvalidArgument(op, ": the shapes ", large->ToStringWithoutLayout(), " and ",
                         small->ToStringWithoutLayout(), " are of ", shards,
                         " shards, the replica groups of ", size);
}

Status CheckStarts(const Shape& buffer, const Shape& starts) {
  bool fits = starts.IsTuple() && buffer.IsArray() && starts.tuple_size() > 0;
  if (fits && starts.tuple_element(0).IsTuple()) {
    for (const Shape& s : starts.elements_of_tuple()) {
      fits = fits && s.IsTuple() && s.tuple_size() == buffer.rank();
    }
  } else if (fits) {
    fits = starts.tuple_size() == buffer.rank();
    for (const Shape& s : starts.elements_of_tuple()) fits = fits && s.IsArray();
  } else {
    fits = starts.IsTuple() && buffer.IsArray() && buffer.rank() == 0;
  }
  if (fits) return {};
  return InvalidArgument("collective-permute: start indices ", starts.ToStringWithoutLayout(),
                         " do not fit the buffer ", buffer.ToStringWithoutLayout());
}

// How often a device may be a source or a target.
Result<int64_t> AllowedPairs(const Instruction& instruction) {
  const Shape& input = instruction.operand(0)->shape();
  const Shape& output = instruction.operand(1)->shape();
  const Shape& in_starts = instruction.operand(2)->shape();
  const Shape& out_starts = instruction.operand(3)->shape();
  if (!input.IsTuple() && !output.IsTuple()) {
    TRY(CheckStarts(input, in_starts));
    TRY(CheckStarts(output, out_starts));
    return std::max<int64_t>(in_starts.tuple_size(), 1);
  }
  int64_t n = input.tuple_size();
  if (!input.IsTuple() || !output.IsTuple() || output.tuple_size() != n || !in_starts.IsTuple() ||
      !out_starts.IsTuple() || in_starts.tuple_size() != n || out_starts.tuple_size() != n ||
      n == 0) {
    return InvalidArgument("collective-permute: buffers and start indices differ in number: ",
                           input.ToStringWithoutLayout(), ", ", output.ToStringWithoutLayout(),
                           ", ", in_starts.ToStringWithoutLayout(), ", ",
                           out_starts.ToStringWithoutLayout());
  }
  for (int64_t b = 0; b < n; ++b) {
    TRY(CheckStarts(input.tuple_element(b), in_starts.tuple_element(b)));
    TRY(CheckStarts(output.tuple_element(b), out_starts.tuple_element(b)));
  }
  return std::max<int64_t>(in_starts.tuple_element(0).tuple_size(), 1);
}

}  // namespace

Result<Shape> InferGathered(const InferArgs& args, const Shape* declared) {
  TRY(CheckArrayOperands(args));
  const Ints& dimensions = args.attrs.As<AllGatherAttrs>().dimensions;
  if (dimensions.size() != 1) {
    return InvalidArgument(Mnemonic(args.op), ": takes one dimension, got ", dimensions.size());
  }
  int64_t dim = dimensions[0];
  for (int64_t i = 0; i < args.size(); ++i) {
    if (dim < 0 || dim >= args.operand(i).rank()) {
      return InvalidArgument(Mnemonic(args.op), ": dimension ", dim, " is not one of operand ", i,
                             ", ", args.operand(i).ToStringWithoutLayout());
    }
  }
  int64_t shards = TRY(ShardCount(args, declared, dim));
  std::vector<Shape> results;
  for (int64_t i = 0; i < args.size(); ++i) {
    Shape shape = StripLayout(args.operand(i));
    int64_t size = shape.dim(dim);
    if (!shape.is_unbounded(dim) && __builtin_mul_overflow(size, shards, &size)) {
      return InvalidArgument(Mnemonic(args.op), ": dimension ", dim, " becomes too large");
    }
    shape.set_dim(dim, size);
    results.push_back(std::move(shape));
  }
  return SoleOrTuple(std::move(results));
}

Result<Shape> InferReduced(const InferArgs& args) {
  TRY(CheckArrayOperands(args));
  std::vector<Shape> results;
  for (const Shape* operand : args.operands) results.push_back(StripLayout(*operand));
  return SoleOrTuple(std::move(results));
}

Result<Shape> InferPermuted(const InferArgs& args) {
  if (args.attrs.As<CollectivePermuteAttrs>().slice_sizes.empty()) return InferReduced(args);
  if (args.size() != 4) {
    return InvalidArgument(Mnemonic(args.op), ": the in-place form takes 4 operands, got ",
                           args.size());
  }
  return StripLayout(args.operand(1));
}

Status CheckGroups(const Instruction& instruction) {
  GroupMode mode = TRY(GroupModeOf(instruction.op(), instruction.attrs()));
  const ReplicaGroups& written = instruction.attrs().Collective()->replica_groups;
  std::vector<std::vector<int64_t>> groups = TRY(written.Expand(0));
  if (!groups.empty()) {
    int64_t n = TRY(CountIds(instruction, groups));
    TRY(CheckIdCount(instruction, mode, n));
    bool uniform = instruction.op() != Op::kAllReduce && instruction.op() != Op::kAllReduceStart &&
                   instruction.op() != Op::kCollectiveReduce;
    for (const std::vector<int64_t>& group : groups) {
      if (uniform && group.size() != groups[0].size()) {
        return InvalidArgument(Mnemonic(instruction.op()), ": replica groups of sizes ",
                               groups[0].size(), " and ", group.size());
      }
    }
  } else if (mode == GroupMode::kFlattenedId) {
    return InvalidArgument(Mnemonic(instruction.op()),
                           ": use_global_device_ids needs replica groups");
  }
  return CheckShardCount(instruction, GroupSize(instruction, mode, groups));
}

Status CheckPermute(const Instruction& instruction) {
  const auto& attrs = instruction.attrs<CollectivePermuteAttrs>();
  int64_t allowed = attrs.slice_sizes.empty() ? 1 : TRY(AllowedPairs(instruction));
  const ModuleConfig& config = instruction.parent()->module()->config();
  int64_t limit = attrs.channel_id ? config.num_partitions : config.replica_count;
  std::map<int64_t, int64_t> sources, targets;
  for (auto [source, target] : attrs.source_target_pairs) {
    if (source < 0 || target < 0 || (limit != 1 && (source >= limit || target >= limit))) {
      return InvalidArgument(Mnemonic(instruction.op()), ": pair {", source, ",", target,
                             "} is out of range, there are ", limit);
    }
    if (++sources[source] > allowed) {
      return InvalidArgument(Mnemonic(instruction.op()), ": source ", source, " occurs more than ",
                             allowed, " times");
    }
    if (++targets[target] > allowed) {
      return InvalidArgument(Mnemonic(instruction.op()), ": target ", target, " occurs more than ",
                             allowed, " times");
    }
  }
  return {};
}

}  // namespace weft::hlo
