// The two ways of attention, both with an online softmax over blocks of keys: panels of queries by
// packed keys and values, or few queries by keys and values as they lie.
#pragma once

#include <limits>

#include "cpu/routines/attention_plan.h"
#include "cpu/routines/multiply.h"

namespace weft::cpu {

struct AttentionMemory {
  const std::byte *q, *k, *v, *bias, *mask;
  std::byte* out;
  float* statistics = nullptr;  // null: not asked for
};

struct KeyRange {
  int64_t begin, end;
};

// Whether the weights of keys that bounds exclude are 0, given the largest score of those within:
// then they may be left out. Otherwise (no key is within, or scores are as low as the fill) they
// count.
inline bool VanishesBelow(float largest, float fill) {
  constexpr float kVanishes = 0x1.ap6F;  // exp(-kVanishes) is 0
  return fill == -std::numeric_limits<float>::infinity() ? largest > fill
                                                         : largest - fill > kVanishes;
}

// Keys within the bounds of a query at `position`, of [0, keys).
inline KeyRange WithinBounds(const program::AttentionForm& form, int64_t position) {
  return {std::clamp<int64_t>(position + form.first, 0, form.keys),
          std::clamp<int64_t>(position + form.last + 1, 0, form.keys)};
}

// n elements of an operand, `stride` apart, as f32.
inline void LoadElements(DType dtype, const std::byte* from, int64_t stride, int64_t n, float* to) {
  if (stride == 1) return LoadRun<float>(dtype, from, n, to);
  for (int64_t i = 0; i < n; ++i) {
    LoadRun<float>(dtype, from + i * stride * ByteWidth(dtype), 1, to + i);
  }
}

Status AttendByPanels(const Means& means, const AttentionPlan& plan, const AttentionMemory& memory);
Status AttendFew(const Means& means, const AttentionPlan& plan, const AttentionMemory& memory);

// Bytes of scratch that these take on so many threads.
int64_t PanelsScratch(const AttentionPlan& plan, int64_t threads);
int64_t FewScratch(const AttentionPlan& plan, int64_t threads);

// Sums over several chunks of keys as one: element i of `into` is the sum of those in the chunks,
// each times the factor that its maximum asks for.
struct ChunkSums {
  float largest;
  double sum;
};
// The maximum and sum of all; `factors` gets one for each chunk.
ChunkSums CombineChunks(const ChunkSums* chunks, int64_t count, int64_t stride, double* factors);

}  // namespace weft::cpu
