// Loop nests out of loops that were written as one.
#pragma once

#include "compiler/passes/effects.h"
#include "compiler/passes/loops/loop_state.h"

namespace weft::compiler {

// By a predicate of each iteration: where it holds, what the loop's condition reads stays as it is,
// so that those iterations are a loop of their own, inside, and what differs between the two kinds
// of iterations is chosen by a branch once, not by selects that the next iteration waits for.
// Taken where an element starts anew, as counters and searches do, or where a branch is there
// anyway: which way a mere choice goes is often random.
Result<bool> NestByPredicate(const Loop& loop, const Effects& effects);

}  // namespace weft::compiler
