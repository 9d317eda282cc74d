// Asynchronous calls: computations that go on beside the steps behind their start.
#pragma once

#include <unordered_set>

#include "compiler/passes.h"
#include "hlo/module.h"

namespace weft::compiler {

// The async-starts whose computation is worth a thread of its own and may run on one: neither
// effects nor collectives nor custom calls inside, sizes that are known, and the done in the same
// computation. Updates in between that bring nothing go.
std::unordered_set<const hlo::Instruction*> FindAsyncCalls(hlo::Module& module,
                                                           const PassContext& context);

}  // namespace weft::compiler
