// If-conversion: all branches are computed, one is chosen; of single conditionals, and of loops
// that may be run for many rows at once.
#pragma once

#include <vector>

#include "base/error.h"
#include "hlo/instruction.h"

namespace weft::compiler {

// All branches of a conditional, computed before it, and of every element of its result the one
// that it chooses. Branches must be free of effects; the conditional stays.
Result<std::vector<hlo::Instruction*>> ComputeBranches(hlo::Instruction* conditional);

// A copy of the loop, before it, whose conditionals, and those of the loops in it, compute all of
// their branches and choose: lanes do not jump each their own way. Null: it has none, or one of
// them does more than compute a few numbers. What reads the loop reads it still.
Result<hlo::Instruction*> CopyWithoutBranches(hlo::Instruction* loop);

}  // namespace weft::compiler
