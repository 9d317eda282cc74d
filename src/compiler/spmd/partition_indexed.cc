// Ops that read or write at indices, along dimensions that are cut: each device looks at the
// indices that fall into its part. What it reads for others is zero, a summand; what others write
// falls outside of its part.
#include "compiler/spmd/partition_indexed.h"

#include <algorithm>

#include "compiler/analysis/collectives.h"

namespace weft::compiler::spmd {
namespace {

using hlo::Attrs;
using hlo::Builder;
using hlo::Direction;
using hlo::Instruction;
using hlo::Op;

// Integers wide enough for differences of indices of this type.
DType WideIndex(DType dtype) {
  return BitWidth(dtype) > 32 || dtype == DType::kU32 ? DType::kS64 : DType::kS32;
}

Instruction* IntConstant(Builder& b, DType dtype, int64_t value) {
  Literal literal(Shape::Scalar(dtype));
  literal.SetInt(0, value);
  return b.Constant(std::move(literal));
}

// The index in integers of that width; of u64, those beyond s64 are the largest of these.
Result<Instruction*> Widened(Builder& b, Instruction* index, DType wide) {
  if (index->shape().dtype() == DType::kU64) {
    Instruction* most = IntConstant(b, DType::kU64, INT64_MAX);
    const Shape shape(DType::kU64, index->shape().dims());
    index = TRY(b.Add(Op::kMinimum, {index, TRY(FillWith(b, most, shape))}));
  }
  return b.Convert(index, wide);
}

Result<Instruction*> FillLike(Builder& b, Instruction* scalar, const Instruction* like) {
  return FillWith(b, scalar, Shape(scalar->shape().dtype(), like->shape().dims()));
}

// Where the part of this device begins.
Result<Instruction*> StartOf(Emitter& e, const AxisList& axes, int64_t part, DType dtype) {
  Instruction* index = TRY(e.IndexAlong(axes));
  Builder b = e.builder();
  Instruction* wide = TRY(b.Convert(index, dtype));
  return b.Add(Op::kMultiply, {wide, IntConstant(b, dtype, part)});
}

// low <= x < high, for arrays of one shape.
Result<Instruction*> Within(Builder& b, Instruction* x, Instruction* low, Instruction* high) {
  Instruction* above = TRY(b.Compare(x, low, Direction::kGe));
  Instruction* below = TRY(b.Compare(x, high, Direction::kLt));
  return b.Add(Op::kAnd, {above, below});
}

Result<Instruction*> SelectOrZero(Builder& b, Instruction* where, Instruction* x) {
  Instruction* zeroes = TRY(ZeroesOf(b, Shape(x->shape().dtype(), x->shape().dims())));
  return b.Add(Op::kSelect, {where, x, zeroes});
}

Result<Instruction*> PadBoth(Builder& b, Instruction* x, int64_t dim, int64_t by) {
  hlo::PadAttrs attrs;
  attrs.padding.resize(static_cast<size_t>(x->shape().rank()));
  attrs.padding[static_cast<size_t>(dim)] = {by, by, 0};
  Instruction* zero = b.Constant(Literal(Shape::Scalar(x->shape().dtype())));
  return b.Add(Op::kPad, {x, zero}, std::move(attrs));
}

// Start indices as dynamic-slice takes them, in [0, limit], wide.
Result<Instruction*> ClampedStart(Builder& b, Instruction* start, int64_t limit) {
  const DType wide = WideIndex(start->shape().dtype());
  Instruction* x = TRY(Widened(b, start, wide));
  return b.Add(Op::kClamp, {IntConstant(b, wide, 0), x, IntConstant(b, wide, limit)});
}

// The places along `dim` of an array of this shape, from `first` on.
Result<Instruction*> PlacesFrom(Builder& b, Instruction* first, const Shape& like, int64_t dim) {
  Shape shape(first->shape().dtype(), like.dims());
  Instruction* places =
      TRY(b.Add(Op::kIota, {}, Attrs(hlo::IotaAttrs{.iota_dimension = dim}), &shape));
  return b.Add(Op::kAdd, {places, TRY(FillWith(b, first, shape))});
}

}  // namespace

std::vector<IndexedOp::CutDim> IndexedOp::CutDims(const Instruction& i, const spmd::Cut& cut,
                                                  const Instruction* local,
                                                  const DeviceMesh& mesh) {
  std::vector<IndexedOp::CutDim> dims;
  auto named = [](const hlo::Ints& list, int64_t d) {
    return std::ranges::find(list, d) != list.end();
  };
  const Shape& from = i.operand(0)->shape();
  for (int64_t d = 0; d < from.rank(); ++d) {
    bool indexed = false;
    switch (i.op()) {
      case Op::kDynamicSlice: indexed = i.shape().dim(d) != from.dim(d); break;
      case Op::kDynamicUpdateSlice: indexed = i.operand(1)->shape().dim(d) != from.dim(d); break;
      case Op::kGather: {
        const auto& a = i.attrs<hlo::GatherAttrs>();
        indexed = named(a.start_index_map, d) && a.slice_sizes[static_cast<size_t>(d)] == 1;
        break;
      }
      case Op::kScatter: {
        const auto& a = i.attrs<hlo::ScatterAttrs>();
        indexed = named(a.scatter_dims_to_operand_dims, d) && named(a.inserted_window_dims, d);
        break;
      }
      default: break;
    }
    if (!indexed) continue;
    AxisList axes =
        AxesOfDim(cut.rule, cut.rule.operands[0][static_cast<size_t>(d)], cut.axes, mesh);
    if (!axes.empty()) dims.push_back({d, from.dim(d), local->shape().dim(d), std::move(axes)});
  }
  return dims;
}

Result<std::vector<Instruction*>> IndexedOp::StartsAsWide(size_t first) {
  Builder b = e_.builder();
  std::vector<Instruction*> starts;
  for (size_t k = first; k < operands_.size(); ++k) {
    const Instruction* whole = i_.operand(static_cast<int64_t>(k));
    starts.push_back(TRY(Widened(b, operands_[k], WideIndex(whole->shape().dtype()))));
  }
  return starts;
}

Status IndexedOp::PrepareSlice() {
  const hlo::Ints& sizes = i_.attrs<hlo::DynamicSliceAttrs>().dynamic_slice_sizes;
  std::vector<Instruction*> starts;
  for (const CutDim& c : dims_) {
    if (starts.empty()) starts = TRY(StartsAsWide(1));
    const size_t d = static_cast<size_t>(c.dim);
    Builder b = e_.builder();
    Instruction* start = TRY(ClampedStart(b, operands_[1 + d], c.size - sizes[d]));
    const DType wide = start->shape().dtype();
    Instruction* own = TRY(StartOf(e_, c.axes, c.part, wide));
    // Padding on both sides: what overlaps the part in part is read at its place.
    operands_[0] = TRY(PadBoth(b, operands_[0], c.dim, sizes[d]));
    Instruction* relative = TRY(b.Add(Op::kSubtract, {start, own}));
    starts[d] = TRY(b.Add(Op::kAdd, {relative, IntConstant(b, wide, sizes[d])}));
    masks_.push_back({c.dim, start, own, c.part});
  }
  for (size_t d = 0; d < starts.size(); ++d) operands_[1 + d] = starts[d];
  return {};
}

Result<Instruction*> IndexedOp::FinishSlice(Instruction* local) {
  for (const Mask& mask : masks_) {
    Builder b = e_.builder();
    Instruction* places = TRY(PlacesFrom(b, mask.start, local->shape(), mask.dim));
    const DType wide = mask.start->shape().dtype();
    Instruction* end = TRY(b.Add(Op::kAdd, {mask.own, IntConstant(b, wide, mask.part)}));
    Instruction* there =
        TRY(Within(b, places, TRY(FillLike(b, mask.own, local)), TRY(FillLike(b, end, local))));
    local = TRY(SelectOrZero(b, there, local));
  }
  return local;
}

// Along dimensions that are cut, the update is read at the places of this device's part, and
// chosen where it is.
Result<Instruction*> IndexedOp::EmitUpdate() {
  std::vector<Instruction*> starts = TRY(StartsAsWide(2));
  Instruction* there = nullptr;
  Instruction* update = operands_[1];
  for (const CutDim& c : dims_) {
    const size_t d = static_cast<size_t>(c.dim);
    Builder b = e_.builder();
    const int64_t size = update->shape().dim(c.dim);
    Instruction* start = TRY(ClampedStart(b, operands_[2 + d], c.size - size));
    const DType wide = start->shape().dtype();
    Instruction* own = TRY(StartOf(e_, c.axes, c.part, wide));
    Instruction* padded = TRY(PadBoth(b, update, c.dim, c.part));
    Instruction* relative = TRY(b.Add(Op::kSubtract, {own, start}));
    Instruction* at = TRY(b.Add(Op::kAdd, {relative, IntConstant(b, wide, c.part)}));
    std::vector<Instruction*> operands = {padded};
    hlo::DynamicSliceAttrs attrs;
    for (int64_t k = 0; k < update->shape().rank(); ++k) {
      operands.push_back(k == c.dim ? at : IntConstant(b, wide, 0));
      attrs.dynamic_slice_sizes.push_back(k == c.dim ? c.part : update->shape().dim(k));
    }
    update = TRY(b.Add(Op::kDynamicSlice, operands, Attrs(std::move(attrs))));
    starts[d] = IntConstant(b, wide, 0);
    masks_.push_back({c.dim, start, own, size});
  }
  Builder b = e_.builder();
  for (const Mask& mask : masks_) {
    Instruction* places = TRY(PlacesFrom(b, mask.own, update->shape(), mask.dim));
    const DType wide = mask.start->shape().dtype();
    Instruction* end = TRY(b.Add(Op::kAdd, {mask.start, IntConstant(b, wide, mask.part)}));
    Instruction* inside =
        TRY(Within(b, places, TRY(FillLike(b, mask.start, update)), TRY(FillLike(b, end, update))));
    there = there == nullptr ? inside : TRY(b.Add(Op::kAnd, {there, inside}));
  }
  // What is there stays where the update is not: along the other dimensions at its place.
  std::vector<Instruction*> read = {operands_[0]};
  read.insert(read.end(), starts.begin(), starts.end());
  hlo::DynamicSliceAttrs attrs;
  for (int64_t k = 0; k < update->shape().rank(); ++k) {
    attrs.dynamic_slice_sizes.push_back(update->shape().dim(k));
  }
  Instruction* old = TRY(b.Add(Op::kDynamicSlice, read, Attrs(std::move(attrs))));
  Instruction* mixed = TRY(b.Add(Op::kSelect, {there, update, old}));
  std::vector<Instruction*> write = {operands_[0], mixed};
  write.insert(write.end(), starts.begin(), starts.end());
  return b.Add(Op::kDynamicUpdateSlice, write, Attrs(GetOp(Op::kDynamicUpdateSlice).attrs));
}

Result<Instruction*> IndexedOp::ByComponent(Instruction* indices, int64_t vector_dim,
                                            std::span<Instruction* const> values) {
  Builder b = e_.builder();
  const Shape shape(indices->shape().dtype(), indices->shape().dims());
  if (vector_dim >= shape.rank()) return FillWith(b, values[0], shape);
  std::vector<Instruction*> ones;
  for (Instruction* value : values) ones.push_back(TRY(b.Reshape(value, Dims{1})));
  Instruction* row = ones[0];
  if (ones.size() > 1) {
    row = TRY(b.Add(Op::kConcatenate, ones, Attrs(hlo::DimensionsAttrs{.dimensions = {0}})));
  }
  return b.Broadcast(row, shape, {vector_dim});
}

// Indices relative to the part of this device. `clamp`: those outside of the array are those of its
// edge, as gather takes them.
Status IndexedOp::ShiftIndices(size_t operand, int64_t vector_dim, const hlo::Ints& map,
                               const hlo::Ints* slice_sizes) {
  const Instruction* whole = i_.operand(static_cast<int64_t>(operand));
  const DType wide = WideIndex(whole->shape().dtype());
  Builder b = e_.builder();
  Instruction* indices = TRY(Widened(b, operands_[operand], wide));
  std::vector<Instruction*> lows, limits, starts, parts;
  for (int64_t dim : map) {
    auto c = std::ranges::find(dims_, dim, &CutDim::dim);
    const int64_t size = i_.operand(0)->shape().dim(dim);
    const int64_t taken = slice_sizes != nullptr ? (*slice_sizes)[static_cast<size_t>(dim)] : 1;
    lows.push_back(IntConstant(b, wide, 0));
    limits.push_back(IntConstant(b, wide, size - taken));
    const bool cut = c != dims_.end();
    starts.push_back(cut ? TRY(StartOf(e_, c->axes, c->part, wide)) : IntConstant(b, wide, 0));
    parts.push_back(IntConstant(b, wide, cut ? c->part : size));
  }
  if (slice_sizes != nullptr) {
    indices = TRY(b.Add(Op::kClamp, {TRY(ByComponent(indices, vector_dim, lows)), indices,
                                     TRY(ByComponent(indices, vector_dim, limits))}));
  }
  indices = TRY(b.Add(Op::kSubtract, {indices, TRY(ByComponent(indices, vector_dim, starts))}));
  operands_[operand] = indices;
  if (slice_sizes == nullptr) return {};
  there_ = TRY(Within(b, indices, TRY(ByComponent(indices, vector_dim, lows)),
                      TRY(ByComponent(indices, vector_dim, parts))));
  if (vector_dim < indices->shape().rank()) {
    Instruction* yes = b.ScalarConstant(DType::kPred, 1);
    hlo::Computation* both = TRY(e_.state().functions.Get(Op::kAnd, DType::kPred));
    there_ = TRY(b.Reduce(there_, yes, {vector_dim}, both));
  }
  return {};
}

Status IndexedOp::PrepareGather() {
  if (dims_.empty()) return {};
  const auto& a = i_.attrs<hlo::GatherAttrs>();
  return ShiftIndices(1, a.index_vector_dim, a.start_index_map, &a.slice_sizes);
}

Result<Instruction*> IndexedOp::FinishGather(Instruction* local) {
  if (there_ == nullptr) return local;
  hlo::Ints batch;
  const hlo::Ints& offsets = i_.attrs<hlo::GatherAttrs>().offset_dims;
  for (int64_t d = 0; d < local->shape().rank(); ++d) {
    if (std::ranges::find(offsets, d) == offsets.end()) batch.push_back(d);
  }
  Builder b = e_.builder();
  Instruction* there = TRY(b.Broadcast(there_, Shape(DType::kPred, local->shape().dims()), batch));
  return SelectOrZero(b, there, local);
}

// Of devices with different updates, one has what was there before; the others' summands begin at
// zero. A maximum or minimum may begin at the same everywhere.
Status IndexedOp::PrepareScatter(AxisSpan reduced) {
  const auto& a = i_.attrs<hlo::ScatterAttrs>();
  const size_t inputs = static_cast<size_t>(i_.operand_count() / 2);
  if (!dims_.empty()) {
    TRY(ShiftIndices(inputs, a.index_vector_dim, a.scatter_dims_to_operand_dims, nullptr));
  }
  const bool sum = SimpleReduction(*a.to_apply) == program::ReduceOp::kAdd;
  if (reduced.empty() || !sum) return {};
  Instruction* index = TRY(e_.IndexAlong(reduced));
  Builder b = e_.builder();
  Instruction* first = TRY(b.Compare(index, b.ScalarConstant(DType::kS32, 0), Direction::kEq));
  operands_[0] = TRY(SelectOrZero(b, TRY(FillLike(b, first, operands_[0])), operands_[0]));
  return {};
}

}  // namespace weft::compiler::spmd
