// Copies of a loop's body: peeled iterations and unrolled loops.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "hlo/clone.h"
#include "hlo/module.h"

namespace weft::compiler {

// Computations that run as instructions do, but not what async ops wrap; callers first.
std::vector<hlo::Computation*> ExecutedComputations(hlo::Module& module);
// Instructions of the computation and of what it runs: what a copy takes.
int64_t ExecutedSize(const hlo::Computation& c);
// Whether the computation, or what it runs, has collectives.
bool HoldsCollectives(const hlo::Computation& c);

// One iteration in front of `before`, on the given state; the new state, element by element. What
// the map knows already is not copied; it knows the copies afterwards.
Result<std::vector<hlo::Instruction*>> CopyBody(const hlo::Computation& body,
                                                hlo::Instruction* before,
                                                std::vector<hlo::Instruction*> state, FreshIds& ids,
                                                hlo::CloneMap& map);

// All iterations in the place of the loop, which goes.
Status UnrollWhole(hlo::Instruction* loop, int64_t trips, FreshIds& ids);
// `factor` iterations become one; the condition is asked less often, which is right where the
// factor divides the trip count.
Status UnrollBy(hlo::Instruction* loop, int64_t trips, int64_t factor, FreshIds& ids);

}  // namespace weft::compiler
