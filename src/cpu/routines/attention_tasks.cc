// The tasks of attention by panels: groups of panels that go through all keys, or through a chunk
// of them, the sums of which are combined in order.
#include <algorithm>

#include "cpu/routines/attention_panels.h"

namespace weft::cpu {

Status PanelAttention::RunTasks() {
  int64_t groups = plan_.groups();
  return TryPieces(
      means_.pool, plan_.outers * groups, CostOf(form_.keys),
      [&](int64_t begin, int64_t end) -> Status {
        auto scratch = TRY(Scratch<float>::New(means_, TaskElements(plan_)));
        for (int64_t i = begin; i < end; ++i) {
          // Late queries, which meet most keys where these are bounded, come first.
          int64_t outer = i / groups, group = groups - 1 - i % groups;
          Task task = NewTask(scratch.data(), outer, group);
          bool leaves_out = MayLeaveOut(outer);
          RunKeys(task, outer, {0, form_.keys}, leaves_out);
          auto inexact = [&](const QueryPanel& panel) { return !IsExact(panel); };
          if (leaves_out && std::any_of(task.panels.begin(), task.panels.end(), inexact)) {
            RunKeys(task, outer, {0, form_.keys}, false);
          }
          for (const QueryPanel& panel : task.panels) Store(task, panel);
        }
        return {};
      });
}

void PanelAttention::KeepChunk(const Task& task, int64_t outer, int64_t chunk) const {
  for (const QueryPanel& panel : task.panels) {
    float* to = Part(outer, panel, chunk);
    auto* sums = reinterpret_cast<ChunkSums*>(to);
    for (int64_t c = 0; c < plan_.width; ++c) sums[c] = {panel.largest[c], panel.sums[c]};
    std::copy_n(panel.out, plan_.value_rows() * plan_.width, to + SumsElements());
  }
}

void PanelAttention::CombinePanel(QueryPanel& panel, int64_t outer) const {
  int64_t w = plan_.width, size = ChunkElements(plan_);
  std::vector<double> factors(static_cast<size_t>(w * plan_.chunks));
  const float* from = Part(outer, panel, 0);
  for (int64_t c = 0; c < w; ++c) {
    ChunkSums all = CombineChunks(reinterpret_cast<const ChunkSums*>(from) + c, plan_.chunks,
                                  size * 4, factors.data() + c * plan_.chunks);
    panel.largest[c] = all.largest;
    panel.sums[c] = all.sum;
  }
  for (int64_t j = 0; j < plan_.value_rows() * w; ++j) {
    double sum = 0;
    for (int64_t chunk = 0; chunk < plan_.chunks; ++chunk) {
      sum += factors[static_cast<size_t>(j % w * plan_.chunks + chunk)] *
             from[chunk * size + SumsElements() + j];
    }
    panel.out[j] = static_cast<float>(sum);
  }
}

Status PanelAttention::RunChunks() {
  int64_t groups = plan_.groups();
  auto run = [&](int64_t begin, int64_t end) -> Status {
    auto scratch = TRY(Scratch<float>::New(means_, TaskElements(plan_)));
    for (int64_t i = begin; i < end; ++i) {
      int64_t chunk = i % plan_.chunks, group = i / plan_.chunks % groups;
      int64_t outer = i / plan_.chunks / groups, from = chunk * plan_.chunk;
      Task task = NewTask(scratch.data(), outer, group);
      KeyRange keys = {from, std::min(form_.keys, from + plan_.chunk)};
      RunKeys(task, outer, keys, MayLeaveOut(outer));
      KeepChunk(task, outer, chunk);
    }
    return {};
  };
  TRY(TryPieces(means_.pool, plan_.outers * groups * plan_.chunks, CostOf(plan_.chunk), run));
  auto combine = [&](int64_t begin, int64_t end) -> Status {
    auto scratch = TRY(Scratch<float>::New(means_, TaskElements(plan_)));
    for (int64_t i = begin; i < end; ++i) {
      int64_t outer = i / groups;
      Task task = NewTask(scratch.data(), outer, i % groups);
      bool exact = true;
      for (QueryPanel& panel : task.panels) {
        CombinePanel(panel, outer);
        exact &= IsExact(panel);
      }
      if (MayLeaveOut(outer) && !exact) RunKeys(task, outer, {0, form_.keys}, false);
      for (const QueryPanel& panel : task.panels) Store(task, panel);
    }
    return {};
  };
  double each = static_cast<double>(plan_.chunks * plan_.value_rows() * plan_.width);
  return TryPieces(means_.pool, plan_.outers * groups, each, combine);
}

Status PanelAttention::Run() {
  int64_t parts = plan_.outers * plan_.panels * plan_.chunks * ChunkElements(plan_);
  auto shared = TRY(Scratch<float>::New(means_, SharedElements(plan_) + parts));
  keys_ = shared.data();
  values_ = keys_ + RoundUp(plan_.outers * plan_.key_groups() * plan_.rows * form_.depth, 16);
  parts_ = values_ + RoundUp(plan_.outers * form_.keys * plan_.value_rows(), 16);
  not_finite_.resize(static_cast<size_t>(plan_.outers * blocks()));
  double cost = static_cast<double>(plan_.key_block * (form_.depth + form_.values)) / 2;
  ForPieces(means_.pool, plan_.outers * blocks(), cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) PackBlock(i / blocks(), i % blocks());
  });
  return plan_.chunks == 1 ? RunTasks() : RunChunks();
}

Status AttendByPanels(const Means& means, const AttentionPlan& plan,
                      const AttentionMemory& memory) {
  return PanelAttention(means, plan, memory).Run();
}

int64_t PanelsScratch(const AttentionPlan& plan, int64_t threads) {
  int64_t tasks = plan.outers * plan.groups() * plan.chunks;
  int64_t parts = plan.outers * plan.panels * plan.chunks * PanelAttention::ChunkElements(plan);
  return 4 * (PanelAttention::SharedElements(plan) + parts +
              std::min(threads, tasks) * PanelAttention::TaskElements(plan));
}

}  // namespace weft::cpu
