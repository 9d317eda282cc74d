// Factorisations and solves as loops in memory (linalg_loops.cc).
#pragma once

#include "compiler/lower/table.h"

namespace weft::compiler {

Status LowerCholeskyLoops(LowerContext& cx, const hlo::Instruction& cholesky, Steps& steps);
Status LowerSolveLoops(LowerContext& cx, const hlo::Instruction& solve, Steps& steps);
Status LowerLuLoops(LowerContext& cx, const hlo::Instruction& call, Steps& steps);

}  // namespace weft::compiler
