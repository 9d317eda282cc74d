// A CUDA driver without a GPU, for tests: memory is the host's, streams are threads, host functions
// and events are what they are; kernels do nothing.
#pragma once

#include <memory>

#include "gpu/cuda_driver.h"

namespace weft::gpu {

// With `bytes` of memory.
std::shared_ptr<const CudaDriver> MakeFakeDriver(int64_t bytes);
int64_t FakeGraphLaunches();  // so far

}  // namespace weft::gpu
