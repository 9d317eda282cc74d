// Attention of few queries, such as one token against a long cache: keys and values are read once,
// where they lie. Chunks of keys are shared out, and their sums combined in order.
#include <algorithm>
#include <cmath>

#include "cpu/routines/attention_ways.h"
#include "cpu/routines/softmax_kernels.h"
#include "cpu/routines/tiles.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

constexpr int64_t kMostFew = program::CodeBounds::kCopies;  // queries

class FewAttention {
 public:
  FewAttention(const Means& means, const AttentionPlan& plan, const AttentionMemory& memory)
      : means_(means),
        plan_(plan),
        form_(plan.form),
        memory_(memory),
        tile_(*FindTileKernel<float>(INT64_MAX)),
        softmax_(FindSoftmaxKernel()) {}

  Status Run();
  // Of a chunk of one outer: what it adds up to.
  static int64_t ChunkDoubles(const AttentionPlan& plan) {
    return plan.columns * (2 + plan.form.values);
  }
  static int64_t TaskElements(const AttentionPlan& plan) {
    const auto& form = plan.form;
    return plan.columns * (form.depth + form.values + plan.key_block) +
           plan.key_block * (form.depth + form.values) + form.values + plan.key_block;
  }

 private:
  // Of one chunk: [columns] maxima and sums, then [columns][values].
  struct Sums {
    ChunkSums* columns;
    double* out;
  };
  struct Task {
    float *q, *out, *scores, *keys, *values, *zeroes, *row;
    AttentionPlaces at[kMostFew];
  };
  Sums Part(double* parts, int64_t outer, int64_t chunk) const {
    double* at = parts + (outer * plan_.chunks + chunk) * ChunkDoubles(plan_);
    return {reinterpret_cast<ChunkSums*>(at), at + 2 * plan_.columns};
  }
  Task NewTask(float* scratch, int64_t outer) const;
  void RunChunk(const Task& task, KeyRange keys, const Sums& to) const;
  void RunBlock(const Task& task, KeyRange keys, const Sums& to) const;
  void Score(const Task& task, KeyRange keys) const;
  void AddValues(const Task& task, KeyRange keys) const;
  void Store(const Task& task, double* parts, int64_t outer) const;
  // Rows of an operand from `key` on: where they lie, or converted.
  struct Rows {
    const float* data;
    int64_t stride;
  };
  Rows RowsOf(DType dtype, const std::byte* data, int64_t place,
              const program::AttentionForm::Operand& operand, int64_t elements, KeyRange keys,
              float* to) const;

  const Means& means_;
  const AttentionPlan& plan_;
  const program::AttentionForm& form_;
  const AttentionMemory& memory_;
  const TileKernel<float>& tile_;
  const SoftmaxKernel& softmax_;
};

FewAttention::Task FewAttention::NewTask(float* scratch, int64_t outer) const {
  Task task;
  auto take = [&](int64_t n) {
    float* part = scratch;
    scratch += n;
    return part;
  };
  task.q = take(plan_.columns * form_.depth);
  task.out = take(plan_.columns * form_.values);
  task.scores = take(plan_.columns * plan_.key_block);
  task.keys = take(plan_.key_block * form_.depth);
  task.values = take(plan_.key_block * form_.values);
  task.zeroes = take(form_.values);
  task.row = take(plan_.key_block);
  std::fill_n(task.zeroes, form_.values, 0.0F);
  AttentionPlaces base = plan_.Outer(outer);
  for (int64_t c = 0; c < plan_.columns; ++c) {
    task.at[c] = base + plan_.Column(c);
    LoadElements(plan_.q, memory_.q + task.at[c].q * ByteWidth(plan_.q), form_.q.element,
                 form_.depth, task.q + c * form_.depth);
  }
  return task;
}

FewAttention::Rows FewAttention::RowsOf(DType dtype, const std::byte* data, int64_t place,
                                        const program::AttentionForm::Operand& operand,
                                        int64_t elements, KeyRange keys, float* to) const {
  int64_t bytes = ByteWidth(dtype);
  const std::byte* from = data + (place + keys.begin * operand.key) * bytes;
  if (dtype == DType::kF32 && operand.element == 1) {
    return {reinterpret_cast<const float*>(from), operand.key};
  }
  for (int64_t s = 0; s < keys.end - keys.begin; ++s, from += operand.key * bytes) {
    LoadElements(dtype, from, operand.element, elements, to + s * elements);
  }
  return {to, elements};
}

// Scores of a block of keys, [columns][key_block].
void FewAttention::Score(const Task& task, KeyRange keys) const {
  int64_t n = keys.end - keys.begin;
  float fill = static_cast<float>(form_.fill);
  Rows rows = RowsOf(plan_.k, memory_.k, task.at[0].k, form_.k, form_.depth, keys, task.keys);
  for (int64_t c = 0; c < plan_.columns; ++c) {
    float* scores = task.scores + c * plan_.key_block;
    const AttentionPlaces& at = task.at[c];
    tile_.rows_times_vector(n, form_.depth, rows.data, rows.stride, task.q + c * form_.depth,
                            scores, 1, static_cast<float>(form_.scale), 0);
    if (form_.has_bias) {
      int64_t place = at.bias + keys.begin * form_.bias.key;
      LoadElements(plan_.bias, memory_.bias + place * ByteWidth(plan_.bias), form_.bias.key, n,
                   task.row);
      for (int64_t s = 0; s < n; ++s) scores[s] += task.row[s];
    }
    if (form_.has_mask) {
      const std::byte* mask = memory_.mask + at.mask + keys.begin * form_.mask.key;
      for (int64_t s = 0; s < n; ++s) {
        scores[s] = mask[s * form_.mask.key] != std::byte{0} ? scores[s] : fill;
      }
    }
    KeyRange within = WithinBounds(form_, at.position);
    for (int64_t s = 0; plan_.has_bounds() && s < n; ++s) {
      int64_t key = keys.begin + s;
      if (key < within.begin || key >= within.end) scores[s] = fill;
    }
  }
}

// out = weights times values, four keys at a time.
void FewAttention::AddValues(const Task& task, KeyRange keys) const {
  int64_t n = keys.end - keys.begin;
  Rows rows = RowsOf(plan_.v, memory_.v, task.at[0].v, form_.v, form_.values, keys, task.values);
  std::fill_n(task.out, plan_.columns * form_.values, 0.0F);
  for (int64_t s = 0; s < n; s += 4) {
    float weights[4 * kMostFew];
    const float* four[4];
    for (int64_t i = 0; i < 4; ++i) {
      bool there = s + i < n;
      four[i] = there ? rows.data + (s + i) * rows.stride : task.zeroes;
      for (int64_t c = 0; c < plan_.columns; ++c) {
        weights[4 * c + i] = there ? task.scores[c * plan_.key_block + s + i] : 0;
      }
    }
    tile_.grow(plan_.columns, form_.values, weights, four, task.out, form_.values);
  }
}

void FewAttention::RunBlock(const Task& task, KeyRange keys, const Sums& to) const {
  Score(task, keys);
  float factors[kMostFew];
  for (int64_t c = 0; c < plan_.columns; ++c) {
    softmax_.row(keys.end - keys.begin, task.scores + c * plan_.key_block, &to.columns[c].largest,
                 &factors[c], &to.columns[c].sum);
  }
  AddValues(task, keys);
  for (int64_t c = 0; c < plan_.columns; ++c) {
    for (int64_t i = 0; i < form_.values; ++i) {
      double& sum = to.out[c * form_.values + i];
      sum = sum * factors[c] + task.out[c * form_.values + i];
    }
  }
}

void FewAttention::RunChunk(const Task& task, KeyRange keys, const Sums& to) const {
  std::fill_n(to.columns, plan_.columns, ChunkSums{-std::numeric_limits<float>::infinity(), 0.0});
  std::fill_n(to.out, plan_.columns * form_.values, 0.0);
  for (int64_t key = keys.begin; key < keys.end; key += plan_.key_block) {
    RunBlock(task, {key, std::min(key + plan_.key_block, keys.end)}, to);
  }
}

void FewAttention::Store(const Task& task, double* parts, int64_t outer) const {
  std::vector<double> factors(static_cast<size_t>(plan_.chunks));
  int64_t bytes = ByteWidth(plan_.out), size = ChunkDoubles(plan_);
  for (int64_t c = 0; c < plan_.columns; ++c) {
    Sums first = Part(parts, outer, 0);
    ChunkSums all = CombineChunks(first.columns + c, plan_.chunks, size * 8, factors.data());
    for (int64_t i = 0; i < form_.values; ++i) {
      double sum = 0;
      for (int64_t chunk = 0; chunk < plan_.chunks; ++chunk) {
        sum += factors[static_cast<size_t>(chunk)] * first.out[chunk * size + c * form_.values + i];
      }
      float x = static_cast<float>(sum / all.sum);
      StoreRun<float>(plan_.out, &x, 1,
                      memory_.out + (task.at[c].out + i * form_.out.element) * bytes);
    }
  }
}

Status FewAttention::Run() {
  auto parts = TRY(Scratch<double>::New(means_, plan_.outers * plan_.chunks * ChunkDoubles(plan_)));
  double cost = static_cast<double>(plan_.chunk * (form_.depth + form_.values)) / 4;
  TRY(TryPieces(
      means_.pool, plan_.outers * plan_.chunks, cost, [&](int64_t begin, int64_t end) -> Status {
        auto scratch = TRY(Scratch<float>::New(means_, TaskElements(plan_)));
        for (int64_t i = begin; i < end; ++i) {
          int64_t outer = i / plan_.chunks, chunk = i % plan_.chunks;
          int64_t key = chunk * plan_.chunk;
          RunChunk(NewTask(scratch.data(), outer), {key, std::min(form_.keys, key + plan_.chunk)},
                   Part(parts.data(), outer, chunk));
        }
        return {};
      }));
  auto scratch = TRY(Scratch<float>::New(means_, TaskElements(plan_)));
  for (int64_t outer = 0; outer < plan_.outers; ++outer) {
    Store(NewTask(scratch.data(), outer), parts.data(), outer);
  }
  return {};
}

}  // namespace

ChunkSums CombineChunks(const ChunkSums* chunks, int64_t count, int64_t stride, double* factors) {
  const auto* bytes = reinterpret_cast<const std::byte*>(chunks);
  auto at = [&](int64_t i) -> const ChunkSums& {
    return *reinterpret_cast<const ChunkSums*>(bytes + i * stride);
  };
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  ChunkSums all = {kLowest, 0};
  for (int64_t i = 0; i < count; ++i) all.largest = std::max(all.largest, at(i).largest);
  double base = all.largest == kLowest ? 0 : static_cast<double>(all.largest);
  for (int64_t i = 0; i < count; ++i) {
    factors[i] = std::exp(static_cast<double>(at(i).largest) - base);
    all.sum += factors[i] * at(i).sum;
  }
  return all;
}

Status AttendFew(const Means& means, const AttentionPlan& plan, const AttentionMemory& memory) {
  return FewAttention(means, plan, memory).Run();
}

int64_t FewScratch(const AttentionPlan& plan, int64_t threads) {
  int64_t tasks = std::min(threads, plan.outers * plan.chunks);
  return 8 * plan.outers * plan.chunks * FewAttention::ChunkDoubles(plan) +
         4 * (tasks + 1) * FewAttention::TaskElements(plan);
}

}  // namespace weft::cpu
