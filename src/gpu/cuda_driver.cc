#include "gpu/cuda_driver.h"

#include <dlfcn.h>

#include "base/str.h"

namespace weft::gpu {

Result<std::shared_ptr<const CudaDriver>> CudaDriver::Load(const std::string& path) {
  auto driver = std::shared_ptr<CudaDriver>(new CudaDriver);
  driver->library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver->library_ == nullptr) {
    Error error(Code::kUnavailable, StrCat("cuda: no ", path, " on this machine"));
    return std::unexpected(error.Hint("install NVIDIA's driver, or run on the CPU"));
  }
  std::string missing;
#define WEFT_CUDA_FIND(symbol, name, parameters)                                        \
  driver->name = reinterpret_cast<int(*) parameters>(dlsym(driver->library_, #symbol)); \
  if (driver->name == nullptr) StrAppend(missing, " " #symbol);
  WEFT_CUDA_FUNCTIONS(WEFT_CUDA_FIND)
#undef WEFT_CUDA_FIND
#define WEFT_CUDA_FIND(symbol, name, parameters) \
  driver->name = reinterpret_cast<int(*) parameters>(dlsym(driver->library_, #symbol));
  WEFT_CUDA_OPTIONAL_FUNCTIONS(WEFT_CUDA_FIND)
#undef WEFT_CUDA_FIND
  if (!missing.empty()) {
    Error error(Code::kUnavailable, StrCat("cuda: the driver lacks", missing));
    return std::unexpected(error.Hint("drivers of CUDA 12 and later have them"));
  }
  if (int code = driver->Init(0)) {
    return MakeError(Code::kUnavailable,
                     "cuda: the driver does not start: ", driver->Describe(code));
  }
  driver->DriverGetVersion(&driver->version_);
  driver->DeviceGetCount(&driver->devices_);
  if (driver->devices_ == 0) return MakeError(Code::kUnavailable, "cuda: no GPU on this machine");
  return driver;
}

// The library stays: its threads would not survive that it goes.
CudaDriver::~CudaDriver() = default;

std::string CudaDriver::Describe(int code) const {
  const char *name = nullptr, *text = nullptr;
  GetErrorName(code, &name);
  GetErrorString(code, &text);
  if (name == nullptr) return StrCat("CUDA error ", code);
  return StrCat(name, " (", text != nullptr ? text : "", ")");
}

Status CudaDriver::Check(int code, std::string_view what) const {
  if (code == kCudaSuccess) return {};
  return MakeError(code == kCudaOutOfMemory ? Code::kResourceExhausted : Code::kInternal,
                   "cuda: ", what, ": ", Describe(code));
}

}  // namespace weft::gpu
