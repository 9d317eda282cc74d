// A computation on scalars applied to whole arrays, element by element.
#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "hlo/module.h"

namespace weft::compiler {

// Whether the computation takes and returns scalars (or a tuple of them) and all between is
// elementwise or constant.
bool IsElementwiseComputation(const hlo::Computation& computation);

// Adds the computation's ops on arrays of the arguments' dimensions to `into`, before `before`
// (null: at the end). Returns the results, one per element of a tuple.
Result<std::vector<hlo::Instruction*>> ApplyToArrays(const hlo::Computation& computation,
                                                     std::span<hlo::Instruction* const> arguments,
                                                     hlo::Computation& into,
                                                     hlo::Instruction* before);

}  // namespace weft::compiler
