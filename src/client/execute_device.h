// Running a program on a device with memory of its own.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "client/device_runner.h"
#include "client/executable.h"

namespace weft::client {

struct LoadedExecutable::Inputs {
  std::vector<ArrayRef> arrays;  // [device * parameters + parameter]
  std::vector<bool> donated;     // likewise; empty: none
  bool ready = true;             // all are there, without error
  bool defined = true;           // what writes them has been enqueued, or failed
};

struct DeviceResults {
  std::vector<DeviceBytesRef> bytes;  // by output
  EventRef ready;                     // of all of them
};
// Enqueues it, or has it done when it returns where steps are the host's.
Result<DeviceResults> RunProgram(const std::shared_ptr<Executable>& executable,
                                 Accelerator* accelerator, std::vector<ArrayRef>& arguments,
                                 const std::vector<bool>& donated, const std::atomic<bool>* cancel);
// The output is what the device writes, or a copy of it in memory of the host.
void DefineOutput(const ArrayRef& output, const Device& device, const DeviceBytesRef& bytes,
                  const EventRef& ready);
bool CallsOut(const DeviceRunner& runner);

}  // namespace weft::client
