// Loops that do the same to every element of large arrays, a known number of times: one kernel runs
// all rounds for an element before it goes to the next, and nothing is stored between rounds.
#pragma once

#include "hlo/instruction.h"

namespace weft::compiler {

// Whether the loop's state is arrays of one shape whose elements do not look at each other, scalars
// that depend on scalars only and are not wanted after the loop, and arrays that stay as they are.
bool IsElementwiseLoop(const hlo::Instruction& loop);

}  // namespace weft::compiler
