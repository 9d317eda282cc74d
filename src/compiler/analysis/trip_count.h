// Trip counts: how often a loop runs, where that can be read off: a counter that starts at a
// constant, grows by a constant and is compared with a constant.
#pragma once

#include <cstdint>
#include <optional>

#include "hlo/module.h"

namespace weft::compiler {

struct LoopBounds {
  int64_t index = 0;  // the element of the loop's tuple that counts
  int64_t init = 0, step = 0;
  int64_t trips = 0;  // in iteration t < trips the counter is init + t * step
};

// Constants may also be elements of the tuple that the body hands on as they are. The counter does
// not wrap around within the loop.
std::optional<LoopBounds> FindLoopBounds(const hlo::Instruction& while_op);
std::optional<int64_t> TripCount(const hlo::Instruction& while_op);

// A loop that runs while an element of its tuple, one s32 or s64, is below something that stays as
// it is.
struct LoopCounter {
  int64_t index = 0, step = 0;              // step > 0
  const hlo::Instruction* sum = nullptr;    // what adds it
  const hlo::Instruction* limit = nullptr;  // the element of the tuple, in the condition
  std::optional<int64_t> value;             // of the limit, where it is no element
};
std::optional<LoopCounter> FindLoopCounter(const hlo::Instruction& while_op);

// Whether the loop writes every element of the k-th array of its tuple and reads none: one row in
// each iteration, as what scan collects. What the array holds before the loop is then of no use.
bool WritesWholeState(const hlo::Instruction& while_op, int64_t k);

}  // namespace weft::compiler
