// Loop-invariant code motion, a part of simplify-while.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/passes/effects.h"
#include "compiler/passes/loops/loop_state.h"
#include "program/target.h"
#include "program/work_bounds.h"

namespace weft::compiler {

// Of the machine's memory, what is moved out of one loop may take: the rest is the program's.
inline constexpr int64_t kHoistedPartOfMemory = program::CodeBounds::kMinorPart;

// Moves what the body computes anew in every iteration though it depends on invariant elements and
// constants alone to before the loop, as new elements of its state. Only what would be written to
// memory in each iteration or costs more than reading it back (contractions, reductions,
// transcendental functions, transposes, ...), together with what it is computed from; only where
// computing it once and reading it `trips` times takes less than computing it `trips` times
// (nullopt: the number is not known, and guessed); never what takes more memory than what it is
// computed from, or more than a part of the machine's. Nullopt: nothing to move.
Result<std::optional<Loop>> HoistInvariants(const Loop& loop, std::optional<int64_t> trips,
                                            const Effects& effects,
                                            const program::TargetInfo& target);

}  // namespace weft::compiler
