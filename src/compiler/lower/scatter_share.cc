#include "compiler/lower/scatter_share.h"

#include <algorithm>

#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;

namespace {

// Elements of the minor window dimension a thread takes.
constexpr int64_t kWindowPiece = program::CodeBounds::kShortLoop;

// The longest dimension that indices move windows of one element along: updates of one place along
// it never meet those of another. -1: there is none.
int64_t DimensionOfPlaces(const Instruction& scatter, const ScatterDims& dims) {
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  const Shape& shape = scatter.operand(0)->shape();
  int64_t longest = -1;
  for (int64_t d : attrs.scatter_dims_to_operand_dims) {
    if (!dims.IsOneAlong(d)) continue;
    if (longest < 0 || shape.dim(d) > shape.dim(longest)) longest = d;
  }
  return longest;
}

}  // namespace

double WorkOf(const ScatterDims& dims) {
  return static_cast<double>(dims.updates) * static_cast<double>(dims.window_elements);
}

int64_t ColumnsOfThread(const LowerContext& cx, const Instruction& scatter,
                        const ScatterDims& dims) {
  int64_t minor = dims.minor();
  bool shared = !cx.serial && WorkOf(dims) > 4 * cx.target.WorkOfPiece() &&
                minor >= 2 * kWindowPiece && minor % kWindowPiece == 0 &&
                dims.ColumnsApart(scatter);
  return shared ? kWindowPiece : minor;
}

// Whether a thread gets an update is a branch, which is mispredicted unless indices are sorted: the
// windows must be worth it.
ScatterShare ShareOf(const LowerContext& cx, const Instruction& scatter, const ScatterDims& dims) {
  constexpr double kWorkOfIndex = program::TargetFacts::kUsualLanes;  // beside its window's
  ScatterShare share{ColumnsOfThread(cx, scatter, dims)};
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  double work = WorkOf(dims) + kWorkOfIndex * static_cast<double>(dims.updates);
  int64_t least = attrs.indices_are_sorted ? program::TargetFacts::kUsualLanes
                                           : 4 * program::TargetFacts::kUsualLanes;
  if (cx.serial || attrs.unique_indices || share.columns < dims.minor() ||
      dims.window_elements < least || work < 4 * cx.target.WorkOfPiece()) {
    return share;
  }
  int64_t dim = DimensionOfPlaces(scatter, dims);
  if (dim < 0) return share;
  int64_t places = scatter.operand(0)->shape().dim(dim);
  int64_t ranges = std::min({cx.target.cores, program::TargetFacts::kJoinedPieces,
                             places / program::TargetFacts::kUsualLanes});
  if (ranges < 2) return share;
  share.dim = dim;
  share.ranges = ranges;
  share.size = (places + ranges - 1) / ranges;
  return share;
}

Status SharedUpdates(KernelBuilder& b, ScatterLoops& loops, const ScatterDims& dims,
                     const ScatterShare& share, ValueId first, ValueId last) {
  int64_t parts = std::max(dims.minor() / share.columns, share.ranges);
  if (parts > 1) {
    ValueId p = b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(parts), b.Int(1))[0];
    if (share.ranges > 1) {
      loops.set_range(share.dim, b.Mul(p, b.Int(share.size)), share.size);
    } else {
      loops.set_columns(b.Mul(p, b.Int(share.columns)), share.columns);
    }
  }
  if (dims.updates > 1) {
    TRY(loops.Range(first, last));
  } else {
    TRY(loops.Update(b.Int(0)));
  }
  if (parts > 1) b.End();
  return {};
}

}  // namespace weft::compiler
