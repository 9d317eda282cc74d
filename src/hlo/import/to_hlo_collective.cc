// Operations between devices.
#include <algorithm>

#include "hlo/import/attr_values.h"
#include "hlo/import/to_hlo.h"

namespace weft::hlo::mlir {
namespace {

// Rows of replica ids, padded with -1, or axes of a mesh.
Result<ReplicaGroups> GroupsOf(Converter& c, const Operation& op) {
  ReplicaGroups groups;
  const Attr* attr = op.Find("replica_groups");
  if (attr == nullptr) return groups;
  if (attr->kind == Attr::Kind::kDict) {
    const Attr* mesh = attr->Find("mesh");
    if (mesh == nullptr) mesh = attr->Find("mesh_name");
    const Attr* axes = attr->Find("axes");
    if (mesh == nullptr || axes == nullptr) {
      return InvalidArgument("replica_groups: a mesh and its axes are expected");
    }
    groups.form = ReplicaGroups::Form::kMesh;
    groups.mesh = TRY(c.MeshOf(*mesh));
    groups.axes = TRY(c.AxesOf(groups.mesh, *axes));
    return groups;
  }
  groups.groups = TRY(IntRowsAttr(op, "replica_groups"));
  for (Ints& group : groups.groups) std::erase(group, -1);
  std::erase_if(groups.groups, [](const Ints& group) { return group.empty(); });
  return groups;
}

template <class A>
Result<A> CollectiveOf(Converter& c, const Operation& op) {
  A attrs;
  int64_t channel = TRY(IntAttr(op, "channel_id", 0));
  if (channel > 0) attrs.channel_id = channel;
  attrs.replica_groups = TRY(GroupsOf(c, op));
  attrs.use_global_device_ids = BoolAttr(op, "use_global_device_ids");
  return attrs;
}

Status ConvertAllGather(Converter& c, const Operation& op) {
  auto attrs = TRY(CollectiveOf<AllGatherAttrs>(c, op));
  attrs.dimensions = {TRY(RequiredInt(op, "all_gather_dim"))};
  return c.EmitAndBind(op, Op::kAllGather, std::move(attrs));
}

Status ConvertAllReduce(Converter& c, const Operation& op) {
  auto attrs = TRY(CollectiveOf<AllReduceAttrs>(c, op));
  attrs.to_apply = TRY(c.RegionFunction(op, 0, "reducer"));
  return c.EmitAndBind(op, Op::kAllReduce, std::move(attrs));
}

Status ConvertCrossReplicaSum(Converter& c, const Operation& op) {
  auto attrs = TRY(CollectiveOf<AllReduceAttrs>(c, op));
  DType dtype = TRY(c.Operand(op, 0))->shape().dtype();
  Computation* sum =
      c.module().AddComputation(StrCat("sum.", c.module().id_limit()), &c.computation());
  Shape scalar = Shape::Scalar(dtype);
  auto parameter = [&](int64_t number) {
    return sum->Add(Op::kParameter, StrCat("Arg_", number, ".", c.module().id_limit()), scalar, {},
                    ParameterAttrs{.number = number});
  };
  Instruction* parameters[] = {parameter(0), parameter(1)};
  sum->set_root(
      sum->Add(Op::kAdd, StrCat("add.", c.module().id_limit()), scalar, parameters, NoAttrs{}));
  attrs.to_apply = sum;
  return c.EmitAndBind(op, Op::kAllReduce, std::move(attrs));
}

Status ConvertReduceScatter(Converter& c, const Operation& op) {
  auto attrs = TRY(CollectiveOf<ReduceScatterAttrs>(c, op));
  attrs.dimensions = {TRY(RequiredInt(op, "scatter_dimension"))};
  attrs.to_apply = TRY(c.RegionFunction(op, 0, "reducer"));
  return c.EmitAndBind(op, Op::kReduceScatter, std::move(attrs));
}

// HLO's all-to-all splits and joins one dimension. For two different ones the parts become a
// dimension of their own, which is exchanged, moved before the joined one and merged into it.
Result<Instruction*> EmitAllToAll(Converter& c, Instruction* operand, const AllToAllAttrs& attrs,
                                  int64_t split, int64_t concat, int64_t count) {
  const Shape& from = operand->shape();
  if (split < 0 || split >= from.rank() || concat < 0 || concat >= from.rank() || count < 1 ||
      from.dim(split) % count != 0 || !from.IsStatic() || from.rank() >= kMaxRank ||
      from.dim(concat) > INT64_MAX / count) {
    return InvalidArgument("split_dimension = ", split, ", concat_dimension = ", concat,
                           ", split_count = ", count, " do not fit ", from.ToStringWithoutLayout());
  }
  AllToAllAttrs exchange = attrs;
  exchange.dimensions = {split};
  if (split == concat) return c.Emit(Op::kAllToAll, {operand}, exchange, from);
  Shape parts = Shape::Scalar(from.dtype());
  for (int64_t i = 0; i < from.rank(); ++i) {
    if (i == split) parts.AppendDim(count);
    parts.AppendDim(i == split ? from.dim(i) / count : from.dim(i));
  }
  Instruction* value = c.Emit(Op::kReshape, {operand}, ReshapeAttrs{}, parts);
  value = c.Emit(Op::kAllToAll, {value}, exchange, parts);
  Ints permutation;
  Shape moved = Shape::Scalar(from.dtype()), joined = Shape::Scalar(from.dtype());
  for (int64_t i = 0; i < from.rank(); ++i) {
    if (i == concat) permutation.push_back(split);
    permutation.push_back(i < split ? i : i + 1);
    int64_t size = i == split ? from.dim(i) / count : from.dim(i);
    joined.AppendDim(i == concat ? size * count : size);
  }
  for (int64_t i : permutation) moved.AppendDim(parts.dim(i));
  value = c.Emit(Op::kTranspose, {value}, DimensionsAttrs{.dimensions = std::move(permutation)},
                 std::move(moved));
  return c.Emit(Op::kReshape, {value}, ReshapeAttrs{}, std::move(joined));
}

Status ConvertAllToAll(Converter& c, const Operation& op) {
  auto attrs = TRY(CollectiveOf<AllToAllAttrs>(c, op));
  int64_t split = TRY(RequiredInt(op, "split_dimension"));
  int64_t concat = TRY(RequiredInt(op, "concat_dimension"));
  int64_t count = TRY(RequiredInt(op, "split_count"));
  std::vector<Instruction*> results;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    Instruction* operand = TRY(c.Operand(op, i));
    results.push_back(TRY(EmitAllToAll(c, operand, attrs, split, concat, count)));
  }
  return c.BindEach(op, results);
}

Status ConvertCollectivePermute(Converter& c, const Operation& op) {
  auto attrs = TRY(CollectiveOf<CollectivePermuteAttrs>(c, op));
  for (const Ints& pair : TRY(IntRowsAttr(op, "source_target_pairs"))) {
    if (pair.size() != 2) return InvalidArgument("source_target_pairs is not pairs");
    attrs.source_target_pairs.emplace_back(pair[0], pair[1]);
  }
  return c.EmitAndBind(op, Op::kCollectivePermute, std::move(attrs));
}

Status ConvertCollectiveBroadcast(Converter& c, const Operation& op) {
  auto attrs = TRY(CollectiveOf<CollectiveBroadcastAttrs>(c, op));
  attrs.has_dynamic_root = BoolAttr(op, "has_dynamic_root");
  return c.EmitAndBind(op, Op::kCollectiveBroadcast, std::move(attrs));
}

Status ConvertCollectiveReduce(Converter& c, const Operation& op) {
  auto attrs = TRY(CollectiveOf<CollectiveReduceAttrs>(c, op));
  attrs.has_dynamic_root = BoolAttr(op, "has_dynamic_root");
  attrs.to_apply = TRY(c.RegionFunction(op, 0, "reducer"));
  return c.EmitAndBind(op, Op::kCollectiveReduce, std::move(attrs));
}

constexpr HandlerRow kCollectiveRows[] = {
    {"all_gather", ConvertAllGather},
    {"all_reduce", ConvertAllReduce},
    {"all_to_all", ConvertAllToAll},
    {"collective_broadcast", ConvertCollectiveBroadcast},
    {"collective_permute", ConvertCollectivePermute},
    {"collective_reduce", ConvertCollectiveReduce},
    {"cross-replica-sum", ConvertCrossReplicaSum},
    {"partition_id", Plain<Op::kPartitionId>},
    {"reduce_scatter", ConvertReduceScatter},
    {"replica_id", Plain<Op::kReplicaId>},
};

}  // namespace

std::span<const HandlerRow> CollectiveHandlers() {
  return kCollectiveRows;
}

}  // namespace weft::hlo::mlir
