// Cost model: what computing one element takes: for fusion and for cutting work into pieces.
#pragma once

#include "hlo/instruction.h"

namespace weft::compiler {

// Elements of a reduction that is computed wherever its result is needed.
inline constexpr int64_t kShortReduce = 16;

// From so many on, elements that lie together in memory are reduced as vectors.
inline constexpr int64_t kVectorReduce = 8;

// Costs nothing worth counting: where an element comes from, not how it is computed.
bool IsFree(const hlo::Instruction& instruction);

// A gather of single elements, each at the place that the index with the same number says.
bool TakesElements(const hlo::Instruction& gather);

// In units of about a quarter nanosecond.
inline constexpr double kWorkPerSecond = 4e9;
inline constexpr double kWorkOfValue = 0.2;  // of a number that is there already
double ElementCost(const hlo::Instruction& instruction);

}  // namespace weft::compiler
