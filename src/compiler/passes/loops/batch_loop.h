// Outer-loop vectorization: a loop over numbers, run for many of them at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/analysis/trip_count.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/loop_state.h"
#include "hlo/builder.h"
#include "program/work_bounds.h"

namespace weft::compiler {

// A loop whose state is numbers and short vectors, computed from each other and, where its trip
// count is known, from elements of arrays that stay as they are.
struct NumberLoop {
  Loop loop;
  std::optional<LoopBounds> bounds;   // none: each set of numbers has a trip count of its own
  double cost = 0;                    // of all rounds, for one set of numbers
  std::vector<bool> read_by_element;  // of the state: arrays that cannot differ by row
};
std::optional<NumberLoop> FindNumberLoop(hlo::Instruction* while_op, const Effects& effects);

// The loop for `rows` sets of numbers, added with `b`: the state behind it. `init`: of each element
// a number for all of them, f32[rows] and the like for one of each, or the array that stays. A
// number of the result likewise; of short vectors f32[..., rows]. Where trip counts differ, `block`
// rows go on together until the last of them is done (masked execution): few, so that a long one
// keeps few others waiting.
Result<std::vector<hlo::Instruction*>> BatchLoop(hlo::Builder& b, const NumberLoop& numbers,
                                                 int64_t rows, int64_t block,
                                                 std::span<hlo::Instruction* const> init);

inline bool IsFewNumbers(const Shape& shape) {
  constexpr int64_t kMost = program::CodeBounds::kWrittenOut;
  return shape.IsArray() && shape.IsStatic() && shape.elements() >= 1 && shape.elements() <= kMost;
}
inline bool IsFewNumbers(const hlo::Instruction& i) {
  return IsFewNumbers(i.shape());
}

inline bool IsOneNumber(const hlo::Instruction& i) {
  return i.shape().IsArray() && i.shape().IsStatic() && i.shape().elements() == 1;
}

}  // namespace weft::compiler
