// A CUDA driver without a GPU, for tests: memory is the host's, streams are threads, host functions
// and events are what they are; kernels do nothing.
#pragma once

#include <memory>

#include "gpu/cuda_driver.h"

namespace weft::gpu {

// With `bytes` of memory.
std::shared_ptr<const CudaDriver> MakeFakeDriver(int64_t bytes);
int64_t FakeGraphLaunches();
// What waits for events gets this code from now on, as after a fault of a kernel; 0: none.
void SetFakeFault(int code);  // so far

}  // namespace weft::gpu
