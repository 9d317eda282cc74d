// The devices of one run of a Program for several: one thread each, meeting at collectives. Any
// state in which every device that still runs waits is a deadlock and becomes an error that names
// the steps that wait; a device that fails releases all others.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "program/program.h"

namespace weft::runtime {

class DeviceGroup {
 public:
  using Memory = std::span<const std::span<std::byte>>;  // one span for each use of a step

  explicit DeviceGroup(int64_t devices);

  // Runs fn(device) on all devices at once; the first error. To be called once.
  Status RunAll(const std::function<Status(int64_t)>& fn);

  // A CollectiveStep on one of the devices: waits for the others of its group, then writes what
  // this device gets. The inputs of all stay as they are until every one has read them.
  Status Collective(const program::Program& program, const program::Step& step, int64_t device,
                    Memory memory);
  // The routines device_send and device_recv (program/library.h).
  Status Send(const program::Step& step, int64_t device, std::span<const std::byte> data);
  Status Receive(const program::Step& step, int64_t device, std::span<std::byte> data);

 private:
  struct Device {
    const program::Step* waits_at = nullptr;
    bool finished = false;
    std::map<std::vector<int64_t>, int64_t> visits;  // by meeting place
  };
  struct Meeting {
    std::vector<Memory> memory;  // by place in the group
    size_t arrived = 0, done = 0, left = 0;
  };

  // Waits until `ready`, which whoever makes it so announces with Wake.
  Status WaitUntil(int64_t device, const program::Step& step, const std::function<bool()>& ready)
      WEFT_REQUIRES(mutex_);
  void Wake(int64_t device) WEFT_REQUIRES(mutex_);
  void Finish(int64_t device, const Error* error) WEFT_EXCLUDES(mutex_);
  void Fail(Error error) WEFT_REQUIRES(mutex_);
  void CheckDeadlock() WEFT_REQUIRES(mutex_);

  const int64_t devices_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<Device> state_ WEFT_GUARDED_BY(mutex_);
  int64_t running_ WEFT_GUARDED_BY(mutex_);  // neither finished nor waiting for others to come
  std::optional<Error> error_ WEFT_GUARDED_BY(mutex_);
  // Devices meet by channel (or, without one, step), by who takes part and by how often they have
  // come here before.
  std::map<std::vector<int64_t>, Meeting> meetings_ WEFT_GUARDED_BY(mutex_);
  // By channel, sender and receiver, -1 where anybody may be.
  std::map<std::vector<int64_t>, std::deque<std::vector<std::byte>>> mail_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::runtime
