// Ops that move elements: reshape, broadcast, transpose, reverse, slice.
#include <algorithm>

#include "compiler/analysis/queries.h"
#include "compiler/lower/element/ops.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

// Whether a reshape takes coordinates apart, by division.
bool SplitsDimensions(const Dims& from, const Dims& to) {
  auto splits = [&](const DimRun& run) {
    auto more = [](int64_t d) { return d > 1; };
    return std::count_if(to.begin() + run.to_begin, to.begin() + run.to_end, more) > 1;
  };
  std::vector<DimRun> runs = MatchDims(from, to);
  return std::any_of(runs.begin(), runs.end(), splits);
}

// `row_from`: dimensions from there on are a row, through which an index goes in the last of them.
bool ReadsInOrderWithin(const ElementContext& e, const Instruction& i, int64_t row_from,
                        int& budget) {
  if (--budget < 0 || e.places.contains(&i) || e.arguments.contains(&i)) return false;
  if (e.bound.contains(&i) || i.shape().elements() == 1) return true;
  if (i.op() == HloOp::kBroadcast) {
    const auto& dims = i.attrs<hlo::BroadcastAttrs>().dimensions;
    return i.operand(0)->shape().elements() == 1 ||
           std::ranges::all_of(dims, [&](int64_t d) { return d < row_from; });
  }
  bool moves = i.op() == HloOp::kReshape || i.op() == HloOp::kBitcast;
  bool same = hlo::IsElementwise(i.op()) || i.op() == HloOp::kCopy || (moves && row_from == 0);
  return same && i.operand_count() > 0 &&
         std::ranges::all_of(i.operands(), [&](const Instruction* operand) {
           return ReadsInOrderWithin(e, *operand, row_from, budget);
         });
}

}  // namespace

// Dimensions are matched in groups of equal element count, so that most coordinates carry over.
Index ReshapedIndex(ElementContext& e, const Shape& from, const Shape& to, const Index& index) {
  if (index.is_linear) return index;
  Index result;
  result.coords.resize(to.dims().size());
  const Dims &a = from.dims(), &b = to.dims();
  for (const DimRun& run : MatchDims(a, b)) {
    auto i0 = static_cast<size_t>(run.from_begin), i = static_cast<size_t>(run.from_end);
    auto j0 = static_cast<size_t>(run.to_begin), j = static_cast<size_t>(run.to_end);
    if (j == j0) continue;  // only dimensions of size 1 left on this side
    Index part;
    for (size_t k = i0; k < i; ++k) part.coords.push_back(index.coords[k]);
    Index linear;
    linear.is_linear = true;
    linear.linear = LinearCoord(e, std::span(a.data() + i0, i - i0), part);
    Index split = Coordinates(e, std::span(b.data() + j0, j - j0), linear);
    for (size_t k = j0; k < j; ++k) result.coords[k] = split.coords[k - j0];
  }
  return result;
}

namespace {

// Where an element of a transpose, reverse or slice stands in the operand.
Status MoveIndex(ElementContext& e, const Instruction& instruction, const Index& at, Index& moved) {
  switch (instruction.op()) {
    case HloOp::kTranspose: {
      const auto& dims = instruction.attrs<hlo::DimensionsAttrs>().dimensions;
      for (size_t i = 0; i < moved.coords.size(); ++i) {
        moved.coords[static_cast<size_t>(dims[i])] = at.coords[i];
      }
      return {};
    }
    case HloOp::kReverse: {
      moved.coords = at.coords;
      for (int64_t d : instruction.attrs<hlo::DimensionsAttrs>().dimensions) {
        Coord& c = moved.coords[static_cast<size_t>(d)];
        c = AddConstant(e, ScaleCoord(e, c, -1), instruction.shape().dim(d) - 1);
      }
      return {};
    }
    case HloOp::kSlice: {
      const auto& slice = instruction.attrs<hlo::SliceAttrs>().slice;
      for (size_t i = 0; i < moved.coords.size(); ++i) {
        moved.coords[i] =
            AddConstant(e, ScaleCoord(e, at.coords[i], slice[i].stride), slice[i].start);
      }
      return {};
    }
    default:
      return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering inside a kernel");
  }
}

}  // namespace

bool ReadsInOrder(const ElementContext& e, const Instruction& i, int64_t row_from) {
  int budget = 40;  // instructions to look at
  return ReadsInOrderWithin(e, i, row_from, budget);
}

// Ops whose element is an element of the operand, at another index.
Result<Element> EmitMoved(ElementContext& e, const Instruction& instruction, const Index& index) {
  if (instruction.operand_count() == 0) {
    return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering inside a kernel");
  }
  const Shape& shape = instruction.shape();
  if (instruction.operand_count() == 0 || !instruction.operand(0)->shape().IsArray()) {
    return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering");
  }
  const Instruction& operand = *instruction.operand(0);
  const Dims& from = operand.shape().dims();
  switch (instruction.op()) {
    case HloOp::kCopy:
    case HloOp::kOptBarrier: return EmitElement(e, operand, index);
    case HloOp::kReshape:
    case HloOp::kBitcast: {
      if (index.is_linear || !SplitsDimensions(shape.dims(), from) || !ReadsInOrder(e, operand)) {
        return EmitElement(e, operand, ReshapedIndex(e, shape, operand.shape(), index));
      }
      Index linear;
      linear.is_linear = true;
      linear.linear = LinearCoord(e, shape.dims(), index);
      return EmitElement(e, operand, linear);
    }
    default: break;
  }
  Index moved;
  moved.coords.resize(from.size());
  if (instruction.op() == HloOp::kBroadcast) {
    const auto& dims = instruction.attrs<hlo::BroadcastAttrs>().dimensions;
    for (size_t i = 0; i < from.size(); ++i) {
      moved.coords[i] = from[i] == 1
                            ? ConstantCoord(e, 0)
                            : CoordinateAt(e, shape.dims(), index, static_cast<size_t>(dims[i]));
    }
    return EmitElement(e, operand, moved);
  }
  TRY(MoveIndex(e, instruction, Coordinates(e, shape.dims(), index), moved));
  return EmitElement(e, operand, moved);
}

}  // namespace weft::compiler
