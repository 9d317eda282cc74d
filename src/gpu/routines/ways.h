// The ways of routines.cc's table, by file.
#pragma once

#include "gpu/routines/routine.h"

namespace weft::gpu {

Result<PreparedPtr> PrepareCublasLtGemm(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareGemmKernel(const RoutineInputs& inputs);

}  // namespace weft::gpu
