// Loops whose computations nothing else runs, so that they may be rewritten in place.
#pragma once

#include <vector>

#include "base/error.h"
#include "compiler/passes/loops/loop_state.h"
#include "hlo/module.h"

namespace weft::compiler {

// Loops of executed computations, the innermost first, of the form that FindLoop knows.
std::vector<hlo::Instruction*> OwnLoops(hlo::Module& module);

// An instruction that one other reads, once.
bool HasOneUse(const hlo::Instruction& i);

// Whoever reads the loop as a whole reads a tuple of its elements.
Status SplitUsers(hlo::Instruction* loop);
// The elements of a loop, read right behind it.
Result<std::vector<hlo::Instruction*>> ReadElements(hlo::Instruction* loop);
// Other readers of elements (and there are no others) read `with` instead.
void ReplaceElements(hlo::Instruction* loop, const std::vector<hlo::Instruction*>& read,
                     const std::vector<hlo::Instruction*>& with);

}  // namespace weft::compiler
