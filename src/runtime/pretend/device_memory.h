// Memory that the host cannot touch: one file of memory, mapped without access where addresses
// point to, and once more for the device's own threads. Blocks come and go in stream order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"

namespace weft::runtime {

class DeviceMemory {
 public:
  // Not accessible: there are only addresses.
  static Result<std::unique_ptr<DeviceMemory>> Create(int64_t bytes, bool accessible);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  bool Contains(const std::byte* address) const {
    return address >= seen_ && address < seen_ + bytes_;
  }
  // Where the device finds what the host knows by this address; not to be read where it is not
  // accessible.
  std::byte* OnDevice(const std::byte* address) const {
    return own_ != nullptr ? own_ + (address - seen_) : nullptr;
  }

  // A block for `stream` (any pointer that tells streams apart); null: there is none now. What the
  // stream itself has freed is taken first, though the device may not have come by yet.
  std::byte* Take(int64_t bytes, const void* stream);
  // Freed behind the work of `stream`; others have it after Settle.
  struct Freed {
    int64_t number;
    std::byte* address;
    int64_t bytes;
  };
  Freed Release(std::byte* address, const void* stream);
  void Settle(const Freed& freed);
  // What is free lies in so many pieces.
  struct Holes {
    int64_t bytes = 0, count = 0, largest = 0;
  };
  Holes holes() WEFT_EXCLUDES(mutex_);
  // Until everything freed before now has been settled.
  void WaitSettled();

 private:
  struct Pending {
    int64_t number, offset, bytes;
    const void* stream;
  };
  DeviceMemory() = default;
  void AddFree(int64_t offset, int64_t bytes) WEFT_REQUIRES(mutex_);

  std::byte *seen_ = nullptr, *own_ = nullptr;
  int64_t bytes_ = 0;
  Mutex mutex_;
  std::condition_variable settled_;
  int64_t released_ WEFT_GUARDED_BY(mutex_) = 0;              // numbers given out
  std::map<int64_t, int64_t> taken_ WEFT_GUARDED_BY(mutex_);  // offset to bytes
  std::map<int64_t, int64_t> free_ WEFT_GUARDED_BY(mutex_);   // likewise; no two touch
  std::vector<Pending> pending_ WEFT_GUARDED_BY(mutex_);
  std::map<int64_t, int64_t> open_ WEFT_GUARDED_BY(mutex_);  // numbers not settled
};

}  // namespace weft::runtime
