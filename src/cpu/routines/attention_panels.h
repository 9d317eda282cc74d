// Attention by panels of queries. Scores lie [keys][queries]: a vector has neighbouring queries, so
// that nothing is reduced across lanes, and weights are a packed operand of the product with values
// as they are.
#pragma once

#include <vector>

#include "cpu/routines/attention_ways.h"
#include "cpu/routines/blocking.h"
#include "cpu/routines/narrow_kernels.h"
#include "cpu/routines/softmax_kernels.h"
#include "cpu/routines/tiles.h"

namespace weft::cpu {

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

// Scores of a panel of queries by a block of keys: what an attention and its gradient share.
class PanelScores {
 protected:
  PanelScores(const AttentionPlan& plan, const AttentionMemory& memory)
      : plan_(plan),
        form_(plan.form),
        memory_(memory),
        tile_(TileKernelFor<float>(plan.columns)),
        softmax_(FindSoftmaxKernel()) {}

  // [key_block][width] each; rows and turned are for the time of a call.
  struct Buffers {
    float *scores, *rows, *turned;
  };
  // Where the queries of a panel lie, and the keys within their bounds.
  void PlaceQueries(QueryPanel& panel, int64_t outer) const;
  // [elements][width] of what every query has, turned.
  void LoadQueries(const Buffers& buffers, const QueryPanel& panel, DType dtype,
                   const std::byte* data, int64_t AttentionPlaces::* place, int64_t stride,
                   int64_t elements, float* out) const;
  // Bias, mask and bounds.
  void ChangeScores(const Buffers& buffers, const QueryPanel& panel, KeyRange keys) const;
  // x[s][i] = fill where the mask is false or bounds exclude a key.
  void FillMasked(const Buffers& buffers, const QueryPanel& panel, KeyRange keys, float fill,
                  float* x) const;
  bool IsOutside(const QueryPanel& panel, KeyRange keys) const;  // of the bounds of all queries
  // n numbers of a row to where a query's lie.
  static void StoreRow(DType dtype, const float* row, int64_t n, int64_t stride, std::byte* to);

 private:
  // out[s * width + i] = element s of the keys of the operand's row for column i.
  template <class T>
  void TurnRows(const Buffers& buffers, const QueryPanel& panel, KeyRange keys, DType dtype,
                const std::byte* data, int64_t AttentionPlaces::* place, int64_t stride,
                T* out) const;

 protected:
  const AttentionPlan& plan_;
  const program::AttentionForm& form_;
  const AttentionMemory& memory_;
  const TileKernel<float>& tile_;
  const SoftmaxKernel& softmax_;
};

class PanelAttention : PanelScores {
 public:
  PanelAttention(const Means& means, const AttentionPlan& plan, const AttentionMemory& memory)
      : PanelScores(plan, memory), means_(means), narrow_(FindNarrow(plan)) {}

  Status Run();
  // What is shared, and what each task takes.
  static int64_t SharedElements(const AttentionPlan& plan);
  static int64_t TaskElements(const AttentionPlan& plan);
  static int64_t ChunkElements(const AttentionPlan& plan);

 private:
  struct Task {
    Buffers buffers;
    float* factors;
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
  // The micro-kernel that multiplies queries and keys of bf16 as they are; null: they are widened.
  static const NarrowKernel* FindNarrow(const AttentionPlan& plan);
  // [depth][width] of f32 that are bf16 to words of these, in place.
  void NarrowQueries(float* q) const;
  void MultiplyKeys(const QueryPanel& panel, int64_t outer, KeyRange keys, float* scores) const;
  void PackBlock(int64_t outer, int64_t block);
  bool MayLeaveOut(int64_t outer) const;
  Task NewTask(float* scratch, int64_t outer, int64_t group) const;
  void RunKeys(Task& task, int64_t outer, KeyRange keys, bool leaves_out) const;
  void RunBlock(Task& task, QueryPanel& panel, int64_t outer, KeyRange keys) const;
  bool IsExact(const QueryPanel& panel) const;
  void Store(Task& task, const QueryPanel& panel) const;
  Status RunTasks();
  // Sums over each chunk of keys, then of these.
  Status RunChunks();
  void KeepChunk(const Task& task, int64_t outer, int64_t chunk) const;
  void CombinePanel(QueryPanel& panel, int64_t outer) const;
  int64_t SumsElements() const {  // of a panel's maxima and sums
    return RoundUp(plan_.width * int64_t{sizeof(ChunkSums)} / 4, 16);
  }
  float* Part(int64_t outer, const QueryPanel& panel, int64_t chunk) const {
    int64_t number = outer * plan_.panels + panel.first / plan_.width;
    return parts_ + (number * plan_.chunks + chunk) * ChunkElements(plan_);
  }
  double CostOf(int64_t keys) const {  // nanoseconds of a task
    return static_cast<double>(keys * plan_.width * plan_.at_once) *
           static_cast<double>(form_.depth + form_.values + 16) / 20;
  }

  const Means& means_;
  const NarrowKernel* narrow_;
  float *keys_ = nullptr, *values_ = nullptr, *parts_ = nullptr;
  std::vector<uint8_t> not_finite_;  // [outers][blocks]: values that are inf or NaN
};

}  // namespace weft::cpu
