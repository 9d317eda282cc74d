// The rows that several tables list; those of one target are declared by its own.
#pragma once

#include "compiler/lower/table.h"

namespace weft::compiler {

// By opcode.
extern const LoweringRow kGemm;  // dot.cc
extern const LoweringRow kSortingNetwork;
// Kernels.
extern const LoweringRow kEmpty, kLoop;  // loop.cc
extern const LoweringRow kRows;          // cpu/row.cc
extern const LoweringRow kUpdate;
extern const LoweringRow kConcatenate;
extern const LoweringRow kTiles;  // cpu/transpose.cc

}  // namespace weft::compiler
