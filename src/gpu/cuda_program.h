// A Program as kernels on a GPU, and the steps that enqueue them.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "gpu/cuda_machines.h"
#include "gpu/cuda_stream.h"
#include "gpu/nvrtc.h"
#include "gpu/render_cuda.h"
#include "runtime/device.h"

namespace weft::gpu {

Result<std::unique_ptr<runtime::LoadedProgram>> LoadCudaProgram(program::Program program,
                                                                const runtime::LoadOptions& options,
                                                                std::shared_ptr<CudaCore> core,
                                                                const Nvrtc& nvrtc,
                                                                const CudaMachine& machine);

// Routines of a program loaded so that run on the host, one for each step.
std::span<const std::string> HostRoutinesOf(const runtime::LoadedProgram& program);

// Kernels of its steps that run as part of the product before them.
int64_t FusedKernelsOf(const runtime::LoadedProgram& program);

// What a compiled kernel takes of a block's resources.
struct KernelUse {
  int64_t registers = 0;      // of a thread
  int64_t most_threads = 0;   // that a block of it can have
  int64_t static_shared = 0;  // bytes
};
// Whether a launch fits the device: RESOURCE_EXHAUSTED says what was asked, what there is and what
// to do.
Status CheckLaunch(std::string_view kernel, const Launch& launch, const KernelUse& use,
                   const CudaLimits& limits);

}  // namespace weft::gpu
