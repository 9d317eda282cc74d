// Cost model: what whole instructions and computations take, in the units of ElementCost.
#pragma once

#include "hlo/computation.h"
#include "hlo/instruction.h"
#include "program/target.h"

namespace weft::compiler {

// Iterations of a loop of which nothing is known, as a guess: loops are written for what runs
// often.
inline constexpr double kLikelyTrips = 100;

double WorkOfInstruction(const hlo::Instruction& instruction);
double WorkOfComputation(const hlo::Computation& computation);

// Of reading, or of writing, an array that was written before: from the second-level cache where it
// fits, else from memory.
double WorkOfReading(int64_t bytes, const program::TargetInfo& target);

}  // namespace weft::compiler
