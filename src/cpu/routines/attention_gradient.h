// The gradient of attention by panels of queries and blocks of keys, without the scores in memory.
// Scores are computed again from the statistics of rows; they lie [keys][queries] as in the
// attention, which is a packed operand of dq = ds k. For dk and dv, sums over queries, a block of
// panels is turned first.
#pragma once

#include <vector>

#include "cpu/routines/attention_panels.h"

namespace weft::cpu {

struct GradientMemory {
  const std::byte *out, *dout;
  const float* statistics;
  std::byte *dq, *dk, *dv;  // null: not asked for
};

// It depends on the sizes alone, never on threads.
struct GradientPlan {
  AttentionPlan attention;
  DType dout = DType::kF32, dq = DType::kF32, dk = DType::kF32, dv = DType::kF32;

  int64_t block_panels = 1;       // of queries: the sums over these are one product
  int64_t chunk = 0, chunks = 1;  // of keys, of a task; what they add to dq is combined
  int64_t wave = 1;               // outers whose packed operands are there at once

  const TileKernel<float>& depth_tile() const { return TileKernelFor<float>(attention.form.depth); }
  const TileKernel<float>& value_tile() const {
    return TileKernelFor<float>(attention.form.values);
  }
  int64_t depth_rows() const { return RoundUp(attention.form.depth, attention.rows); }
  int64_t depth_cols() const { return RoundUp(attention.form.depth, depth_tile().cols); }
  int64_t value_cols() const { return RoundUp(attention.form.values, value_tile().cols); }
  int64_t block_columns() const { return block_panels * attention.width; }
  int64_t query_blocks() const { return CeilDiv(attention.panels, block_panels); }
  int64_t key_blocks() const { return CeilDiv(attention.form.keys, attention.key_block); }

  // Sums for dq of a chunk.
  int64_t dq_elements() const {
    return attention.form.dq.axes.empty() ? 0 : attention.panels * attention.width * depth_rows();
  }
  int64_t OuterElements() const;  // of packed operands and sums
  int64_t TaskElements() const;
};
GradientPlan PlanGradient(const program::AttentionForm& form);

class GradientPanels : PanelScores {
 public:
  GradientPanels(const Means& means, const GradientPlan& plan, const AttentionMemory& memory,
                 const GradientMemory& gradient)
      : PanelScores(plan.attention, memory), means_(means), cut_(plan), gradient_(gradient) {}

  Status Run();

 private:
  // The packed operands of one outer.
  struct Outer {
    int64_t index;
    float *keys, *values;       // [groups][depth or values][rows]
    float* key_rows;            // blocks of [depth groups][keys][rows]
    float *q, *dout;            // [panels][depth or values][width]
    float *q_rows, *dout_rows;  // blocks of [depth or value panels][queries][cols]
    float* row_facts;           // [panels][3][width]: largest, 1 / sum, delta
    float* dq;                  // [chunks][panels][depth_rows][width]
    int32_t* bounds;            // [panels][2][width]
    AttentionPlaces* places;    // [panels][width]
    uint8_t* may_skip;          // [panels]: what is beyond bounds vanishes
  };
  struct Task {
    Buffers buffers;
    float* gradients;                   // of weights, then of scores
    float *weights_turned, *ds_turned;  // [key groups][block columns][rows]
    float *dk, *dv;                     // [keys][cols]
    float* zeros;
  };

  void NewWave(float* scratch, int64_t first, int64_t count);
  Task NewTask(float* scratch) const;
  QueryPanel Panel(const Outer& outer, int64_t panel) const;
  void PackKeys(Outer& outer, int64_t block, uint8_t& not_finite) const;
  void PackQueries(Outer& outer, int64_t block, const Task& task, uint8_t& not_finite) const;
  void PackQueryRows(const QueryPanel& panel, DType dtype, const std::byte* data,
                     int64_t AttentionPlaces::* place, int64_t stride, int64_t elements,
                     int64_t cols, int64_t block_count, float* row, float* out) const;
  void DeltasOf(const QueryPanel& panel, const Task& task, float* deltas) const;
  Status PackWave();
  Status RunWave();
  Status StoreQueries();
  void RunChunk(const Outer& outer, const Task& task, int64_t chunk) const;
  void RunPanel(const Outer& outer, const Task& task, int64_t number, KeyRange keys,
                float* dq) const;
  void Turn(const Task& task, const TileKernel<float>& tile, const float* x, int64_t keys,
            int64_t column, float* out) const;
  // Adds what a block of queries gives; false: nothing.
  bool RunBlock(const Outer& outer, const Task& task, int64_t block, KeyRange keys, float* dq,
                bool started) const;
  void AddProducts(const TileKernel<float>& tile, const float* turned, const float* rows,
                   int64_t queries, int64_t stride, int64_t keys, int64_t cols, float scale,
                   bool started, float* sums) const;
  void StoreKeys(const Outer& outer, const Task& task, KeyRange keys, bool started) const;

  const Means& means_;
  const GradientPlan& cut_;
  const GradientMemory& gradient_;
  std::vector<Outer> outers_;
  std::vector<AttentionPlaces> places_;
  std::vector<uint8_t> may_skip_;
};

}  // namespace weft::cpu
