// Packing, and one block of keys after the other.
#include "cpu/routines/attention_panels.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace weft::cpu {
namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

}  // namespace

int64_t PanelAttention::SharedElements(const AttentionPlan& plan) {
  const auto& form = plan.form;
  return plan.outers *
             (plan.key_groups() * plan.rows * form.depth + form.keys * plan.value_rows()) +
         32;
}

int64_t PanelAttention::TaskElements(const AttentionPlan& plan) {
  int64_t w = RoundUp(plan.width, 16);
  int64_t block = plan.key_block * w;
  int64_t panel = (plan.form.depth + plan.value_rows() + 8) * w;
  return 3 * block + 2 * w + std::max(plan.form.values, plan.value_rows()) * w +
         plan.at_once * panel + 256;
}

// Of one panel of one chunk: maxima and sums as ChunkSums, then what they are of.
int64_t PanelAttention::ChunkElements(const AttentionPlan& plan) {
  if (plan.chunks == 1) return 0;
  return RoundUp(plan.width * int64_t{sizeof(ChunkSums)} / 4, 16) + plan.value_rows() * plan.width;
}

const NarrowKernel* PanelAttention::FindNarrow(const AttentionPlan& plan) {
  const NarrowKernel* kernel = FindNarrowKernel(plan.q, plan.k);
  if (kernel == nullptr || kernel->element != NarrowElement::kBf16) return nullptr;
  bool fits = kernel->rows == plan.rows && kernel->cols == plan.width && kernel->enter == nullptr &&
              plan.form.depth % kernel->step == 0 && kernel->a_group == kernel->b_group;
  return fits && kernel->speed > TileForm<float>(plan.columns).speed ? kernel : nullptr;
}

void PanelAttention::NarrowQueries(float* q) const {
  constexpr int64_t kMostWords = kMostTile / 16;
  int64_t group = narrow_->b_group, w = plan_.width;
  auto* to = reinterpret_cast<std::byte*>(q);
  uint16_t words[kMostWords];
  CHECK(group * w <= kMostWords);
  for (int64_t d = 0; d < form_.depth; d += group, to += group * w * 2) {
    for (int64_t at = 0; at < group * w; ++at) {
      uint32_t bits;
      std::memcpy(&bits, q + (d + at % group) * w + at / group, sizeof(bits));
      words[at] = static_cast<uint16_t>(bits >> 16);
    }
    std::memcpy(to, words, static_cast<size_t>(group * w * 2));
  }
}

// scores[s][i] of the keys and of all queries of a panel.
void PanelAttention::MultiplyKeys(const QueryPanel& panel, int64_t outer, KeyRange keys,
                                  float* scores) const {
  int64_t w = plan_.width, count = keys.end - keys.begin;
  auto scale = static_cast<float>(form_.scale);
  for (int64_t i = 0; i < count; i += plan_.rows) {
    const float* rows = Keys(outer, keys.begin + i);
    float* to = scores + i * w;
    if (narrow_ == nullptr) {
      tile_.packed(form_.depth, rows, panel.q, to, w, scale, 0);
      continue;
    }
    narrow_->run(form_.depth, reinterpret_cast<const std::byte*>(rows),
                 reinterpret_cast<const std::byte*>(panel.q), reinterpret_cast<std::byte*>(to), w,
                 false);
    for (int64_t x = 0; x < plan_.rows * w; ++x) to[x] *= scale;
  }
}

void PanelAttention::PackBlock(int64_t outer, int64_t block) {
  AttentionPlaces at = plan_.Outer(outer);
  int64_t key = block * plan_.key_block, count = std::min(plan_.key_block, form_.keys - key);
  const std::byte* from = memory_.k + at.k * ByteWidth(plan_.k);
  int64_t panel = plan_.rows * form_.depth;
  if (narrow_ != nullptr) {
    PackNarrow(*narrow_, true, {plan_.k, from, form_.k.key, form_.k.element}, plan_.q, key, count,
               0, form_.depth, panel * int64_t{sizeof(float)},
               reinterpret_cast<std::byte*>(Keys(outer, key)));
  } else {
    StridedPanels<float>(plan_.k, from, form_.k.key, form_.k.element)
        .PackMany(key, count, 0, form_.depth, plan_.rows, panel, Keys(outer, key));
  }
  StridedPanels<float> values(plan_.v, memory_.v + at.v * ByteWidth(plan_.v), form_.v.element,
                              form_.v.key);
  float* to = Values(outer, key);
  values.PackMany(0, form_.values, key, count, plan_.rows, plan_.rows * count, to);
  if (!plan_.has_bounds()) return;
  uint32_t largest = 0;
  for (int64_t i = 0; i < count * plan_.value_rows(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, to + i, sizeof(bits));
    largest = std::max(largest, bits & 0x7FFFFFFFU);
  }
  not_finite_[static_cast<size_t>(outer * blocks() + block)] = largest >= 0x7F800000U;
}

bool PanelAttention::MayLeaveOut(int64_t outer) const {
  if (!plan_.has_bounds()) return false;
  auto begin = not_finite_.begin() + outer * blocks();
  return std::find(begin, begin + blocks(), 1) == begin + blocks();
}

PanelAttention::Task PanelAttention::NewTask(float* scratch, int64_t outer, int64_t group) const {
  Task task;
  PartsOfScratch parts(scratch);
  int64_t w = plan_.width;
  task.buffers.scores = parts.Take(plan_.key_block * w);
  task.buffers.rows = parts.Take(plan_.key_block * w);
  task.buffers.turned = parts.Take(std::max(plan_.key_block, plan_.value_rows()) * w);
  task.factors = parts.Take(w);
  task.places.resize(static_cast<size_t>(plan_.at_once * w));
  int64_t first = group * plan_.at_once;
  for (int64_t p = first; p < std::min(first + plan_.at_once, plan_.panels); ++p) {
    QueryPanel panel;
    panel.first = p * w;
    panel.count = std::min(w, plan_.columns - panel.first);
    panel.q = parts.Take(form_.depth * w);
    panel.at = task.places.data() + (p - first) * w;
    panel.low = reinterpret_cast<int32_t*>(parts.Take(w));
    panel.high = reinterpret_cast<int32_t*>(parts.Take(w));
    panel.sums = reinterpret_cast<double*>(parts.Take(2 * w));
    panel.largest = parts.Take(w);
    panel.out = parts.Take(plan_.value_rows() * w);
    PlaceQueries(panel, outer);
    LoadQueries(task.buffers, panel, plan_.q, memory_.q, &AttentionPlaces::q, form_.q.element,
                form_.depth, panel.q);
    if (narrow_ != nullptr) NarrowQueries(panel.q);
    task.panels.push_back(panel);
  }
  return task;
}

// All panels of the task, one block of keys after the other.
void PanelAttention::RunKeys(Task& task, int64_t outer, KeyRange keys, bool leaves_out) const {
  for (QueryPanel& panel : task.panels) {
    panel.started = false;
    std::fill_n(panel.largest, plan_.width, kNoScore);
    std::fill_n(panel.sums, plan_.width, 0.0);
  }
  for (int64_t key = keys.begin; key < keys.end; key += plan_.key_block) {
    KeyRange block = {key, std::min(key + plan_.key_block, keys.end)};
    for (QueryPanel& panel : task.panels) {
      if (leaves_out && IsOutside(panel, block)) continue;
      RunBlock(task, panel, outer, block);
    }
  }
  for (QueryPanel& panel : task.panels) {
    if (!panel.started) std::fill_n(panel.out, plan_.value_rows() * plan_.width, 0.0F);
  }
}

void PanelAttention::RunBlock(Task& task, QueryPanel& panel, int64_t outer, KeyRange keys) const {
  int64_t w = plan_.width, count = keys.end - keys.begin;
  float* scores = task.buffers.scores;
  MultiplyKeys(panel, outer, keys, scores);
  ChangeScores(task.buffers, panel, keys);
  softmax_.step(count, w, scores, panel.largest, task.factors, panel.sums);
  bool changed = std::any_of(task.factors, task.factors + w, [](float f) { return f != 1; });
  if (panel.started && changed) {
    softmax_.scale(plan_.value_rows(), w, task.factors, panel.out);
  }
  const float* values = Values(outer, keys.begin);
  for (int64_t i = 0; i < plan_.value_rows(); i += plan_.rows) {
    tile_.packed(count, values + i * count, scores, panel.out + i * w, w, 1, panel.started ? 1 : 0);
  }
  panel.started = true;
}

bool PanelAttention::IsExact(const QueryPanel& panel) const {
  float fill = static_cast<float>(form_.fill);
  return std::all_of(panel.largest, panel.largest + panel.count,
                     [&](float largest) { return VanishesBelow(largest, fill); });
}

void PanelAttention::Store(Task& task, const QueryPanel& panel) const {
  int64_t w = plan_.width, n = form_.values, bytes = ByteWidth(plan_.out);
  for (int64_t i = 0; i < w; ++i) task.factors[i] = static_cast<float>(1 / panel.sums[i]);
  softmax_.scale(n, w, task.factors, panel.out);
  for (int64_t i = 0; i < panel.count; ++i) {
    float* row = task.buffers.turned;
    for (int64_t j = 0; j < n; ++j) row[j] = panel.out[j * w + i];
    StoreRow(plan_.out, row, n, form_.out.element, memory_.out + panel.at[i].out * bytes);
    if (memory_.statistics == nullptr) continue;
    float* statistics = memory_.statistics + 2 * panel.at[i].row;
    statistics[0] = panel.largest[i];
    statistics[1] = task.factors[i];
  }
}

}  // namespace weft::cpu
