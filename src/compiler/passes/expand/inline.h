// Putting the instructions of a called computation in the place of the instruction that calls it.
#pragma once

#include "hlo/module.h"

namespace weft::compiler {

// The callee's instructions on the operands of `call` (as many as it has parameters) take its
// place, its facts and its control dependencies. Returns what stands for it.
hlo::Instruction* InlineCallee(hlo::Instruction* call, const hlo::Computation& callee);

}  // namespace weft::compiler
