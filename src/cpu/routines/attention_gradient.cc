// How the gradient of attention is cut, and packing.
#include "cpu/routines/attention_gradient.h"

#include <algorithm>
#include <cstring>

namespace weft::cpu {
namespace {

// Limits of the algorithm, as in attention_plan.cc.
constexpr int64_t kBlockColumns = program::SumOrder::kPairs * program::SumOrder::kRun;
// Below, sums of chunks for dq are no small part of the scores.
constexpr int64_t kLeastPart = program::SumOrder::kBlock / 2;

bool HasNotFinite(const float* x, int64_t n) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    largest = std::max(largest, bits & 0x7FFFFFFFU);
  }
  return largest >= 0x7F800000U;
}

}  // namespace

GradientPlan PlanGradient(const program::AttentionForm& form) {
  GradientPlan plan;
  plan.attention = PlanAttention(form, false);
  const AttentionPlan& a = plan.attention;
  plan.block_panels = std::clamp<int64_t>(kBlockColumns / a.width, 1, a.panels);
  int64_t wanted = CeilDiv(form.keys * a.outers, AttentionPlan::kManyTasks);
  plan.chunk = RoundUp(std::clamp(wanted, kLeastPart, AttentionPlan::kMostChunk), a.key_block);
  if (form.dq.axes.empty()) plan.chunk = a.key_block;  // nothing is combined
  plan.chunks = CeilDiv(form.keys, plan.chunk);
  plan.wave = std::clamp<int64_t>(AttentionPlan::kManyTasks / plan.chunks, 1, a.outers);
  return plan;
}

// In the order of NewWave.
int64_t GradientPlan::OuterElements() const {
  const AttentionPlan& a = attention;
  PartsOfScratch parts(nullptr);
  int64_t padded = a.panels * a.width, keys = a.key_groups() * a.rows;
  for (int64_t n : {keys * a.form.depth, keys * a.form.values, a.form.keys * depth_rows(),
                    padded * a.form.depth, padded * a.form.values, padded * depth_cols(),
                    padded * value_cols(), 3 * padded, chunks * dq_elements(), 2 * padded}) {
    parts.Take(n);
  }
  return parts.used();
}

int64_t GradientPlan::TaskElements() const {
  const AttentionPlan& a = attention;
  int64_t w = RoundUp(a.width, 16), longest = std::max(a.form.depth, a.form.values);
  int64_t keys = a.key_block + std::max(depth_tile().rows, value_tile().rows);
  return 4 * a.key_block * w + 2 * keys * block_columns() + keys * (depth_cols() + value_cols()) +
         std::max(longest, w) + 256;
}

void GradientPanels::NewWave(float* scratch, int64_t first, int64_t count) {
  const AttentionPlan& a = plan_;
  int64_t padded = a.panels * a.width, keys = a.key_groups() * a.rows;
  outers_.resize(static_cast<size_t>(count));
  places_.resize(static_cast<size_t>(count * padded));
  may_skip_.resize(static_cast<size_t>(count * a.panels));
  for (int64_t n = 0; n < count; ++n) {
    PartsOfScratch parts(scratch + n * cut_.OuterElements());
    Outer& outer = outers_[static_cast<size_t>(n)];
    outer.index = first + n;
    outer.keys = parts.Take(keys * form_.depth);
    outer.values = parts.Take(keys * form_.values);
    outer.key_rows = parts.Take(form_.keys * cut_.depth_rows());
    outer.q = parts.Take(padded * form_.depth);
    outer.dout = parts.Take(padded * form_.values);
    outer.q_rows = parts.Take(padded * cut_.depth_cols());
    outer.dout_rows = parts.Take(padded * cut_.value_cols());
    outer.row_facts = parts.Take(3 * padded);
    outer.dq = parts.Take(cut_.chunks * cut_.dq_elements());
    outer.bounds = reinterpret_cast<int32_t*>(parts.Take(2 * padded));
    outer.places = places_.data() + n * padded;
    outer.may_skip = may_skip_.data() + n * a.panels;
  }
}

QueryPanel GradientPanels::Panel(const Outer& outer, int64_t panel) const {
  int64_t w = plan_.width;
  QueryPanel result = {};
  result.first = panel * w;
  result.count = std::min(w, plan_.columns - result.first);
  result.q = outer.q + panel * w * form_.depth;
  result.at = outer.places + panel * w;
  result.low = outer.bounds + 2 * panel * w;
  result.high = result.low + w;
  return result;
}

void GradientPanels::PackKeys(Outer& outer, int64_t block, uint8_t& not_finite) const {
  AttentionPlaces at = plan_.Outer(outer.index);
  int64_t key = block * plan_.key_block, count = std::min(plan_.key_block, form_.keys - key);
  int64_t rows = plan_.rows;
  const std::byte *k = memory_.k + at.k * ByteWidth(plan_.k),
                  *v = memory_.v + at.v * ByteWidth(plan_.v);
  StridedPanels<float> keys(plan_.k, k, form_.k.key, form_.k.element);
  float* to = outer.keys + key * form_.depth;
  keys.PackMany(key, count, 0, form_.depth, rows, rows * form_.depth, to);
  StridedPanels<float> values(plan_.v, v, form_.v.key, form_.v.element);
  float* values_to = outer.values + key * form_.values;
  values.PackMany(key, count, 0, form_.values, rows, rows * form_.values, values_to);
  if (gradient_.dq != nullptr) {
    StridedPanels<float> turned(plan_.k, k, form_.k.element, form_.k.key);
    turned.PackMany(0, form_.depth, key, count, rows, rows * count,
                    outer.key_rows + key * cut_.depth_rows());
  }
  if (!plan_.has_bounds()) return;
  int64_t padded = RoundUp(count, rows);
  not_finite =
      HasNotFinite(to, padded * form_.depth) || HasNotFinite(values_to, padded * form_.values);
}

// Rows of queries as they lie, in panels of `cols` of their elements: [panels][block_count][cols].
void GradientPanels::PackQueryRows(const QueryPanel& panel, DType dtype, const std::byte* data,
                                   int64_t AttentionPlaces::* place, int64_t stride,
                                   int64_t elements, int64_t cols, int64_t block_count, float* row,
                                   float* out) const {
  for (int64_t i = 0; i < panel.count; ++i) {
    LoadElements(dtype, data + panel.at[i].*place * ByteWidth(dtype), stride, elements, row);
    for (int64_t j = 0; j < elements; j += cols) {
      float* to = out + j * block_count + i * cols;
      int64_t n = std::min(cols, elements - j);
      std::copy_n(row + j, n, to);
      std::fill_n(to + n, cols - n, 0.0F);
    }
  }
}

// delta = dout . out of each query.
void GradientPanels::DeltasOf(const QueryPanel& panel, const Task& task, float* deltas) const {
  float *x = task.gradients, *y = task.zeros;
  for (int64_t i = 0; i < plan_.width; ++i) {
    double sum = 0;
    for (int64_t from = 0; from < form_.values; from += plan_.key_block) {
      int64_t n = std::min(plan_.key_block, form_.values - from);
      auto load = [&](DType dtype, const std::byte* data, int64_t place, int64_t stride,
                      float* to) {
        LoadElements(dtype, data + (place + from * stride) * ByteWidth(dtype), stride, n, to);
      };
      load(plan_.out, gradient_.out, panel.at[i].out, form_.out.element, x);
      load(cut_.dout, gradient_.dout, panel.at[i].dout, form_.dout.element, y);
      for (int64_t j = 0; j < n; ++j) sum += static_cast<double>(x[j]) * y[j];
    }
    deltas[i] = static_cast<float>(sum);
  }
}

void GradientPanels::PackQueries(Outer& outer, int64_t block, const Task& task,
                                 uint8_t& not_finite) const {
  int64_t w = plan_.width, first = block * cut_.block_panels;
  int64_t end = std::min(first + cut_.block_panels, plan_.panels);
  int64_t count = std::min(plan_.columns, end * w) - first * w;
  const TileKernel<float>&depth = cut_.depth_tile(), &value = cut_.value_tile();
  for (int64_t p = first; p < end; ++p) {
    QueryPanel panel = Panel(outer, p);
    PlaceQueries(panel, outer.index);
    LoadQueries(task.buffers, panel, plan_.q, memory_.q, &AttentionPlaces::q, form_.q.element,
                form_.depth, panel.q);
    float* dout = outer.dout + p * w * form_.values;
    LoadQueries(task.buffers, panel, cut_.dout, gradient_.dout, &AttentionPlaces::dout,
                form_.dout.element, form_.values, dout);
    int64_t column = (p - first) * w;
    PackQueryRows(panel, plan_.q, memory_.q, &AttentionPlaces::q, form_.q.element, form_.depth,
                  depth.cols, count, task.zeros,
                  outer.q_rows + first * w * cut_.depth_cols() + column * depth.cols);
    PackQueryRows(panel, cut_.dout, gradient_.dout, &AttentionPlaces::dout, form_.dout.element,
                  form_.values, value.cols, count, task.zeros,
                  outer.dout_rows + first * w * cut_.value_cols() + column * value.cols);
    float* facts = outer.row_facts + 3 * p * w;
    bool vanishes = true;
    for (int64_t i = 0; i < w; ++i) {
      const float* statistics = gradient_.statistics + 2 * panel.at[i].row;
      facts[i] = statistics[0];
      facts[w + i] = statistics[1];
      vanishes &= VanishesBelow(statistics[0], static_cast<float>(form_.fill));
    }
    DeltasOf(panel, task, facts + 2 * w);
    outer.may_skip[p] = vanishes;
    not_finite |= HasNotFinite(panel.q, w * form_.depth) || HasNotFinite(dout, w * form_.values) ||
                  HasNotFinite(facts, 3 * w);
  }
}

Status GradientPanels::PackWave() {
  int64_t blocks = cut_.key_blocks(), items = blocks + cut_.query_blocks();
  std::vector<uint8_t> not_finite(outers_.size() * static_cast<size_t>(items));
  double cost = static_cast<double>(plan_.key_block * (form_.depth + form_.values));
  TRY(TryPieces(means_.pool, std::ssize(not_finite), cost,
                [&](int64_t begin, int64_t end) -> Status {
                  auto scratch = TRY(Scratch<float>::New(means_, cut_.TaskElements()));
                  Task task = NewTask(scratch.data());
                  for (int64_t i = begin; i < end; ++i) {
                    Outer& outer = outers_[static_cast<size_t>(i / items)];
                    uint8_t& bad = not_finite[static_cast<size_t>(i)];
                    int64_t item = i % items;
                    if (item < blocks) PackKeys(outer, item, bad);
                    if (item >= blocks) PackQueries(outer, item - blocks, task, bad);
                  }
                  return {};
                }));
  // 0 times what is not finite is NaN in the plain program.
  for (size_t n = 0; n < outers_.size(); ++n) {
    auto from = not_finite.begin() + static_cast<int64_t>(n) * items;
    bool finite = std::find(from, from + items, 1) == from + items;
    if (!finite || !plan_.has_bounds()) std::fill_n(outers_[n].may_skip, plan_.panels, 0);
  }
  return {};
}

}  // namespace weft::cpu
