// Elements of a loop's state that need not be carried: constants, copies of other elements,
// counters that are another one plus a distance, and those that nothing reads.
#pragma once

#include "compiler/passes/effects.h"
#include "compiler/passes/loops/loop_state.h"

namespace weft::compiler {

// Whether the loop's result is read other than element by element.
bool IsUsedWhole(const hlo::Instruction& loop);

// Whether DropState would leave fewer elements, and at least one.
bool MayDropState(const Loop& loop, const Effects& effects);

// The loop without them. Body and condition must be its own.
Result<Loop> DropState(const Loop& loop, const Effects& effects);

}  // namespace weft::compiler
