// Micro-kernels of convolutions that keep channels apart: sums of products, channel by channel, for
// several places at once.
#pragma once

#include <cstdint>

#include "program/sum_order.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {

// Terms that a sum of f32 takes before it is added to one of f64.
inline constexpr int64_t kChannelRun = 2 * program::SumOrder::kRun;
// Places that are summed at once: half of the registers that every machine has.
inline constexpr int64_t kMostPlaces = program::TargetFacts::kVectorRegisters / 2;
inline constexpr int64_t kMostChannelLanes = program::TargetFacts::kLineBytes / sizeof(float);
// Of vectors: whole ones, halves, quarters, one element.
inline constexpr int64_t kChannelWidths = program::CodeBounds::kCopies;

template <class T>
struct ChannelRow {
  const T *input, *kernel;
};

// What is added up: for every row, taps that are so many elements apart; places likewise.
template <class T>
struct ChannelSpan {
  const ChannelRow<T>* rows;
  int64_t row_count, taps;
  int64_t input_at, kernel_at;  // of all rows
  int64_t input_tap, kernel_tap, input_place;
};

template <class T>
struct ChannelKernel {
  // sums[place * lanes + lane] += the span's products; [width][places - 1].
  using Add = void (*)(const ChannelSpan<T>& span, T* sums);
  int64_t lanes[kChannelWidths];
  Add add[kChannelWidths][kMostPlaces];
  // totals[i] += sums[i], which become 0.
  void (*drain)(int64_t n, T* sums, double* totals);
};

// For this machine. T: float, double, uint32_t, uint64_t.
template <class T>
const ChannelKernel<T>& FindChannelKernel();

}  // namespace weft::cpu
