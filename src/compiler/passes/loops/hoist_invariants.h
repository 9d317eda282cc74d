// Loop-invariant code motion, a part of simplify-while.
#pragma once

#include "compiler/passes/effects.h"
#include "compiler/passes/loops/loop_state.h"

namespace weft::compiler {

// Moves what the body computes anew in every iteration though it depends on invariant elements and
// constants alone to before the loop, as new elements of its state. Only what costs more than
// reading it back (contractions, reductions, transcendental functions, transposes, ...), together
// with what it is computed from; only when the loop is known to run (`runs`), else only few
// elements; never what takes more memory than what it is computed from. Nullopt: nothing to move.
Result<std::optional<Loop>> HoistInvariants(const Loop& loop, bool runs, const Effects& effects);

}  // namespace weft::compiler
