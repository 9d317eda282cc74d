// What computing one element takes: for fusion and for cutting work into pieces.
#pragma once

#include "hlo/instruction.h"

namespace weft::compiler {

// Costs nothing worth counting: where an element comes from, not how it is computed.
bool IsFree(const hlo::Instruction& instruction);

// In units of about a quarter nanosecond.
double ElementCost(const hlo::Instruction& instruction);

}  // namespace weft::compiler
