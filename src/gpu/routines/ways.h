// The ways of routines.cc's table, by file.
#pragma once

#include "gpu/routines/routine.h"

namespace weft::gpu {

Result<PreparedPtr> PrepareCublasLtGemm(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareCudnnConvolution(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareCholeskySolver(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareHouseholderProductSolver(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareHouseholderQrSolver(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareLuSolver(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareTriangularSolveCublas(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareCufft(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareThinGemm(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareGemmKernel(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareCholeskyKernel(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareConvolutionKernel(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareDeviceId(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareHouseholderProductKernel(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareHouseholderQrKernel(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareLuKernel(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareRngKernel(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareBitGeneratorKernel(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareSortKernel(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareTopKKernel(const RoutineInputs& inputs);
Result<PreparedPtr> PrepareTriangularSolveKernel(const RoutineInputs& inputs);

// With the kernel of the next step (library_epilogue.h).
Result<PreparedPtr> PrepareCublasLtGemmWithEpilogue(const RoutineInputs& inputs,
                                                    const program::Step& next);
Result<PreparedPtr> PrepareCudnnConvolutionWithEpilogue(const RoutineInputs& inputs,
                                                        const program::Step& next);

}  // namespace weft::gpu
