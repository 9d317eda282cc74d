// Ops along a cut dimension that need little from the other devices: slices that are a small piece
// of it, the best elements of it, and cumulative ops.
#include <algorithm>
#include <limits>

#include "compiler/analysis/collectives.h"
#include "compiler/spmd/partitioner.h"
#include "compiler/spmd/window.h"

namespace weft::compiler::spmd {
namespace {

using hlo::Attrs;
using hlo::Builder;
using hlo::Direction;
using hlo::Instruction;
using hlo::Op;

// A dimension that is cut and of which a slice takes a piece.
struct NarrowDim {
  int64_t dim, part;
  AxisList axes;
  hlo::SliceDim slice;
  int64_t count;
  int64_t length() const { return (count - 1) * slice.stride + 1; }
  // The number along the axes of the device that has its first element.
  int64_t owner() const { return slice.start / part; }
  bool has_one_owner() const { return (slice.start + length() - 1) / part == owner(); }
};

// Zeroes but on the device with that number along the axes.
Result<Instruction*> ZeroesBut(Emitter& e, Instruction* x, const AxisList& axes, int64_t owner) {
  Instruction* index = TRY(e.IndexAlong(axes));
  Builder b = e.builder();
  Instruction* number = b.ScalarConstant(DType::kS32, static_cast<double>(owner));
  Instruction* mine = TRY(b.Compare(index, number, Direction::kEq));
  const Shape shape(x->shape().dtype(), x->shape().dims());
  return b.Add(Op::kSelect, {TRY(FillWith(b, mine, shape)), x, TRY(ZeroesOf(b, shape))});
}

// The dimensions that are cut and sliced; none where elements move along one more cheaply, or where
// several devices have some.
std::vector<NarrowDim> NarrowDims(const Instruction& i, const Cut& cut, const Form& from,
                                  const Shape& part) {
  std::vector<NarrowDim> narrow;
  const Shape& whole = i.operand(0)->shape();
  for (int64_t d = 0; d < whole.rank(); ++d) {
    const size_t at = static_cast<size_t>(d);
    const AxisList& axes = from.dims[at].axes;
    if (axes.empty() || i.shape().dim(d) == whole.dim(d)) continue;
    for (int factor : cut.rule.operands[0][at]) {
      if (!cut.axes[static_cast<size_t>(factor)].empty()) return {};
    }
    narrow.push_back(
        {d, part.dim(d), axes, i.attrs<hlo::SliceAttrs>().slice[at], i.shape().dim(d)});
    if (!narrow.back().has_one_owner()) return {};
  }
  return narrow;
}

// How many elements at the front of the sorted dimension are read at all: of a top-k; 0: any may
// be.
int64_t SortedFront(const Instruction& i) {
  int64_t front = 0;
  const hlo::Ints& sorted = i.attrs<hlo::SortAttrs>().dimensions;
  auto read = [&](const Instruction& value) {
    for (const Instruction* user : value.users()) {
      if (user->op() != Op::kSlice) return false;
      const hlo::SliceDim& s = user->attrs<hlo::SliceAttrs>().slice[static_cast<size_t>(sorted[0])];
      front = std::max(front, s.limit);
    }
    return !value.IsRoot();
  };
  if (sorted.size() != 1) return 0;
  if (!i.shape().IsTuple()) return read(i) ? front : 0;
  for (const Instruction* user : i.users()) {
    if (user->op() != Op::kGetTupleElement || !read(*user)) return 0;
  }
  return i.IsRoot() ? 0 : front;
}

}  // namespace

// Of a top-k along a cut dimension: the front of each part is gathered, and sorted once more. Those
// of lower indices come first, as a stable sort has it. What is behind is never read.
Result<bool> ComputationPartitioner::EmitSortedFront(const Instruction& i, const Cut& cut,
                                                     std::span<const Form> operands) {
  const int64_t front = SortedFront(i);
  if (front == 0 || i.shape().HasDynamicDims()) return false;
  const auto& attrs = i.attrs<hlo::SortAttrs>();
  const int64_t dim = attrs.dimensions[0], size = i.operand(0)->shape().dim(dim);
  const AxisList& axes = operands[0].dims[static_cast<size_t>(dim)].axes;
  const int64_t parts = mesh_.SizeOf(axes);
  for (const AxisList& taken : cut.axes) {
    const bool clash = std::ranges::find_first_of(taken, axes) != taken.end();
    if (clash) return false;
  }
  // Padding cannot be made to come last: the comparator may be any.
  if (axes.empty() || size % parts != 0 || 2 * front * parts > size) return false;
  std::vector<Instruction*> locals, fronts;
  std::vector<Form> forms;
  for (size_t k = 0; k < operands.size(); ++k) {
    Form form = cut.FormOf(cut.rule.operands[k], mesh_);
    forms.push_back(form);
    form.dims[static_cast<size_t>(dim)].axes = axes;
    locals.push_back(TRY(Get(values_[i.operand(static_cast<int64_t>(k))][0], form)));
  }
  std::vector<Shape> shapes;
  for (const Instruction* local : locals) {
    shapes.emplace_back(local->shape().dtype(), local->shape().dims());
  }
  const bool tuple = i.shape().IsTuple();
  Instruction* sorted = Clone(i, tuple ? Shape::Tuple(shapes) : shapes[0], locals);
  for (size_t k = 0; k < locals.size(); ++k) {
    Builder b = emitter_.builder();
    Instruction* one = tuple ? TRY(b.GetTupleElement(sorted, static_cast<int64_t>(k))) : sorted;
    one = TRY(emitter_.SliceAlong(one, dim, 0, front));
    fronts.push_back(TRY(emitter_.AllGather(one, dim, axes)));
  }
  Builder b = emitter_.builder();
  Instruction* all = TRY(b.Add(Op::kSort, fronts, Attrs(attrs)));
  Leaves leaves = NewLeaves(i);
  for (size_t k = 0; k < leaves.size(); ++k) {
    Instruction* one = tuple ? TRY(b.GetTupleElement(all, static_cast<int64_t>(k))) : all;
    leaves[k].forms.emplace_back(forms[k], TRY(emitter_.PadTo(one, dim, size)));
  }
  values_[&i] = std::move(leaves);
  return true;
}

// Who has the slice gives it, the others zeroes: summands, where gathering the
// dimension would move more.
Result<bool> ComputationPartitioner::EmitNarrowSlice(const Instruction& i, const Cut& cut,
                                                     const Form& from) {
  if (i.shape().dtype() == DType::kPred || i.shape().HasDynamicDims()) return false;
  if (i.shape().elements() == 0) return false;
  Form form = Form::Replicated(i.shape().rank());
  for (size_t d = 0; d < form.dims.size(); ++d) form.dims[d].axes = from.dims[d].axes;
  const Shape part = LocalShape(i.operand(0)->shape(), form, mesh_);
  const std::vector<NarrowDim> narrow = NarrowDims(i, cut, from, part);
  if (narrow.empty()) return false;
  const Form whole = form;
  int64_t parts = 1;
  for (const NarrowDim& n : narrow) {
    form.dims[static_cast<size_t>(n.dim)].axes.clear();
    for (int axis : n.axes) form.unreduced |= BitOf(axis);
    parts *= mesh_.SizeOf(n.axes);
  }
  const Shape shape = LocalShape(i.shape(), form, mesh_);
  if (2 * shape.ByteSize() >= part.ByteSize() * (parts - 1)) return false;
  form.reduction = WithZeroes(i.shape().dtype());
  Instruction* x = TRY(Get(values_[i.operand(0)][0], whole));
  hlo::SliceDims slices = i.attrs<hlo::SliceAttrs>().slice;
  for (size_t d = 0; d < slices.size(); ++d) {
    const int64_t dim = static_cast<int64_t>(d);
    if (!whole.dims[d].axes.empty()) slices[d] = {0, part.dim(dim), 1};
  }
  for (const NarrowDim& n : narrow) {
    const int64_t start = n.slice.start - n.owner() * n.part;
    slices[static_cast<size_t>(n.dim)] = {start, start + n.length(), n.slice.stride};
  }
  Instruction* local = Clone(i, shape, std::span(&x, 1));
  local->mutable_attrs<hlo::SliceAttrs>().slice = std::move(slices);
  for (const NarrowDim& n : narrow) {
    local = TRY(ZeroesBut(emitter_, local, n.axes, n.owner()));
  }
  Leaves leaves = NewLeaves(i);
  leaves[0].forms.emplace_back(std::move(form), local);
  values_[&i] = std::move(leaves);
  return true;
}

// Whether it is a rotation along a dimension that has equal parts.
bool ComputationPartitioner::IsRotation(const Instruction& i) const {
  const Rotation turn = RotationOf(i);
  if (turn.of == nullptr || i.shape().HasDynamicDims()) return false;
  const Form& form = values_.at(turn.of)[0].declared;
  const int64_t parts = mesh_.SizeOf(form.dims[static_cast<size_t>(turn.dim)].axes);
  return parts > 1 && i.shape().dim(turn.dim) % parts == 0;
}

// Two neighbouring parts hold what a device's part becomes: each sends its end or its beginning.
Result<bool> ComputationPartitioner::EmitRotation(const Instruction& i) {
  // Pieces that rotations alone read are not made: they take them from the whole.
  auto rotates = [&](const Instruction* user) { return IsRotation(*user); };
  if (i.op() == Op::kSlice) {
    return !i.IsRoot() && !i.users().empty() && std::ranges::all_of(i.users(), rotates);
  }
  if (!IsRotation(i)) return false;
  const Rotation turn = RotationOf(i);
  LocalValue& value = values_[turn.of][0];
  Form form = Form::Replicated(i.shape().rank());
  for (size_t d = 0; d < form.dims.size(); ++d) form.dims[d].axes = value.declared.dims[d].axes;
  const AxisList& axes = form.dims[static_cast<size_t>(turn.dim)].axes;
  const int64_t parts = mesh_.SizeOf(axes), size = i.shape().dim(turn.dim);
  Instruction* x = TRY(Get(value, form));
  auto from = [&](int64_t distance, int64_t begin, int64_t end) -> Result<Instruction*> {
    Instruction* piece = TRY(emitter_.SliceAlong(x, turn.dim, begin, end));
    if (distance % parts == 0) return piece;
    hlo::IntPairs pairs;
    for (const std::vector<int64_t>& group : mesh_.Groups(axes)) {
      for (int64_t k = 0; k < parts; ++k) {
        pairs.push_back(
            {group[static_cast<size_t>((k + distance) % parts)], group[static_cast<size_t>(k)]});
      }
    }
    return emitter_.Permute(piece, std::move(pairs));
  };
  const int64_t part = size / parts, distance = turn.by / part, begin = turn.by % part;
  Instruction* all = TRY(from(distance, begin, part));
  if (begin > 0) {
    Instruction* both[] = {all, TRY(from(distance + 1, 0, begin))};
    all = TRY(emitter_.builder().Add(Op::kConcatenate, both,
                                     Attrs(hlo::DimensionsAttrs{.dimensions = {turn.dim}})));
  }
  Leaves leaves = NewLeaves(i);
  leaves[0].forms.emplace_back(std::move(form), all);
  values_[&i] = std::move(leaves);
  return true;
}

int64_t CumulativeDim(const Instruction& i) {
  if (i.op() != Op::kReduceWindow || i.operand_count() != 2 || !i.shape().IsArray()) return -1;
  const auto& dims = i.attrs<hlo::ReduceWindowAttrs>().window.dims;
  int64_t found = -1;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t size = i.operand(0)->shape().dim(static_cast<int64_t>(d));
    hlo::WindowDim forward, backward, w = dims[d];
    w.reversal = false;
    if (w == forward) continue;
    forward.size = backward.size = size;
    forward.pad_low = backward.pad_high = size - 1;
    if (found >= 0 || (w != forward && w != backward)) return -1;
    found = static_cast<int64_t>(d);
  }
  return found;
}

// What the parts come to is gathered, one element of each; a device adds those before its own.
Result<Instruction*> ComputationPartitioner::EmitCumulative(
    const Instruction& i, const Cut& cut, const Shape& shape,
    std::span<Instruction* const> operands) {
  const int64_t dim = CumulativeDim(i), size = i.shape().dim(dim), part = shape.dim(dim);
  const AxisList& axes =
      cut.axes[static_cast<size_t>(cut.rule.operands[0][static_cast<size_t>(dim)][0])];
  const auto& attrs = i.attrs<hlo::ReduceWindowAttrs>();
  const bool forward = attrs.window.dims[static_cast<size_t>(dim)].pad_low > 0;
  Instruction* init = operands[1];
  Instruction* inputs[] = {TRY(emitter_.MaskPadding(operands[0], dim, size, axes, init)), init};
  Instruction* local = Clone(i, shape, inputs);
  hlo::WindowDim& w =
      local->mutable_attrs<hlo::ReduceWindowAttrs>().window.dims[static_cast<size_t>(dim)];
  w.size = part;
  (forward ? w.pad_low : w.pad_high) = part - 1;
  Instruction* last =
      TRY(emitter_.SliceAlong(local, dim, forward ? part - 1 : 0, forward ? part : 1));
  Instruction* all = TRY(emitter_.AllGather(last, dim, axes));
  Instruction* index = TRY(emitter_.IndexAlong(axes));
  Builder b = emitter_.builder();
  Shape places_shape(DType::kS32, all->shape().dims());
  Instruction* places =
      TRY(b.Add(Op::kIota, {}, Attrs(hlo::IotaAttrs{.iota_dimension = dim}), &places_shape));
  Instruction* before = TRY(b.Compare(places, TRY(FillWith(b, index, places_shape)),
                                      forward ? Direction::kLt : Direction::kGt));
  const Shape sums(all->shape().dtype(), all->shape().dims());
  all = TRY(b.Add(Op::kSelect, {before, all, TRY(FillWith(b, init, sums))}));
  Instruction* sum = TRY(b.Reduce(all, init, {dim}, attrs.to_apply));
  hlo::Ints others;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (d != dim) others.push_back(d);
  }
  sum = TRY(b.Broadcast(sum, Shape(shape.dtype(), shape.dims()), std::move(others)));
  Instruction* both[] = {forward ? sum : local, forward ? local : sum};
  hlo::MapAttrs apply;
  for (int64_t d = 0; d < shape.rank(); ++d) apply.dimensions.push_back(d);
  apply.to_apply = attrs.to_apply;
  return b.Add(Op::kMap, both, Attrs(std::move(apply)));
}

// A broadcast that lies otherwise than it is wanted is made once more, where it is quicker to bring
// what it is made of than to move all of it.
Status ComputationPartitioner::BroadcastAgain(const Instruction& i, const Form& form) {
  LocalValue& value = values_[&i][0];
  if (form.unreduced != 0 || !form.order.empty() || i.shape().HasDynamicDims()) return {};
  auto seconds = [&](const LocalValue& of, const Form& wanted) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [have, part] : of.forms) {
      const ReshardPlan plan = PlanReshard(*of.whole, have, wanted, mesh_, program_.link());
      least = std::min(least, plan.seconds);
    }
    return least;
  };
  const double moved = seconds(value, form);
  if (moved == 0) return {};
  const hlo::Ints& dimensions = i.attrs<hlo::BroadcastAttrs>().dimensions;
  Form from = Form::Replicated(i.operand(0)->shape().rank());
  for (size_t d = 0; d < from.dims.size(); ++d) {
    from.dims[d].axes = form.dims[static_cast<size_t>(dimensions[d])].axes;
  }
  if (seconds(values_[i.operand(0)][0], from) >= moved) return {};
  Instruction* x = TRY(BuildAll(i.operand(0), std::span(&from, 1)));
  const Shape local = LocalShape(i.shape(), form, mesh_);
  value.forms.emplace_back(form, TRY(emitter_.builder().Broadcast(x, local, dimensions)));
  return {};
}

}  // namespace weft::compiler::spmd
