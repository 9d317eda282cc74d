// Ops along whose cut dimensions elements move.
#include <algorithm>

#include "compiler/spmd/window.h"

namespace weft::compiler::spmd {

using hlo::Attrs;
using hlo::Builder;
using hlo::Direction;
using hlo::FactorKind;
using hlo::Instruction;
using hlo::Op;

bool WindowedOp::IsCut() const {
  for (size_t f = 0; f < cut_.axes.size(); ++f) {
    if (cut_.rule.factors[f].kind == FactorKind::kPermuted && !cut_.axes[f].empty()) return true;
  }
  std::vector<Moved> moved;
  AppendCutWindows(moved);
  return !moved.empty();
}

void WindowedOp::AppendCutWindows(std::vector<Moved>& moved) const {
  if (i_.op() != Op::kConvolution) return;
  const auto& a = i_.attrs<hlo::ConvolutionAttrs>();
  for (size_t s = 0; s < a.window.dims.size(); ++s) {
    const AxisList& axes = WindowAxes(i_, cut_, s);
    if (axes.empty()) continue;
    const hlo::WindowDim& w = a.window.dims[s];
    const int64_t parts = e_.mesh().SizeOf(axes), part = (w.size + parts - 1) / parts;
    const int64_t results = i_.shape().dim(a.dim_labels.output_spatial[s]);
    moved.push_back(
        {.dim = a.dim_labels.input_spatial[s],
         .axes = axes,
         .stretch = {.first = -w.pad_low,
                     .step = part * w.window_dilation,
                     .length = (part - 1) * w.window_dilation + (results - 1) * w.stride + 1}});
  }
}

std::vector<WindowedOp::Moved> WindowedOp::MovedDims(int64_t operand) const {
  std::vector<Moved> moved;
  const hlo::DimRule::Tensor& tensor = cut_.rule.operands[static_cast<size_t>(operand)];
  for (size_t d = 0; d < tensor.size(); ++d) {
    if (tensor[d].size() != 1) continue;
    const size_t f = static_cast<size_t>(tensor[d][0]);
    if (cut_.rule.factors[f].kind != FactorKind::kPermuted || cut_.axes[f].empty()) continue;
    const hlo::DimRule::Tensor& result = cut_.rule.results[0];
    size_t to = 0;
    while (result[to].empty() || result[to][0] != tensor[d][0]) ++to;
    Moved one{.dim = static_cast<int64_t>(d), .axes = cut_.axes[f], .stretch = {}};
    const int64_t part = LeavesOf(shape_)[0]->dim(static_cast<int64_t>(to));
    CHECK(StretchOf(i_, operand, one.dim, part, one.stretch)) << i_.name();
    moved.push_back(std::move(one));
  }
  if (operand == 0) AppendCutWindows(moved);
  return moved;
}

Result<Instruction*> WindowedOp::StartOf(const AxisList& axes, const Stretch& stretch) {
  Instruction* index = TRY(e_.IndexAlong(axes));
  Builder b = e_.builder();
  auto constant = [&](int64_t value) {
    return b.ScalarConstant(DType::kS32, static_cast<double>(value));
  };
  Instruction* by = TRY(b.Add(Op::kMultiply, {index, constant(stretch.step)}));
  return b.Add(Op::kAdd, {by, constant(stretch.first)});
}

// What the senders have, at the receivers; of several lists each receiver takes its own.
Result<Instruction*> WindowedOp::Permuted(Instruction* x, const AxisList& axes,
                                          const WindowPlan::Round& round, int64_t parts) {
  Instruction* all = round.own.empty() ? nullptr : x;
  for (const auto& list : round.pairs) {
    hlo::IntPairs pairs;
    for (const std::vector<int64_t>& group : e_.mesh().Groups(axes)) {
      for (const auto& [from, to] : list) {
        pairs.push_back({group[static_cast<size_t>(from)], group[static_cast<size_t>(to)]});
      }
    }
    Instruction* came = TRY(e_.Permute(x, std::move(pairs)));
    if (all == nullptr) {
      all = came;
      continue;
    }
    std::vector<int64_t> mine(static_cast<size_t>(parts), 0);
    for (const auto& [from, to] : list) mine[static_cast<size_t>(to)] = 1;
    Instruction* flag = TRY(e_.LookUp(axes, mine));
    Builder b = e_.builder();
    flag = TRY(b.Compare(flag, b.ScalarConstant(DType::kS32, 1), Direction::kEq));
    Instruction* where = TRY(FillWith(b, flag, Shape(DType::kPred, came->shape().dims())));
    all = TRY(b.Add(Op::kSelect, {where, came, all}));
  }
  return all;
}

Result<Instruction*> WindowedOp::Window(Instruction* x, const Moved& moved) {
  const int64_t parts = e_.mesh().SizeOf(moved.axes), dim = moved.dim;
  const WindowPlan plan = PlanWindow(x->shape().dim(dim), parts, moved.stretch);
  std::vector<Instruction*> pieces;
  for (const WindowPlan::Round& round : plan.rounds) {
    Instruction* piece = TRY(e_.SliceAlong(x, dim, round.begin, round.end));
    if (!round.local) piece = TRY(Permuted(piece, moved.axes, round, parts));
    pieces.push_back(piece);
  }
  Builder b = e_.builder();
  Instruction* all = pieces[0];
  if (pieces.size() > 1) {
    all = TRY(b.Add(Op::kConcatenate, pieces, Attrs(hlo::DimensionsAttrs{.dimensions = {dim}})));
  }
  const int64_t length = moved.stretch.length;
  if (std::ranges::adjacent_find(plan.offsets, std::not_equal_to<>()) == plan.offsets.end()) {
    return e_.SliceAlong(all, dim, plan.offsets[0], plan.offsets[0] + length);
  }
  Instruction* offset = TRY(e_.LookUp(moved.axes, plan.offsets));
  Instruction* zero = b.ScalarConstant(DType::kS32, 0);
  std::vector<Instruction*> operands = {all};
  hlo::DynamicSliceAttrs attrs;
  for (int64_t d = 0; d < all->shape().rank(); ++d) {
    operands.push_back(d == dim ? offset : zero);
    attrs.dynamic_slice_sizes.push_back(d == dim ? length : all->shape().dim(d));
  }
  return b.Add(Op::kDynamicSlice, operands, Attrs(std::move(attrs)));
}

// Which elements of the stretch are in the dimension, of this size; null: all.
Result<Instruction*> WindowedOp::Inside(const Moved& moved, const Shape& like, int64_t size) {
  const int64_t parts = e_.mesh().SizeOf(moved.axes);
  bool below = false, above = false;
  for (int64_t k = 0; k < parts; ++k) {
    below |= moved.stretch.Start(k) < 0;
    above |= moved.stretch.Start(k) + moved.stretch.length > size;
  }
  if (!below && !above) return nullptr;
  Instruction* start = TRY(StartOf(moved.axes, moved.stretch));
  Builder b = e_.builder();
  Shape shape(DType::kS32, like.dims());
  Instruction* places =
      TRY(b.Add(Op::kIota, {}, Attrs(hlo::IotaAttrs{.iota_dimension = moved.dim}), &shape));
  places = TRY(b.Add(Op::kAdd, {places, TRY(FillWith(b, start, shape))}));
  Instruction* inside = nullptr;
  if (below) inside = TRY(b.Compare(places, TRY(b.Fill(shape, 0)), Direction::kGe));
  if (above) {
    Instruction* end = TRY(b.Fill(shape, static_cast<double>(size)));
    Instruction* before = TRY(b.Compare(places, end, Direction::kLt));
    inside = inside == nullptr ? before : TRY(b.Add(Op::kAnd, {inside, before}));
  }
  return inside;
}

// What the op takes elements outside of the dimension as; null: it reads none.
Instruction* WindowedOp::FillOf(int64_t operand, std::span<Instruction* const> operands) {
  Builder b = e_.builder();
  switch (i_.op()) {
    case Op::kPad: return operands[1];
    case Op::kReduceWindow: return operands[static_cast<size_t>(i_.operand_count() / 2 + operand)];
    case Op::kConvolution: return b.Constant(Literal(Shape::Scalar(operands[0]->shape().dtype())));
    default: return nullptr;
  }
}

Status WindowedOp::Prepare(std::vector<Instruction*>& operands) {
  for (int64_t k = 0; k < i_.operand_count(); ++k) {
    Instruction*& x = operands[static_cast<size_t>(k)];
    for (const Moved& moved : MovedDims(k)) {
      x = TRY(Window(x, moved));
      if (i_.op() == Op::kConcatenate) continue;
      Instruction* fill = FillOf(k, operands);
      if (fill == nullptr) continue;
      Instruction* inside = TRY(Inside(moved, x->shape(), i_.operand(k)->shape().dim(moved.dim)));
      if (inside == nullptr) continue;
      Builder b = e_.builder();
      const Shape shape(x->shape().dtype(), x->shape().dims());
      x = TRY(b.Add(Op::kSelect, {inside, x, TRY(FillWith(b, fill, shape))}));
    }
  }
  return {};
}

// Operands of one element lie whole everywhere: they fill the stretch, of which one place is
// theirs.
Result<Instruction*> WindowedOp::Join(std::span<Instruction* const> operands) {
  const int64_t dim = i_.attrs<hlo::DimensionsAttrs>().dimensions[0];
  const size_t factor = static_cast<size_t>(cut_.rule.results[0][static_cast<size_t>(dim)][0]);
  Instruction* all = nullptr;
  for (int64_t k = 0; k < i_.operand_count(); ++k) {
    const int64_t size = i_.operand(k)->shape().dim(dim);
    if (size == 0) continue;
    Moved moved{.dim = dim, .axes = cut_.axes[factor], .stretch = {}};
    CHECK(StretchOf(i_, k, dim, shape_.dim(dim), moved.stretch)) << i_.name();
    Instruction* x = operands[static_cast<size_t>(k)];
    if (size == 1) x = TRY(Spread(x, dim));
    Instruction* inside = all == nullptr ? nullptr : TRY(Inside(moved, x->shape(), size));
    all = inside == nullptr ? x : TRY(e_.builder().Add(Op::kSelect, {inside, x, all}));
  }
  return all;
}

// The one element along the dimension, in all of the result's part.
Result<Instruction*> WindowedOp::Spread(Instruction* x, int64_t dim) {
  Builder b = e_.builder();
  Dims dims;
  hlo::Ints to;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    if (d == dim) continue;
    dims.push_back(x->shape().dim(d));
    to.push_back(d);
  }
  Instruction* rest = TRY(b.Reshape(x, dims));
  return b.Broadcast(rest, Shape(x->shape().dtype(), shape_.dims()), std::move(to));
}

void WindowedOp::FitAttributes(Instruction& local) const {
  for (const Moved& moved : MovedDims(0)) {
    const size_t d = static_cast<size_t>(moved.dim);
    switch (i_.op()) {
      case Op::kSlice: {
        auto& slice = local.mutable_attrs<hlo::SliceAttrs>().slice[d];
        slice = {0, moved.stretch.length, i_.attrs<hlo::SliceAttrs>().slice[d].stride};
        break;
      }
      case Op::kPad: local.mutable_attrs<hlo::PadAttrs>().padding[d] = {}; break;
      case Op::kReduceWindow: {
        hlo::WindowDim& w = local.mutable_attrs<hlo::ReduceWindowAttrs>().window.dims[d];
        w.pad_low = moved.stretch.pad_low;
        w.pad_high = moved.stretch.pad_high;
        break;
      }
      case Op::kConvolution: {
        auto& a = local.mutable_attrs<hlo::ConvolutionAttrs>();
        const auto& spatial = a.dim_labels.input_spatial;
        const auto s = std::ranges::find(spatial, moved.dim) - spatial.begin();
        hlo::WindowDim& w = a.window.dims[static_cast<size_t>(s)];
        w.size = local.operand(1)->shape().dim(a.dim_labels.kernel_spatial[static_cast<size_t>(s)]);
        w.pad_low = moved.stretch.pad_low;
        w.pad_high = moved.stretch.pad_high;
        break;
      }
      default: break;
    }
  }
}

}  // namespace weft::compiler::spmd
