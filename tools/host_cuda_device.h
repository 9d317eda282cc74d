// The CUDA device without a GPU, for tests: kernels are compiled by a C++ compiler, threads of a
// block are fibers (gpu/host_cuda.h). What the printer of CUDA C gets wrong shows on any machine.
#pragma once

#include <memory>

#include "base/error.h"
#include "runtime/device.h"

namespace weft::tools {

// UNIMPLEMENTED in builds without tests, which have no compiler to call.
Result<std::shared_ptr<runtime::Device>> OpenHostCudaDevice();

}  // namespace weft::tools
