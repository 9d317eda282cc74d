// Collectives as async pairs.
#pragma once

#include "base/error.h"
#include "hlo/module.h"

namespace weft::compiler {

// An async-start and an async-done in the place of a collective, with its facts: what waited for it
// waits for the done, what it waited for the start. Returns the start.
Result<hlo::Instruction*> AddAsyncPair(hlo::Instruction* i);

}  // namespace weft::compiler
