// Devices by name, for commands that take --device.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "args.h"
#include "base/error.h"
#include "runtime/device.h"

namespace weft::tools {

inline constexpr std::string_view kDeviceNames[] = {"cpu", "gpu", "pretend", "host-cuda"};

// The value of --device, "cpu" without one. Nothing is opened: processes that fork open theirs.
Result<std::string> TakeDeviceName(Args& args);

// "cpu", "gpu" (the first CUDA GPU), "pretend" (runtime/pretend: the H200's programs, interpreted),
// "host-cuda" (host_cuda_device.h: the kernels' CUDA C as C++).
Result<std::shared_ptr<runtime::Device>> OpenDevice(std::string_view name);

}  // namespace weft::tools
