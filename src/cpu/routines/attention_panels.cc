// Attention by panels of queries. Scores lie [keys][queries]: a vector has neighbouring queries, so
// that nothing is reduced across lanes, and weights are a packed operand of the product with values
// as they are.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/routines/attention_ways.h"
#include "cpu/routines/blocking.h"
#include "cpu/routines/softmax_kernels.h"
#include "cpu/routines/tiles.h"

namespace weft::cpu {
namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// Elements of f32 that are one after the other in one allocation, each part aligned.
class PartsOfScratch {
 public:
  explicit PartsOfScratch(float* data) : data_(data) {}
  float* Take(int64_t n) {
    float* part = data_ + used_;
    used_ += RoundUp(n, 16);
    return part;
  }
  int64_t used() const { return used_; }

 private:
  float* data_;
  int64_t used_ = 0;
};

// The queries of a panel.
struct QueryPanel {
  int64_t first, count;  // columns
  float* q;              // [depth][width]
  AttentionPlaces* at;   // [width]; beyond count: of the first
  int32_t *low, *high;   // [width]: keys within bounds
  float* largest;        // [width]: maxima and sums of weights so far
  double* sums;
  float* out;    // [value_rows][width]
  bool started;  // out holds something
};

class PanelAttention {
 public:
  PanelAttention(const Means& means, const AttentionPlan& plan, const AttentionMemory& memory)
      : means_(means),
        plan_(plan),
        form_(plan.form),
        memory_(memory),
        tile_(TileKernelFor<float>(plan.columns)),
        softmax_(FindSoftmaxKernel()) {}

  Status Run();
  // What is shared, and what each task takes.
  static int64_t SharedElements(const AttentionPlan& plan);
  static int64_t TaskElements(const AttentionPlan& plan);
  static int64_t ChunkElements(const AttentionPlan& plan);

 private:
  struct Task {
    float *scores, *factors, *rows, *turned;
    std::vector<QueryPanel> panels;
    std::vector<AttentionPlaces> places;
  };

  int64_t blocks() const { return CeilDiv(form_.keys, plan_.key_block); }
  float* Keys(int64_t outer, int64_t key) const {
    return keys_ + (outer * plan_.key_groups() * plan_.rows + key) * form_.depth;
  }
  float* Values(int64_t outer, int64_t key) const {
    return values_ + (outer * form_.keys + key) * plan_.value_rows();
  }
  void PackBlock(int64_t outer, int64_t block);
  bool MayLeaveOut(int64_t outer) const;
  Task NewTask(float* scratch, int64_t outer, int64_t group) const;
  void LoadQueries(Task& task, QueryPanel& panel, int64_t outer) const;
  void RunKeys(Task& task, int64_t outer, KeyRange keys, bool leaves_out) const;
  void RunBlock(Task& task, QueryPanel& panel, int64_t outer, KeyRange keys) const;
  void ChangeScores(Task& task, QueryPanel& panel, KeyRange keys) const;
  // out[s * width + i] = element s of the keys of the operand's row for column i.
  template <class T>
  void TurnRows(Task& task, const QueryPanel& panel, KeyRange keys, DType dtype,
                const std::byte* data, int64_t AttentionPlaces::* place, int64_t stride,
                T* out) const;
  bool IsExact(const QueryPanel& panel) const;
  void Store(Task& task, const QueryPanel& panel) const;
  Status RunTasks();
  Status RunChunks();

  const Means& means_;
  const AttentionPlan& plan_;
  const program::AttentionForm& form_;
  const AttentionMemory& memory_;
  const TileKernel<float>& tile_;
  const SoftmaxKernel& softmax_;
  float *keys_ = nullptr, *values_ = nullptr, *parts_ = nullptr;
  std::vector<uint8_t> not_finite_;  // [outers][blocks]: values that are inf or NaN
};

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

void PanelAttention::PackBlock(int64_t outer, int64_t block) {
  AttentionPlaces at = plan_.Outer(outer);
  int64_t key = block * plan_.key_block, count = std::min(plan_.key_block, form_.keys - key);
  StridedPanels<float> keys(plan_.k, memory_.k + at.k * ByteWidth(plan_.k), form_.k.key,
                            form_.k.element);
  keys.PackMany(key, count, 0, form_.depth, plan_.rows, plan_.rows * form_.depth, Keys(outer, key));
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
  task.scores = parts.Take(plan_.key_block * w);
  task.rows = parts.Take(plan_.key_block * w);
  task.turned = parts.Take(std::max(plan_.key_block, plan_.value_rows()) * w);
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
    LoadQueries(task, panel, outer);
    task.panels.push_back(panel);
  }
  return task;
}

void PanelAttention::LoadQueries(Task& task, QueryPanel& panel, int64_t outer) const {
  int64_t w = plan_.width, width = ByteWidth(plan_.q);
  AttentionPlaces base = plan_.Outer(outer);
  for (int64_t i = 0; i < w; ++i) {
    panel.at[i] = base + plan_.Column(panel.first + (i < panel.count ? i : 0));
    KeyRange within = WithinBounds(form_, panel.at[i].position);
    panel.low[i] = static_cast<int32_t>(within.begin);
    panel.high[i] = static_cast<int32_t>(within.end - 1);
  }
  // Some elements of every query at a time, turned.
  const float* rows[64];
  for (int64_t p = 0; p < form_.depth; p += plan_.key_block) {
    int64_t n = std::min(plan_.key_block, form_.depth - p);
    for (int64_t i = 0; i < w; ++i) {
      float* row = task.rows + i * plan_.key_block;
      StridedPanels<float>(plan_.q, memory_.q + panel.at[i].q * width, 0, form_.q.element)
          .Pack(0, 1, p, n, 1, row);
      rows[i] = row;
    }
    PackAcross<float>(rows, n, w, panel.q + p * w);
  }
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
      if (leaves_out) {
        int64_t low = *std::min_element(panel.low, panel.low + plan_.width);
        int64_t high = *std::max_element(panel.high, panel.high + plan_.width);
        if (block.end <= low || block.begin > high) continue;
      }
      RunBlock(task, panel, outer, block);
    }
  }
  for (QueryPanel& panel : task.panels) {
    if (!panel.started) std::fill_n(panel.out, plan_.value_rows() * plan_.width, 0.0F);
  }
}

void PanelAttention::RunBlock(Task& task, QueryPanel& panel, int64_t outer, KeyRange keys) const {
  int64_t w = plan_.width, count = keys.end - keys.begin;
  for (int64_t i = 0; i < count; i += plan_.rows) {
    tile_.packed(form_.depth, Keys(outer, keys.begin + i), panel.q, task.scores + i * w, w,
                 static_cast<float>(form_.scale), 0);
  }
  ChangeScores(task, panel, keys);
  softmax_.step(count, w, task.scores, panel.largest, task.factors, panel.sums);
  bool changed = std::any_of(task.factors, task.factors + w, [](float f) { return f != 1; });
  if (panel.started && changed) {
    softmax_.scale(plan_.value_rows(), w, task.factors, panel.out);
  }
  const float* values = Values(outer, keys.begin);
  for (int64_t i = 0; i < plan_.value_rows(); i += plan_.rows) {
    tile_.packed(count, values + i * count, task.scores, panel.out + i * w, w, 1,
                 panel.started ? 1 : 0);
  }
  panel.started = true;
}

template <class T>
void PanelAttention::TurnRows(Task& task, const QueryPanel& panel, KeyRange keys, DType dtype,
                              const std::byte* data, int64_t AttentionPlaces::* place,
                              int64_t stride, T* out) const {
  int64_t count = keys.end - keys.begin, bytes = ByteWidth(dtype);
  const T* rows[64];
  for (int64_t i = 0; i < plan_.width; ++i) {
    T* row = reinterpret_cast<T*>(task.rows) + i * plan_.key_block;
    const std::byte* from = data + (panel.at[i].*place + keys.begin * stride) * bytes;
    rows[i] = row;
    // Queries that share a row, such as those of one mask for all.
    if (i > 0 && panel.at[i].*place == panel.at[i - 1].*place) {
      rows[i] = rows[i - 1];
    } else if (stride == 1) {
      LoadRun<T>(dtype, from, count, row);
    } else {
      for (int64_t s = 0; s < count; ++s) LoadRun<T>(dtype, from + s * stride * bytes, 1, row + s);
    }
  }
  PackAcross<T>(rows, count, plan_.width, out);
}

// Bias, mask and bounds.
void PanelAttention::ChangeScores(Task& task, QueryPanel& panel, KeyRange keys) const {
  int64_t w = plan_.width, count = keys.end - keys.begin;
  float fill = static_cast<float>(form_.fill);
  if (form_.has_bias) {
    TurnRows<float>(task, panel, keys, plan_.bias, memory_.bias, &AttentionPlaces::bias,
                    form_.bias.key, task.turned);
    softmax_.add(count * w, task.turned, task.scores);
  }
  if (form_.has_mask) {
    auto* kept = reinterpret_cast<uint32_t*>(task.turned);
    TurnRows<uint32_t>(task, panel, keys, DType::kU8, memory_.mask, &AttentionPlaces::mask,
                       form_.mask.key, kept);
    softmax_.choose(count * w, kept, fill, task.scores);
  }
  if (!plan_.has_bounds()) return;
  bool inside = true;
  for (int64_t i = 0; i < w; ++i) {
    inside &= keys.begin >= panel.low[i] && keys.end - 1 <= panel.high[i];
  }
  if (inside) return;
  softmax_.bound(count, w, static_cast<int32_t>(keys.begin), panel.low, panel.high, fill,
                 task.scores);
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
    float* row = task.turned;
    for (int64_t j = 0; j < n; ++j) row[j] = panel.out[j * w + i];
    std::byte* to = memory_.out + panel.at[i].out * bytes;
    if (form_.out.element == 1) {
      StoreRun<float>(plan_.out, row, n, to);
      continue;
    }
    for (int64_t j = 0; j < n; ++j) {
      StoreRun<float>(plan_.out, row + j, 1, to + j * form_.out.element * bytes);
    }
  }
}

Status PanelAttention::RunTasks() {
  double cost = static_cast<double>(form_.keys * plan_.width * plan_.at_once) *
                static_cast<double>(form_.depth + form_.values + 16) / 20;
  int64_t groups = plan_.groups();
  return TryPieces(
      means_.pool, plan_.outers * groups, cost, [&](int64_t begin, int64_t end) -> Status {
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

// Sums over each chunk of keys, then of these.
Status PanelAttention::RunChunks() {
  int64_t groups = plan_.groups(), w = plan_.width, size = ChunkElements(plan_);
  int64_t sums_size = RoundUp(w * int64_t{sizeof(ChunkSums)} / 4, 16);
  double cost = static_cast<double>(plan_.chunk * w * plan_.at_once) *
                static_cast<double>(form_.depth + form_.values + 16) / 20;
  auto part = [&](int64_t outer, int64_t panel, int64_t chunk) {
    return parts_ + ((outer * plan_.panels + panel) * plan_.chunks + chunk) * size;
  };
  TRY(TryPieces(means_.pool, plan_.outers * groups * plan_.chunks, cost,
                [&](int64_t begin, int64_t end) -> Status {
                  auto scratch = TRY(Scratch<float>::New(means_, TaskElements(plan_)));
                  for (int64_t i = begin; i < end; ++i) {
                    int64_t chunk = i % plan_.chunks, group = i / plan_.chunks % groups;
                    int64_t outer = i / plan_.chunks / groups, from = chunk * plan_.chunk;
                    Task task = NewTask(scratch.data(), outer, group);
                    RunKeys(task, outer, {from, std::min(form_.keys, from + plan_.chunk)},
                            MayLeaveOut(outer));
                    for (const QueryPanel& panel : task.panels) {
                      float* to = part(outer, panel.first / w, chunk);
                      auto* sums = reinterpret_cast<ChunkSums*>(to);
                      for (int64_t c = 0; c < w; ++c) {
                        sums[c] = {panel.largest[c], panel.sums[c]};
                      }
                      std::copy_n(panel.out, plan_.value_rows() * w, to + sums_size);
                    }
                  }
                  return {};
                }));
  double each = static_cast<double>(plan_.chunks * plan_.value_rows() * w * plan_.at_once);
  return TryPieces(
      means_.pool, plan_.outers * groups, each, [&](int64_t begin, int64_t end) -> Status {
        auto scratch = TRY(Scratch<float>::New(means_, TaskElements(plan_)));
        std::vector<double> factors(static_cast<size_t>(w * plan_.chunks));
        for (int64_t i = begin; i < end; ++i) {
          int64_t outer = i / groups;
          Task task = NewTask(scratch.data(), outer, i % groups);
          bool exact = true;
          for (QueryPanel& panel : task.panels) {
            const float* from = part(outer, panel.first / w, 0);
            for (int64_t c = 0; c < w; ++c) {
              ChunkSums all =
                  CombineChunks(reinterpret_cast<const ChunkSums*>(from) + c, plan_.chunks,
                                size * 4, factors.data() + c * plan_.chunks);
              panel.largest[c] = all.largest;
              panel.sums[c] = all.sum;
            }
            for (int64_t j = 0; j < plan_.value_rows() * w; ++j) {
              double sum = 0;
              for (int64_t chunk = 0; chunk < plan_.chunks; ++chunk) {
                sum += factors[static_cast<size_t>(j % w * plan_.chunks + chunk)] *
                       from[chunk * size + sums_size + j];
              }
              panel.out[j] = static_cast<float>(sum);
            }
            exact &= IsExact(panel);
          }
          if (MayLeaveOut(outer) && !exact) RunKeys(task, outer, {0, form_.keys}, false);
          for (const QueryPanel& panel : task.panels) Store(task, panel);
        }
        return {};
      });
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

}  // namespace

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
