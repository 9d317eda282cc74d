// What the ways to lower a reduction on CPUs have in common.
#pragma once

#include "compiler/lower/table.h"

namespace weft::compiler {

// Whether a kernel's results are reductions along the same dimensions that are worth loops of their
// own.
Decision TakesReduces(Subject& subject);

}  // namespace weft::compiler
