// Kernels on the host, for tests: CUDA C texts are compiled by the C++ compiler that compiled the
// tests, threads of a block are fibers that change at barriers, blocks run one after the other.
#pragma once

#include <cstdint>
#include <memory>

#include "gpu/cuda_device.h"
#include "gpu/cuda_driver.h"
#include "runtime/device.h"

namespace weft::gpu {

// A fake driver (fake_driver.h) whose kernels run; programs must be loaded with HostCudaOptions.
// Whether there is a compiler for it.
bool HasHostCompiler();
std::shared_ptr<const CudaDriver> MakeHostCudaDriver(int64_t bytes);
// Hands the driver texts instead of what NVRTC would make of them.
runtime::LoadOptions HostCudaOptions();

}  // namespace weft::gpu
