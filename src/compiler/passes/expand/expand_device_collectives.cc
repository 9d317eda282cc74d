// Collectives between several devices in the form that lowering takes: parts that lie one after the
// other, and reductions of one op.
#include <algorithm>

#include "compiler/analysis/collectives.h"
#include "compiler/passes/expand/apply_to_arrays.h"
#include "compiler/passes/expand/expand_ops.h"
#include "hlo/clone.h"
#include "hlo/ops/called.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

using Groups = std::vector<std::vector<int64_t>>;

// A channel that no collective of the module has.
int64_t NewChannel(const hlo::Module& module) {
  int64_t last = 0;
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      if (const hlo::CollectiveAttrs* attrs = i->attrs().Collective()) {
        last = std::max(last, attrs->channel_id.value_or(0));
      }
    }
  }
  return last + 1;
}

// The values of all devices of the group, one after the other: [group, elements].
Result<Instruction*> GatherAll(Builder& b, Instruction* collective, Instruction* value) {
  Groups groups = TRY(DeviceGroups(*collective));
  hlo::AllGatherAttrs attrs;
  attrs.channel_id = collective->attrs().Collective()->channel_id;
  if (!attrs.channel_id) attrs.channel_id = NewChannel(*collective->parent()->module());
  attrs.use_global_device_ids = true;
  attrs.dimensions = {0};
  attrs.replica_groups.groups = groups;
  for (const auto& group : groups) {
    if (group.size() != groups[0].size()) {
      return Unimplemented(hlo::Mnemonic(collective->op()), ": groups of several sizes");
    }
  }
  int64_t n = static_cast<int64_t>(groups[0].size()), elements = value->shape().elements();
  Instruction* row = TRY(b.Reshape(value, std::vector<int64_t>{1, elements}));
  Shape shape(value->shape().dtype(), {n, elements});
  return b.Add(Op::kAllGather, std::span(&row, 1), hlo::Attrs(std::move(attrs)), &shape);
}

// Columns [begin, begin + size) of a row of [rows, columns].
Result<Instruction*> RowOf(Builder& b, Instruction* rows, int64_t row, int64_t begin,
                           int64_t size) {
  hlo::SliceAttrs slice;
  slice.slice = {{row, row + 1, 1}, {begin, begin + size, 1}};
  return b.Add(Op::kSlice, {rows}, hlo::Attrs(std::move(slice)));
}

// The number of this device, as s32.
Result<Instruction*> DeviceNumber(Builder& b, const hlo::Module& module) {
  Shape u32 = Shape::Scalar(DType::kU32);
  Instruction* replica = TRY(b.Add(Op::kReplicaId, {}, hlo::Attrs(), &u32));
  Instruction* partition = TRY(b.Add(Op::kPartitionId, {}, hlo::Attrs(), &u32));
  int64_t partitions = std::max<int64_t>(module.config().num_partitions, 1);
  Instruction* per_replica = b.ScalarConstant(DType::kU32, static_cast<double>(partitions));
  Instruction* first = TRY(b.Add(Op::kMultiply, {replica, per_replica}));
  return b.Convert(TRY(b.Add(Op::kAdd, {first, partition})), DType::kS32);
}

// The place of this device in its group, as s32.
Result<Instruction*> PlaceInGroup(Builder& b, const Instruction& collective) {
  const hlo::Module& module = *collective.parent()->module();
  Literal table(Shape(DType::kS32, {DeviceCount(module)}));
  for (const auto& group : TRY(DeviceGroups(collective))) {
    for (size_t place = 0; place < group.size(); ++place) {
      table.SetInt(group[place], static_cast<int64_t>(place));
    }
  }
  return OfThisDevice(b, module, std::move(table));
}

// Row `place` of [rows, columns], or of every row the part number `place`.
Result<Instruction*> RowAt(Builder& b, Instruction* rows, Instruction* place) {
  hlo::DynamicSliceAttrs one;
  one.dynamic_slice_sizes = {1, rows->shape().dim(1)};
  Instruction* zero = b.ScalarConstant(place->shape().dtype(), 0);
  return b.Add(Op::kDynamicSlice, {rows, place, zero}, hlo::Attrs(std::move(one)));
}
Result<Instruction*> PartAt(Builder& b, Instruction* rows, Instruction* place, int64_t size) {
  hlo::DynamicSliceAttrs part;
  part.dynamic_slice_sizes = {rows->shape().dim(0), size};
  Instruction* width = b.ScalarConstant(DType::kS32, static_cast<double>(size));
  Instruction* at = TRY(b.Add(Op::kMultiply, {place, width}));
  return b.Add(Op::kDynamicSlice, {rows, b.ScalarConstant(DType::kS32, 0), at},
               hlo::Attrs(std::move(part)));
}

// The rows of [rows, columns], put together by a function of scalars from the first to the last.
Result<Instruction*> CombineRows(Builder& b, Instruction* rows, const hlo::Computation& function,
                                 Instruction* before) {
  int64_t size = rows->shape().dim(1);
  Instruction* sum = TRY(RowOf(b, rows, 0, 0, size));
  for (int64_t row = 1; row < rows->shape().dim(0); ++row) {
    Instruction* both[] = {sum, TRY(RowOf(b, rows, row, 0, size))};
    sum = TRY(ApplyToArrays(function, both, b.computation(), before))[0];
  }
  return sum;
}

// [outer, parts, rest] as [parts, outer, rest], or back.
Result<Instruction*> ExchangeLeading(Builder& b, Instruction* value, int64_t first,
                                     int64_t second) {
  int64_t rest = value->shape().elements() / (first * second);
  Instruction* three = TRY(b.Reshape(value, std::vector<int64_t>{first, second, rest}));
  return b.Transpose(three, {1, 0, 2});
}

Result<Instruction*> GatherFlat(Builder& b, const Instruction& i, Instruction* x,
                                const Shape& result) {
  hlo::Attrs attrs = i.attrs();
  int64_t& dim = attrs.Mutable<hlo::AllGatherAttrs>().dimensions[0];
  int64_t outer = OuterElements(x->shape(), dim), group = result.dim(dim) / x->shape().dim(dim);
  dim = 0;
  int64_t rest = x->shape().elements() / outer;
  Shape gathered(x->shape().dtype(), {group, outer, rest});
  Instruction* one = TRY(b.Reshape(x, std::vector<int64_t>{1, outer, rest}));
  Instruction* all = TRY(b.Add(Op::kAllGather, std::span(&one, 1), std::move(attrs), &gathered));
  return b.Reshape(TRY(ExchangeLeading(b, all, group, outer)), result.dims());
}

Result<Instruction*> ScatterFlat(Builder& b, Instruction* i, Instruction* x, const Shape& result) {
  hlo::Attrs attrs = i->attrs();
  auto& own = attrs.Mutable<hlo::ReduceScatterAttrs>();
  int64_t outer = OuterElements(x->shape(), own.dimensions[0]);
  int64_t group = x->shape().elements() / result.elements();
  Instruction* parts = TRY(ExchangeLeading(b, x, outer, group));
  if (SimpleReduction(*own.to_apply)) {
    own.dimensions[0] = 0;
    Shape part(x->shape().dtype(), {1, outer, parts->shape().dim(2)});
    Instruction* sum =
        TRY(b.Add(Op::kReduceScatter, std::span(&parts, 1), std::move(attrs), &part));
    return b.Reshape(sum, result.dims());
  }
  Instruction* all = TRY(GatherAll(b, i, parts));
  Instruction* mine = TRY(PartAt(b, all, TRY(PlaceInGroup(b, *i)), result.elements()));
  return b.Reshape(TRY(CombineRows(b, mine, *own.to_apply, i)), result.dims());
}

Result<Instruction*> ExchangeFlat(Builder& b, const Instruction& i, Instruction* x) {
  hlo::Attrs attrs = i.attrs();
  int64_t& dim = attrs.Mutable<hlo::AllToAllAttrs>().dimensions[0];
  int64_t outer = OuterElements(x->shape(), dim);
  int64_t group = static_cast<int64_t>(TRY(DeviceGroups(i))[0].size());
  if (x->shape().dim(dim) % group != 0) {
    return InvalidArgument("all-to-all: dimension ", dim, " of ",
                           x->shape().ToStringWithoutLayout(), " does not divide by ", group);
  }
  dim = 0;
  Instruction* parts = TRY(ExchangeLeading(b, x, outer, group));
  Instruction* got = TRY(b.Add(Op::kAllToAll, {parts}, std::move(attrs)));
  return b.Reshape(TRY(ExchangeLeading(b, got, group, outer)), x->shape().dims());
}

// One operand for each device of the group: an all-to-all of their rows.
Result<bool> ExpandTupleAllToAll(Instruction* i) {
  const Shape& shape = i->operand(0)->shape();
  int64_t n = i->operand_count(), elements = shape.elements();
  if (n != static_cast<int64_t>(TRY(DeviceGroups(*i))[0].size())) {
    return InvalidArgument("all-to-all: ", n, " operands for groups of another size");
  }
  Builder b(*i->parent(), i, i);
  std::vector<Instruction*> rows, values;
  for (Instruction* operand : i->operands()) {
    rows.push_back(TRY(b.Reshape(operand, std::vector<int64_t>{1, elements})));
  }
  hlo::DimensionsAttrs along;
  along.dimensions = {0};
  Instruction* all = TRY(b.Add(Op::kConcatenate, rows, hlo::Attrs(std::move(along))));
  hlo::Attrs attrs = i->attrs();
  attrs.Mutable<hlo::AllToAllAttrs>().dimensions = {0};
  all = TRY(b.Add(Op::kAllToAll, {all}, std::move(attrs)));
  for (int64_t row = 0; row < n; ++row) {
    values.push_back(TRY(b.Reshape(TRY(RowOf(b, all, row, 0, elements)), shape.dims())));
  }
  hlo::ReplaceInstruction(i, i->shape().IsTuple() ? TRY(b.Tuple(values)) : values[0]);
  return true;
}

// Element [row, column] of integers, as s32.
Result<Instruction*> NumberAt(Builder& b, Instruction* numbers, int64_t row, int64_t column) {
  Instruction* one = TRY(RowOf(b, numbers, row, column, 1));
  return b.Convert(TRY(b.Reshape(one, {})), DType::kS32);
}

// `out` with `count` of its rows from `to` on replaced by those of `in` from `from` on.
Result<Instruction*> CopyRows(Builder& b, Instruction* in, Instruction* from, Instruction* count,
                              Instruction* out, Instruction* to) {
  int64_t rows = out->shape().dim(0), rest = out->shape().dim(1);
  // Row r comes from row r - to + from, with room on both sides for those that do not come.
  hlo::PadAttrs pad;
  pad.padding = {{rows, rows, 0}, {0, 0, 0}};
  Instruction* zero = b.Constant(Literal(Shape::Scalar(in->shape().dtype())));
  Instruction* padded = TRY(b.Add(Op::kPad, {in, zero}, hlo::Attrs(std::move(pad))));
  Instruction* room = b.ScalarConstant(DType::kS32, static_cast<double>(rows));
  Instruction* start = TRY(b.Add(Op::kSubtract, {TRY(b.Add(Op::kAdd, {from, room})), to}));
  hlo::DynamicSliceAttrs slice;
  slice.dynamic_slice_sizes = {rows, rest};
  Instruction* moved =
      TRY(b.Add(Op::kDynamicSlice, {padded, start, b.ScalarConstant(DType::kS32, 0)},
                hlo::Attrs(std::move(slice))));
  Shape places(DType::kS32, {rows, rest});
  Instruction* row =
      TRY(b.Add(Op::kIota, {}, hlo::Attrs(hlo::IotaAttrs{.iota_dimension = 0}), &places));
  Instruction* end = TRY(b.Add(Op::kAdd, {to, count}));
  Instruction* begun = TRY(b.Compare(row, TRY(b.Broadcast(to, places, {})), hlo::Direction::kGe));
  Instruction* not_ended =
      TRY(b.Compare(row, TRY(b.Broadcast(end, places, {})), hlo::Direction::kLt));
  return b.Add(Op::kSelect, {TRY(b.Add(Op::kAnd, {begun, not_ended})), moved, out});
}

// Rows of everybody's input into this device's output, by everybody's offsets and sizes.
Result<bool> ExpandRaggedAllToAll(Instruction* i) {
  const Shape shape = i->operand(1)->shape();
  int64_t group = static_cast<int64_t>(TRY(DeviceGroups(*i))[0].size());
  int64_t updates = i->operand(2)->shape().elements() / group;
  if (shape.rank() == 0 || shape.elements() == 0 || i->operand(0)->shape().elements() == 0 ||
      updates * group != i->operand(2)->shape().elements()) {
    return false;
  }
  Builder b(*i->parent(), i, i);
  int64_t rows = shape.dim(0), rest = shape.elements() / rows;
  int64_t in_rows = i->operand(0)->shape().dim(0);
  Instruction* place = TRY(PlaceInGroup(b, *i));
  Instruction* all = TRY(GatherAll(b, i, i->operand(0)));
  Instruction* mine[3];  // from, count, to: [group, updates]
  for (int64_t k = 0; k < 3; ++k) {
    mine[k] = TRY(PartAt(b, TRY(GatherAll(b, i, i->operand(2 + k))), place, updates));
  }
  Instruction* out = TRY(b.Reshape(i->operand(1), std::vector<int64_t>{rows, rest}));
  for (int64_t p = 0; p < group; ++p) {
    Instruction* in = TRY(RowOf(b, all, p, 0, in_rows * rest));
    in = TRY(b.Reshape(in, std::vector<int64_t>{in_rows, rest}));
    for (int64_t u = 0; u < updates; ++u) {
      Instruction* from = TRY(NumberAt(b, mine[0], p, u));
      Instruction* count = TRY(NumberAt(b, mine[1], p, u));
      out = TRY(CopyRows(b, in, from, count, out, TRY(NumberAt(b, mine[2], p, u))));
    }
  }
  hlo::ReplaceInstruction(i, TRY(b.Reshape(out, shape.dims())));
  return true;
}

const hlo::Computation& FunctionOf(const Instruction& i) {
  return i.op() == Op::kAllReduce ? *i.attrs<hlo::AllReduceAttrs>().to_apply
                                  : *i.attrs<hlo::CollectiveReduceAttrs>().to_apply;
}

// The reduction of operand x for all devices of the group.
Result<Instruction*> ReduceForAll(Builder& b, Instruction* i, Instruction* x) {
  const hlo::Computation& function = FunctionOf(*i);
  Instruction* sum = TRY(CombineRows(b, TRY(GatherAll(b, i, x)), function, i));
  return b.Reshape(sum, x->shape().dims());
}

// Scalar number k of the last operand, which names a root for each of the others.
Result<Instruction*> RootOf(Builder& b, const Instruction& i, int64_t k) {
  hlo::SliceAttrs slice;
  slice.slice = {{k, k + 1, 1}};
  Instruction* roots = i.operand(i.operand_count() - 1);
  return b.Reshape(TRY(b.Add(Op::kSlice, {roots}, hlo::Attrs(std::move(slice)))), {});
}

// Only the root of the group keeps the reduction.
Result<Instruction*> ReduceForRoot(Builder& b, Instruction* i, Instruction* x, int64_t k) {
  bool dynamic = i->attrs<hlo::CollectiveReduceAttrs>().has_dynamic_root;
  Instruction* sum = TRY(ReduceForAll(b, i, x));
  Instruction* root = dynamic ? TRY(RootOf(b, *i, k)) : b.ScalarConstant(DType::kS32, 0);
  Instruction* place = TRY(PlaceInGroup(b, *i));
  Instruction* kept = TRY(b.Compare(place, root, hlo::Direction::kEq));
  Instruction* everywhere =
      TRY(b.Broadcast(kept, Shape(DType::kPred, x->shape().dims()), hlo::Ints()));
  return b.Add(Op::kSelect, {everywhere, sum, TRY(ZeroesOf(b, sum->shape()))});
}

Result<Instruction*> BroadcastFromRoot(Builder& b, Instruction* i, Instruction* x, int64_t k) {
  Instruction* all = TRY(GatherAll(b, i, x));
  return b.Reshape(TRY(RowAt(b, all, TRY(RootOf(b, *i, k)))), x->shape().dims());
}

Result<Instruction*> ExpandOperand(Builder& b, Instruction* i, int64_t k, const Shape& result) {
  Instruction* x = i->operand(k);
  switch (i->op()) {
    case Op::kAllGather: return GatherFlat(b, *i, x, result);
    case Op::kReduceScatter: return ScatterFlat(b, i, x, result);
    case Op::kAllToAll: return ExchangeFlat(b, *i, x);
    case Op::kAllReduce: return ReduceForAll(b, i, x);
    case Op::kCollectiveReduce: return ReduceForRoot(b, i, x, k);
    default: return BroadcastFromRoot(b, i, x, k);
  }
}

bool IsExpanded(const Instruction& i) {
  switch (i.op()) {
    case Op::kAllGather:
    case Op::kAllToAll:
    case Op::kRaggedAllToAll:
    case Op::kCollectiveBroadcast: return true;
    case Op::kReduceScatter: {
      const auto& function = *i.attrs<hlo::ReduceScatterAttrs>().to_apply;
      return SimpleReduction(function) || IsElementwiseComputation(function);
    }
    case Op::kAllReduce:
    case Op::kCollectiveReduce: return IsElementwiseComputation(FunctionOf(i));
    default: return false;
  }
}

}  // namespace

Result<Instruction*> OfThisDevice(Builder& b, const hlo::Module& module, Literal table) {
  hlo::DynamicSliceAttrs one;
  one.dynamic_slice_sizes = {1};
  Instruction* number = TRY(DeviceNumber(b, module));
  Instruction* found = TRY(
      b.Add(Op::kDynamicSlice, {b.Constant(std::move(table)), number}, hlo::Attrs(std::move(one))));
  return b.Reshape(found, {});
}

Result<bool> ExpandDeviceCollectives(Instruction* i) {
  if (!IsExpanded(*i) || IsFlatCollective(*i) || !IsStaticallyShaped(*i)) return false;
  if (i->op() == Op::kRaggedAllToAll) return ExpandRaggedAllToAll(i);
  bool tuple = i->shape().IsTuple(), rooted = i->op() == Op::kCollectiveBroadcast;
  if (i->op() == Op::kCollectiveReduce) {
    rooted = i->attrs<hlo::CollectiveReduceAttrs>().has_dynamic_root;
  }
  int64_t n = i->operand_count() - (rooted ? 1 : 0);
  auto empty = [&](int64_t k) { return i->operand(k)->shape().elements() == 0; };
  int64_t empties = 0;
  for (int64_t k = 0; k < n; ++k) empties += empty(k);
  if (empties == n) return false;
  if (i->op() == Op::kAllToAll && i->attrs<hlo::AllToAllAttrs>().dimensions.empty()) {
    return ExpandTupleAllToAll(i);
  }
  Builder b(*i->parent(), i, i);
  std::vector<Instruction*> values;
  for (int64_t k = 0; k < n; ++k) {
    const Shape& result = tuple ? i->shape().tuple_element(k) : i->shape();
    values.push_back(empty(k) ? TRY(ZeroesOf(b, result)) : TRY(ExpandOperand(b, i, k, result)));
  }
  hlo::ReplaceInstruction(i, tuple ? TRY(b.Tuple(values)) : values[0]);
  return true;
}

}  // namespace weft::compiler
