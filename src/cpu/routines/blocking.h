// Cache blocking of a matrix product, how it is cut: depth of panels, tasks, what is packed at
// once. It depends on the sizes and on the caches, never on threads.
#pragma once

#include <atomic>
#include <cstdint>

#include "cpu/routines/multiply.h"

namespace weft::cpu {

struct Blocking {
  int64_t depth, panels;           // k of a panel, and how many make up the whole
  int64_t task_rows, task_cols;    // of the result
  int64_t outer_rows, outer_cols;  // whose panels are there at once
  bool a_in_tasks, b_in_tasks;     // panels that no other task needs are packed where they are used
  bool by_rows;                    // a task goes along rows of tiles
  bool a_stays;   // in L1, a panel of a; those of b come from L2. Otherwise a panel of b
  bool in_place;  // whole tiles are summed up in the result at every depth
};

// That tasks are shared out among. Where parts of the result begin changes no sum: they may depend
// on the machine.
int64_t TaskThreads();

// What a benchmark tries and measures; a product without one measures nothing.
struct ProductTrial {
  int64_t depth = 0, task_rows = 0, task_cols = 0;  // 0: as ever
  bool in_place = false;
  // Nanoseconds: of the caller, waiting included, and of all threads while they work.
  std::atomic<int64_t> pack_wall = 0, pack_busy = 0, task_wall = 0, task_busy = 0;
};

Blocking BlockingOf(const PanelForm& form, const ProductSizes& sizes, const ProductTrial* trial);

inline int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline int64_t RoundUp(int64_t a, int64_t unit) {
  return CeilDiv(a, unit) * unit;
}

// Bytes of the panels of so many vectors at every depth; of those of a task at one.
int64_t SharedBytes(const PanelForm& form, const Blocking& cut, bool is_left, int64_t vectors);
int64_t OwnBytes(const PanelForm& form, const Blocking& cut, bool is_left);
// Sums of a task that are kept from one depth to the next, in whole tiles.
int64_t KeptSums(const PanelForm& form, const Blocking& cut);

}  // namespace weft::cpu
