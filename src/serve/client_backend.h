// The devices of a client (the objects that the plugin has too) as a Backend.
#pragma once

#include <memory>

#include "base/error.h"
#include "serve/backend.h"
#include "serve/device_selector.h"

namespace weft::serve {

struct BackendOptions {
  // Which of several devices with memory of their own takes a request; weights are on each.
  DeviceSelector::Policy selection = DeviceSelector::Policy::kSoonestFree;
  // Runs that a device with memory of its own is given side by side: what one leaves idle, others
  // use, and one of the high class has not to wait for others to end. 0: WEFT_GPU_DEVICES, or,
  // where that asks for no more than one, eight.
  int lanes = 0;
};

// By the environment: WEFT_PLATFORM, WEFT_CACHE, WEFT_THREADS, ...
Result<std::unique_ptr<Backend>> MakeClientBackend(const BackendOptions& options = {});

}  // namespace weft::serve
