// Memory of devices: who holds it, where it lies, how much there is.
//
// Memory is taken and given back in the order of a stream: work that was enqueued before may still
// use what is freed, and what is taken then may be the same bytes. The host never waits for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/mutex.h"
#include "program/program.h"

namespace weft::runtime {

class Stream;
using program::MemorySpace;

inline constexpr int64_t kDeviceAlignment = 256;  // of device and pinned memory

// Bytes of one space. kDevice: the host may not look, unless Device::host_visible() says so.
class Allocation {
 public:
  Allocation() = default;
  // For devices: `stream` is told when it is freed.
  Allocation(std::byte* address, int64_t bytes, MemorySpace space, std::shared_ptr<Stream> stream);
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept;
  ~Allocation() { Free(); }

  explicit operator bool() const { return address_ != nullptr; }
  std::byte* address() const { return address_; }  // not null, even of 0 bytes
  int64_t bytes() const { return bytes_; }
  MemorySpace space() const { return space_; }

  // From now on freed after the work of that stream, which must have waited for what the others
  // do with the memory.
  void FreeAfter(std::shared_ptr<Stream> stream) { stream_ = std::move(stream); }
  void Free();  // behind what its stream has been given so far

 private:
  std::byte* address_ = nullptr;
  int64_t bytes_ = 0;
  MemorySpace space_ = MemorySpace::kDevice;
  std::shared_ptr<Stream> stream_;
};

// Of the device's own memory, by what the host has asked for and given back so far.
struct MemoryStats {
  int64_t in_use = 0;    // bytes
  int64_t peak = 0;      // the most there ever was of it
  int64_t limit = 0;     // 0: none is known
  int64_t reserved = 0;  // taken from the machine, kept for reuse included
  int64_t count = 0;     // allocations in use
};

// The books of a device's memory. From any thread.
class MemoryLedger {
 public:
  MemoryLedger(std::string device, int64_t limit) : device_(std::move(device)), limit_(limit) {}

  Status Take(int64_t bytes);  // RESOURCE_EXHAUSTED beyond the limit
  void Untake(int64_t bytes);  // nothing came of it
  // What was taken has an address; it is named in errors by its label.
  void Add(std::byte* address, int64_t bytes, std::string_view label);
  int64_t Remove(std::byte* address);  // its bytes
  // Asked, in use, limit, the largest allocations; `why` comes behind.
  Error Exhausted(int64_t asked, std::string_view why = {}) const WEFT_EXCLUDES(mutex_);

  // The bytes from `address` on that an allocation in use has there; -1: it has none.
  int64_t BytesAt(const std::byte* address) const;
  MemoryStats stats() const;
  void set_limit(int64_t limit);

 private:
  struct Entry {
    int64_t bytes;
    std::string label;
  };
  Error ExhaustedLocked(int64_t asked, std::string_view why) const WEFT_REQUIRES(mutex_);

  const std::string device_;
  mutable Mutex mutex_;
  int64_t limit_ WEFT_GUARDED_BY(mutex_);
  int64_t in_use_ WEFT_GUARDED_BY(mutex_) = 0, peak_ WEFT_GUARDED_BY(mutex_) = 0;
  std::map<const std::byte*, Entry> entries_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::runtime
