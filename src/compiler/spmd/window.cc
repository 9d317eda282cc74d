// Which parts of a dimension hold what a device reads of it.
#include "compiler/spmd/window.h"

#include <algorithm>

namespace weft::compiler::spmd {
namespace {

using hlo::FactorKind;
using hlo::Instruction;
using hlo::Op;

int64_t FloorDiv(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

// The pairs in as few lists as there are receivers of the part that most want.
void AddPair(WindowPlan::Round& round, int64_t from, int64_t to) {
  for (auto& list : round.pairs) {
    if (std::ranges::find(list, from, &std::pair<int64_t, int64_t>::first) == list.end()) {
      list.emplace_back(from, to);
      return;
    }
  }
  round.pairs.push_back({{from, to}});
}

// By windows of the dimension.
bool WindowStretch(const hlo::WindowDim& w, int64_t part, Stretch& stretch) {
  const int64_t apart = w.base_dilation, begin = -w.pad_low;
  const int64_t end = begin + (part - 1) * w.stride + (w.size - 1) * w.window_dilation;
  // Every device's windows have to begin alike between elements that stand apart.
  if (part * w.stride % apart != 0) return false;
  const int64_t first = FloorDiv(begin + apart - 1, apart), last = FloorDiv(end, apart);
  stretch = {.first = first,
             .step = part * w.stride / apart,
             .length = last - first + 1,
             .pad_low = first * apart - begin,
             .pad_high = end - last * apart};
  return last >= first;
}

int64_t CeilPart(int64_t size, int64_t parts) {
  return (size + parts - 1) / parts;
}

// The size of the result's dimension that has the factor; 0: none.
int64_t ResultSize(const Instruction& i, const hlo::DimRule& rule, int factor) {
  const Shape& shape = *LeavesOf(i.shape())[0];
  for (size_t d = 0; d < rule.results[0].size(); ++d) {
    const hlo::DimRule::Dim& dim = rule.results[0][d];
    if (dim.size() == 1 && dim[0] == factor) return shape.dim(static_cast<int64_t>(d));
  }
  return 0;
}

}  // namespace

WindowPlan PlanWindow(int64_t part, int64_t parts, const Stretch& stretch) {
  WindowPlan plan;
  // Blocks of the size of a part, from the first to the last that the stretch touches.
  int64_t rounds = 0, begin = part, end = 0;
  for (int64_t k = 0; k < parts; ++k) {
    const int64_t start = stretch.Start(k), first = FloorDiv(start, part);
    rounds = std::max(rounds, FloorDiv(start + stretch.length - 1, part) - first + 1);
    begin = std::min(begin, start - first * part);
  }
  for (int64_t k = 0; k < parts; ++k) {
    const int64_t start = stretch.Start(k), first = FloorDiv(start, part);
    plan.offsets.push_back(start - first * part - begin);
    const int64_t behind = start + stretch.length - (first + rounds - 1) * part;
    end = std::max(end, behind);
  }
  for (int64_t r = 0; r < rounds; ++r) {
    WindowPlan::Round round;
    round.begin = r == 0 ? begin : 0;
    round.end = r + 1 == rounds ? end : part;
    for (int64_t k = 0; k < parts; ++k) {
      const int64_t start = stretch.Start(k), from = FloorDiv(start, part) + r;
      if (from < 0 || from >= parts || from * part >= start + stretch.length) continue;
      if (from == k) {
        round.own.push_back(k);
      } else {
        AddPair(round, from, k);
      }
    }
    round.local = round.pairs.empty();
    if (!round.local) {
      plan.moved += std::ssize(round.pairs) * (round.end - round.begin);
    }
    plan.rounds.push_back(std::move(round));
  }
  return plan;
}

bool StretchOf(const Instruction& i, int64_t operand, int64_t dim, int64_t part, Stretch& stretch) {
  const size_t d = static_cast<size_t>(dim);
  switch (i.op()) {
    case Op::kSlice: {
      const auto& s = i.attrs<hlo::SliceAttrs>().slice[d];
      stretch = {s.start, part * s.stride, (part - 1) * s.stride + 1};
      return true;
    }
    case Op::kPad: {
      const hlo::PaddingDim& padding = i.attrs<hlo::PadAttrs>().padding[d];
      stretch = {-padding.low, part, part};
      return padding.interior == 0;
    }
    case Op::kReverse: stretch = {i.shape().dim(dim) - part, -part, part}; return true;
    case Op::kConcatenate: {
      int64_t offset = 0;
      for (int64_t k = 0; k < operand; ++k) offset += i.operand(k)->shape().dim(dim);
      stretch = {-offset, part, part};
      return true;
    }
    case Op::kReduceWindow:
      return WindowStretch(i.attrs<hlo::ReduceWindowAttrs>().window.dims[d], part, stretch);
    case Op::kConvolution: {
      const auto& a = i.attrs<hlo::ConvolutionAttrs>();
      const auto& spatial = a.dim_labels.input_spatial;
      const auto s = std::ranges::find(spatial, dim);
      if (operand != 0 || s == spatial.end()) return false;
      return WindowStretch(a.window.dims[static_cast<size_t>(s - spatial.begin())], part, stretch);
    }
    default: return false;
  }
}

Rotation RotationOf(const Instruction& i) {
  if (i.op() != Op::kConcatenate || i.operand_count() != 2) return {};
  const int64_t dim = i.attrs<hlo::DimensionsAttrs>().dimensions[0], size = i.shape().dim(dim);
  const Instruction *front = i.operand(0), *back = i.operand(1);
  if (front->op() != Op::kSlice || back->op() != Op::kSlice) return {};
  const Instruction* of = front->operand(0);
  if (back->operand(0) != of || of->shape().dims() != i.shape().dims()) return {};
  const int64_t by = back->shape().dim(dim);
  const size_t d = static_cast<size_t>(dim);
  // What they have of the other dimensions is all of them, since the sizes are the same.
  const hlo::SliceDim &a = front->attrs<hlo::SliceAttrs>().slice[d],
                      &z = back->attrs<hlo::SliceAttrs>().slice[d];
  const bool turns = a.start == by && a.limit == size && a.stride == 1 && z.start == 0 &&
                     z.limit == by && z.stride == 1;
  return turns ? Rotation{of, dim, by} : Rotation{};
}

const AxisList& WindowAxes(const Instruction& i, const Cut& cut, size_t s) {
  static const AxisList kNone{};
  const int64_t dim = i.attrs<hlo::ConvolutionAttrs>().dim_labels.kernel_spatial[s];
  const hlo::DimRule::Dim& factors = cut.rule.operands[1][static_cast<size_t>(dim)];
  if (factors.size() != 1) return kNone;
  const size_t f = static_cast<size_t>(factors[0]);
  return cut.rule.factors[f].kind == FactorKind::kReduced ? cut.axes[f] : kNone;
}

Form OperandForm(const Instruction& i, const Cut& cut, int64_t operand, const DeviceMesh& mesh) {
  Form form = cut.FormOf(cut.rule.operands[static_cast<size_t>(operand)], mesh);
  if (i.op() != Op::kConvolution || operand != 0) return form;
  const auto& a = i.attrs<hlo::ConvolutionAttrs>();
  for (size_t s = 0; s < a.window.dims.size(); ++s) {
    const AxisList& axes = WindowAxes(i, cut, s);
    if (!axes.empty()) form.dims[static_cast<size_t>(a.dim_labels.input_spatial[s])].axes = axes;
  }
  return form;
}

bool MovesCheaply(const Instruction& i, const hlo::DimRule& rule, int factor, int64_t parts) {
  const int64_t result = ResultSize(i, rule, factor);
  if (result == 0) return false;
  const int64_t cumulative = CumulativeDim(i);
  if (cumulative >= 0 &&
      rule.operands[0][static_cast<size_t>(cumulative)] == hlo::DimRule::Dim{factor}) {
    return HasRepeatableReduction(i);
  }
  double moved = 0, gathered = 0;
  for (size_t k = 0; k < rule.operands.size(); ++k) {
    const Shape& shape = i.operand(static_cast<int64_t>(k))->shape();
    for (size_t d = 0; d < rule.operands[k].size(); ++d) {
      const hlo::DimRule::Dim& dim = rule.operands[k][d];
      if (dim.empty() || dim[0] != factor) continue;
      const int64_t size = shape.dim(static_cast<int64_t>(d)), part = CeilPart(size, parts);
      Stretch stretch;
      const bool known = StretchOf(i, static_cast<int64_t>(k), static_cast<int64_t>(d),
                                   CeilPart(result, parts), stretch);
      // A stretch of many parts is most of the dimension.
      if (!known || stretch.length > part * parts) return false;
      const double row = static_cast<double>(shape.ByteSize()) / static_cast<double>(size);
      moved += row * static_cast<double>(PlanWindow(part, parts, stretch).moved);
      gathered += row * static_cast<double>(part * (parts - 1));
    }
  }
  return moved < gathered;
}

}  // namespace weft::compiler::spmd
