// `combine` at the end of thread loops in terms of the other operations: what backends without
// threads run, and what the interpreter takes it to mean.
#pragma once

#include "program/kernel.h"

namespace weft::program {

bool HasCombine(const Kernel& kernel);
// The iterations' values go to arrays, which a serial loop halves, neighbours first.
Kernel ExpandCombines(const Kernel& kernel);

}  // namespace weft::program
