#include "device.h"

#include <algorithm>
#include <cstdlib>

#include "base/str.h"
#include "cpu/device.h"
#include "gpu/cuda_device.h"
#include "host_cuda_device.h"
#include "runtime/pretend/pretend_device.h"

namespace weft::tools {

Result<std::string> TakeDeviceName(Args& args) {
  std::string name = args.Value("--device").value_or("cpu");
  if (std::ranges::find(kDeviceNames, name) != std::end(kDeviceNames)) return name;
  return InvalidArgument("unknown device: ", name, "; known are cpu, gpu, pretend, host-cuda");
}

Result<std::shared_ptr<runtime::Device>> OpenDevice(std::string_view name) {
  if (name == "gpu") {
    gpu::CudaOptions options;
    if (const char* tool = std::getenv(gpu::kNvtxVariable)) options.nvtx_library = tool;
    return std::shared_ptr(TRY(gpu::CreateCudaDevice(options)));
  }
  if (name == "cpu") return std::shared_ptr(TRY(cpu::CreateDevice()));
  if (name == "host-cuda") return OpenHostCudaDevice();
  // Streams do not dawdle: the device's own tests do that, here many modules shall run.
  runtime::PretendOptions options;
  options.memory_bytes = int64_t{1} << 30;
  return std::shared_ptr<runtime::Device>(TRY(runtime::PretendDevice::Create(options)));
}

}  // namespace weft::tools
