// Running a program on a device with memory of its own.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client/cancel.h"
#include "client/device_runner.h"
#include "client/executable.h"

namespace weft::client {

struct LoadedExecutable::Inputs {
  std::vector<ArrayRef> arrays;  // [device * parameters + parameter]
  std::vector<bool> donated;     // likewise; empty: none
  bool ready = true;             // all are there, without error
  bool defined = true;           // what writes them has been enqueued, or failed
};

// A run that can be cancelled: one with loops, or one that waits for such a run. What the device
// has been given before goes on, so that memory is freed behind it; nobody waits for that.
struct DeviceRun : Cancellable {
  explicit DeviceRun(std::shared_ptr<const Executable> executable)
      : executable(std::move(executable)) {}
  const std::shared_ptr<const Executable> executable;
  std::vector<EventRef> before;  // what it waits for
  EventRef ready = std::make_shared<Event>();
  std::atomic<bool> cancel = false, settled = false;

  void Cancel(std::vector<EventRef>& earlier) override;
  // Once: `ready` has been or is now set.
  void Settle(Status status);
  // Cancelled when its client goes.
  void EndWith(std::shared_ptr<CancelList> list);

 private:
  std::shared_ptr<CancelList> list_;
  std::optional<CancelList::Entry> entry_;
};
// Null: it ends by itself, and what it waits for does too.
std::shared_ptr<DeviceRun> CancellableRun(const std::shared_ptr<Executable>& executable,
                                          std::span<const ArrayRef> arguments,
                                          const std::shared_ptr<CancelList>& list);

struct DeviceResults {
  std::vector<DeviceBytesRef> bytes;  // by output
  EventRef ready;                     // of all of them
};
// Enqueues it, or has it done when it returns where steps are the host's. `run` may be null.
Result<DeviceResults> RunProgram(const std::shared_ptr<Executable>& executable,
                                 Accelerator* accelerator, std::vector<ArrayRef>& arguments,
                                 const std::vector<bool>& donated,
                                 const std::shared_ptr<DeviceRun>& run, uint64_t flow);
// The output is what the device writes, or a copy of it in memory of the host.
void DefineOutput(const ArrayRef& output, const Device& device, const DeviceBytesRef& bytes,
                  const EventRef& ready);
bool CallsOut(const DeviceRunner& runner);

}  // namespace weft::client
