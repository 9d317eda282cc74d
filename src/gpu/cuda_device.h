// NVIDIA GPUs as devices, by the driver's API.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "runtime/device.h"

namespace weft::gpu {

class CudaDriver;

// Set by profilers and by compute-sanitizer for what they run: CudaOptions::nvtx_library.
inline constexpr const char* kNvtxVariable = "NVTX_INJECTION64_PATH";

struct CudaOptions {
  int number = 0;                              // of the GPU
  int64_t memory_limit = 0;                    // bytes; 0: all there is
  bool tunes = true;                           // tries algorithms of libraries
  std::span<const std::string> nvrtc_folders;  // as Nvrtc::Load; for NVIDIA's other libraries too
  std::shared_ptr<const CudaDriver> driver;    // null: the one of this machine
  std::string nvtx_library;                    // of a tool that listens; empty: none does
};

// UNAVAILABLE where there is no driver, no GPU or no NVRTC.
Result<std::unique_ptr<runtime::Device>> CreateCudaDevice(const CudaOptions& options = {});

}  // namespace weft::gpu
