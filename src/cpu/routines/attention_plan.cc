#include "cpu/routines/attention_plan.h"

#include <algorithm>

#include "cpu/routines/blocking.h"
#include "cpu/routines/tiles.h"
#include "program/sum_order.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

// Limits of the algorithm: sums are cut by them, so that they are the same on every machine.
// A panel of so few would be empty for the most part.
constexpr int64_t kFewColumns = program::TargetFacts::kNarrowLanes;
// Keys whose scores are there at once: they stay in L1.
constexpr int64_t kKeyBlock = program::SumOrder::kPairs * program::SumOrder::kRun;
// Below, combining costs more than another thread gains.
constexpr int64_t kLeastChunk = 2 * program::SumOrder::kBlock;
// Panels that one reading of keys and values serves.
constexpr int64_t kMostAtOnce = program::CodeBounds::kCopies;

}  // namespace

AttentionPlaces AttentionPlan::PlacesAt(const std::vector<size_t>& axes, int64_t index) const {
  AttentionPlaces at;
  auto stride = [](const program::AttentionForm::Operand& operand, size_t axis) {
    return operand.axes.empty() ? 0 : operand.axes[axis];
  };
  for (size_t i = axes.size(); i-- > 0;) {
    size_t axis = axes[i];
    int64_t x = index % form.axes[axis];
    index /= form.axes[axis];
    at.q += x * form.q.axes[axis];
    at.k += x * form.k.axes[axis];
    at.v += x * form.v.axes[axis];
    at.out += x * form.out.axes[axis];
    at.bias += x * stride(form.bias, axis);
    at.mask += x * stride(form.mask, axis);
    at.dout += x * stride(form.dout, axis);
    at.dq += x * stride(form.dq, axis);
    at.dk += x * stride(form.dk, axis);
    at.dv += x * stride(form.dv, axis);
    int64_t rows = x;
    for (size_t inner = axis + 1; inner < form.axes.size(); ++inner) rows *= form.axes[inner];
    at.row += rows;
    if (static_cast<int64_t>(axis) == form.query_axis) at.position += x;
  }
  return at;
}

AttentionPlan PlanAttention(const program::AttentionForm& form, bool may_be_few) {
  AttentionPlan plan;
  plan.form = form;
  for (size_t i = 0; i < form.axes.size(); ++i) {
    bool differs = form.axes[i] > 1 && (form.k.axes[i] != 0 || form.v.axes[i] != 0);
    (differs ? plan.outer_axes : plan.column_axes).push_back(i);
    (differs ? plan.outers : plan.columns) *= form.axes[i];
  }
  plan.few = may_be_few && plan.columns <= kFewColumns;
  const TileKernel<float>& tile = TileKernelFor<float>(plan.columns);
  plan.width = plan.few ? plan.columns : tile.cols;
  plan.rows = plan.few ? 1 : tile.rows;
  plan.panels = CeilDiv(plan.columns, plan.width);
  plan.at_once = std::clamp<int64_t>(plan.outers * plan.panels / (2 * AttentionPlan::kManyTasks), 1,
                                     kMostAtOnce);
  plan.key_block = RoundUp(kKeyBlock, plan.rows);
  int64_t tasks = plan.outers * plan.groups();
  int64_t wanted = CeilDiv(form.keys * tasks, AttentionPlan::kManyTasks);
  plan.chunk = RoundUp(std::clamp(wanted, kLeastChunk, AttentionPlan::kMostChunk), plan.key_block);
  if (tasks >= AttentionPlan::kManyTasks)
    plan.chunk = RoundUp(AttentionPlan::kMostChunk, plan.key_block);
  plan.chunks = CeilDiv(form.keys, plan.chunk);
  return plan;
}

}  // namespace weft::cpu
