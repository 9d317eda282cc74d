// Which layout a result gets that may have any (JAX's Layout.AUTO).
#pragma once

#include <span>
#include <vector>

#include "base/shape.h"
#include "hlo/instruction.h"

namespace weft::client {

// For each result of the program the order of its dimensions that makes transposes between it and
// the parameters a matter of names: theirs, through transposes and elementwise ops. Row-major where
// a value comes from anything else, or from operands that disagree. `parameters`: with the layouts
// that they have, by parameter.
std::vector<Layout> AutoLayouts(const hlo::Computation& entry, std::span<const Shape> parameters);

}  // namespace weft::client
