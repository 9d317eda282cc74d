// Loops (while): what all ways to lower them begin with.
#pragma once

#include "compiler/lower/table.h"

namespace weft::compiler {

// The state that a loop begins with, copied to where it lives while the loop runs.
void CopyInitialState(LowerContext& cx, const hlo::Instruction& loop, Steps& steps);

}  // namespace weft::compiler
