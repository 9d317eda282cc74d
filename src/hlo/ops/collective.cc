// Collectives: ops in which devices take part together.
#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/collectives.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/called.h"
#include "hlo/ops/collective_shape.h"
#include "hlo/ops/dim_rules.h"

namespace weft::hlo {
namespace {

Result<Shape> InferAllGather(const InferArgs& args) {
  return InferGathered(args, args.declared);
}

Result<Shape> InferReduceScatter(const InferArgs& args) {
  const Ints& dimensions = args.attrs.As<ReduceScatterAttrs>().dimensions;
  if (dimensions.size() != 1) {
    return InvalidArgument("reduce-scatter: takes one dimension, got ", dimensions.size());
  }
  Shape result = TRY(InferReduced(args));
  int64_t dim = dimensions[0], n = args.size();
  for (int64_t i = 0; i < n; ++i) {
    if (dim < 0 || dim >= args.operand(i).rank()) {
      return InvalidArgument("reduce-scatter: dimension ", dim, " is not one of operand ", i, ", ",
                             args.operand(i).ToStringWithoutLayout());
    }
  }
  int64_t shards = 0;
  if (args.declared != nullptr) {
    if (n > 1 && (!args.declared->IsTuple() || args.declared->tuple_size() != n)) {
      return InvalidArgument("reduce-scatter: ", n, " operands, the result is ",
                             args.declared->ToStringWithoutLayout());
    }
    const Shape& first = n > 1 ? args.declared->tuple_element(0) : *args.declared;
    if (!first.IsArray() || dim >= first.rank()) {
      return InvalidArgument("reduce-scatter: the result ", first.ToStringWithoutLayout(),
                             " has no dimension ", dim);
    }
    int64_t from = args.operand(0).dim(dim), to = first.dim(dim);
    shards = from < 0 || to <= 0 ? 1 : from / to + (from % to != 0 ? 1 : 0);
  } else {
    std::vector<std::vector<int64_t>> groups =
        TRY(args.attrs.Collective()->replica_groups.Expand(0));
    if (groups.empty()) return InvalidArgument("reduce-scatter: the result shape must be written");
    shards = static_cast<int64_t>(groups[0].size());
  }
  for (int64_t i = 0; i < n; ++i) {
    Shape& shape = n > 1 ? result.mutable_tuple()[static_cast<size_t>(i)] : result;
    if (shape.is_unbounded(dim)) continue;
    if (shards <= 0 || shape.dim(dim) % shards != 0) {
      return InvalidArgument("reduce-scatter: dimension ", dim, " of ",
                             shape.ToStringWithoutLayout(), " does not divide by ", shards);
    }
    shape.set_dim(dim, shape.dim(dim) / shards);
  }
  return result;
}

// With a dynamic root the last operand names it for each of the others.
Result<Shape> InferRooted(const InferArgs& args, bool dynamic_root) {
  if (!dynamic_root) return InferReduced(args);
  int64_t n = args.size() - 1;
  if (n < 1) return InvalidArgument(Mnemonic(args.op), ": has no operand besides the root");
  const Shape& root = args.operand(n);
  if (root.dtype() != DType::kS32 || root.rank() != 1 || root.dim(0) != n) {
    return InvalidArgument(Mnemonic(args.op), ": the root must be s32[", n, "], got ",
                           root.ToStringWithoutLayout());
  }
  return InferReduced(
      InferArgs{args.op, args.operands.first(static_cast<size_t>(n)), args.attrs, args.declared});
}

Result<Shape> InferCollectiveReduce(const InferArgs& args) {
  return InferRooted(args, args.attrs.As<CollectiveReduceAttrs>().has_dynamic_root);
}

Result<Shape> InferCollectiveBroadcast(const InferArgs& args) {
  return InferRooted(args, args.attrs.As<CollectiveBroadcastAttrs>().has_dynamic_root);
}

Result<Shape> InferAllToAll(const InferArgs& args) {
  const Ints& dimensions = args.attrs.As<AllToAllAttrs>().dimensions;
  Shape result = TRY(InferReduced(args));
  if (dimensions.size() > 1) {
    return InvalidArgument("all-to-all: takes one dimension, got ", dimensions.size());
  }
  if (!dimensions.empty()) {
    if (args.size() != 1) {
      return InvalidArgument("all-to-all: with a dimension it takes one operand, got ",
                             args.size());
    }
    if (dimensions[0] < 0 || dimensions[0] >= args.operand(0).rank()) {
      return InvalidArgument("all-to-all: dimension ", dimensions[0], " is not one of ",
                             args.operand(0).ToStringWithoutLayout());
    }
    return result;
  }
  for (int64_t i = 1; i < args.size(); ++i) {
    if (!ShapesMatch(args.operand(0), args.operand(i))) {
      return InvalidArgument(
          "all-to-all: operands of different shapes: ", args.operand(0).ToStringWithoutLayout(),
          " and ", args.operand(i).ToStringWithoutLayout());
    }
  }
  return result.IsTuple() ? result : Shape::Tuple({result});
}

Result<Shape> InferRaggedAllToAll(const InferArgs& args) {
  TRY(InferReduced(args));
  for (int64_t i = 2; i < 6; ++i) {
    const Shape& shape = args.operand(i);
    if (!IsInteger(shape.dtype()) || (shape.rank() != 1 && shape.rank() != 2)) {
      return InvalidArgument("ragged-all-to-all: operand ", i,
                             " must be integers of rank 1 or 2, got ",
                             shape.ToStringWithoutLayout());
    }
    if (!ShapesMatch(args.operand(2), shape)) {
      return InvalidArgument("ragged-all-to-all: offsets and sizes differ in shape: ",
                             args.operand(2).ToStringWithoutLayout(), " and ",
                             shape.ToStringWithoutLayout());
    }
  }
  return StripLayout(args.operand(1));
}

Result<Shape> InferDeviceId(const InferArgs&) {
  return Shape::Scalar(DType::kU32);
}

Status CheckAllReduceRow(const Instruction& instruction) {
  const CollectiveAttrs* attrs = instruction.attrs().Collective();
  if (attrs->channel_id && *attrs->channel_id <= 0) {
    return InvalidArgument(Mnemonic(instruction.op()), ": channel_id must be above 0, got ",
                           *attrs->channel_id);
  }
  return CheckGroups(instruction);
}

}  // namespace

template <>
OpRow Define<Op::kAllGather>() {
  return {.doc = "The operands of all devices of a group, joined along a dimension.",
          .infer = InferAllGather,
          .check = CheckGroups,
          .evaluate = RunAllGather,
          .dim_rule = RuleCollectiveDims};
}

template <>
OpRow Define<Op::kAllReduce>() {
  return {.doc = "The operands of all devices of a group, reduced element by element.",
          .infer = InferReduced,
          .check = CheckAllReduceRow,
          .evaluate = RunAllReduce,
          .dim_rule = RuleCollectiveDims};
}

template <>
OpRow Define<Op::kReduceScatter>() {
  return {.doc = "As all-reduce; each device of the group then keeps its part of a dimension.",
          .infer = InferReduceScatter,
          .check = CheckGroups,
          .evaluate = RunReduceScatter,
          .dim_rule = RuleCollectiveDims};
}

template <>
OpRow Define<Op::kCollectiveReduce>() {
  return {.doc = "As all-reduce, for one device of the group; the others get zeroes.",
          .infer = InferCollectiveReduce,
          .check = CheckGroups,
          .evaluate = RunCollectiveReduce,
          .dim_rule = RuleCollectiveDims};
}

template <>
OpRow Define<Op::kAllToAll>() {
  return {.doc =
              "Part i of the operand (or operand i) goes to device i of the group; the parts "
              "received are joined in group order.",
          .infer = InferAllToAll,
          .check = CheckGroups,
          .evaluate = RunAllToAll,
          .dim_rule = RuleCollectiveDims};
}

template <>
OpRow Define<Op::kRaggedAllToAll>() {
  return {.doc =
              "Rows of the input go to places in the outputs of the group's devices, by "
              "offsets and sizes.",
          .infer = InferRaggedAllToAll,
          .check = CheckGroups,
          .evaluate = RunRaggedAllToAll,
          .no_dim_rule = "offsets are places in whole arrays"};
}

template <>
OpRow Define<Op::kCollectiveBroadcast>() {
  return {.doc = "The operand of the group's first device.",
          .infer = InferCollectiveBroadcast,
          .evaluate = RunCollectiveBroadcast,
          .dim_rule = RuleCollectiveDims};
}

template <>
OpRow Define<Op::kCollectivePermute>() {
  return {.doc =
              "The operand of the device that is paired with this one; zeroes when there is "
              "none. With slice_sizes: slices, into an output that is updated in place.",
          .infer = InferPermuted,
          .check = CheckPermute,
          .evaluate = RunCollectivePermute,
          .dim_rule = RuleCollectiveDims};
}

template <>
OpRow Define<Op::kPartitionId>() {
  return {.doc = "The number of this partition.",
          .infer = InferDeviceId,
          .evaluate = [](EvalContext& context, const Instruction&,
                         std::span<Literal>) -> Result<Literal> {
            return Literal::Scalar(DType::kU32, static_cast<uint32_t>(context.partition()));
          },
          .no_dim_rule = "a scalar"};
}

template <>
OpRow Define<Op::kReplicaId>() {
  return {.doc = "The number of this replica.",
          .infer = InferDeviceId,
          .evaluate = [](EvalContext& context, const Instruction&,
                         std::span<Literal>) -> Result<Literal> {
            return Literal::Scalar(DType::kU32, static_cast<uint32_t>(context.replica()));
          },
          .no_dim_rule = "a scalar"};
}

}  // namespace weft::hlo
