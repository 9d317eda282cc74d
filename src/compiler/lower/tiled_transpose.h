#pragma once

#include "compiler/lower/lowering.h"

namespace weft::compiler {

// cpu/transpose.cc: the transpose of a kernel that can be tiled around it: every way from it to the
// results goes element by element. Null: there is none, or several.
const hlo::Instruction* TiledTranspose(const KernelBody& body);

}  // namespace weft::compiler
