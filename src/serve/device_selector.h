// Which of several devices runs a request, where its program fits each of them: policy, and what is
// reserved. No clock: times are the caller's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "serve/scheduler.h"

namespace weft::serve {

class DeviceSelector {
 public:
  enum class Policy : uint8_t {
    kSoonestFree,  // by what the runs that it has are expected to take
    kRoundRobin,
  };
  DeviceSelector(int devices, Policy policy);

  // A device that is the holder's, among others, until this goes: behind the run and the copy of
  // its results, so that nobody counts on a device that is not done.
  class Reservation {
   public:
    Reservation(Reservation&& other) noexcept
        : selector_(std::exchange(other.selector_, nullptr)),
          device_(other.device_),
          expected_(other.expected_) {}
    Reservation& operator=(Reservation&&) = delete;
    ~Reservation() {
      if (selector_ != nullptr) selector_->Release(device_, expected_);
    }
    int device() const { return device_; }

   private:
    friend class DeviceSelector;
    Reservation(DeviceSelector* selector, int device, Time expected)
        : selector_(selector), device_(device), expected_(expected) {}
    DeviceSelector* selector_;
    int device_;
    Time expected_;
  };
  // `expected`: how long the run takes, as far as known; 0: not.
  Reservation Reserve(Time expected) WEFT_EXCLUDES(mutex_);

  struct Load {
    int reserved = 0;   // runs that it has
    Time work = 0;      // that those are expected to take
    int64_t total = 0;  // runs so far
  };
  std::vector<Load> loads() const WEFT_EXCLUDES(mutex_);

 private:
  void Release(int device, Time expected) WEFT_EXCLUDES(mutex_);

  const Policy policy_;
  mutable Mutex mutex_;
  std::vector<Load> loads_ WEFT_GUARDED_BY(mutex_);
  size_t next_ WEFT_GUARDED_BY(mutex_) = 0;  // round robin; among equals too
};

std::string_view NameOf(DeviceSelector::Policy policy);  // "soonest_free"
std::optional<DeviceSelector::Policy> ParseSelection(std::string_view text);

// How long a program's runs take on each device. The first one there is warm-up, and not counted.
class DeviceTimes {
 public:
  explicit DeviceTimes(int devices) : seen_(static_cast<size_t>(devices), false) {}
  void Learn(int device, Time took) WEFT_EXCLUDES(mutex_);
  Time expected() const WEFT_EXCLUDES(mutex_);  // 0: not known
  int64_t warm_ups() const WEFT_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::vector<bool> seen_ WEFT_GUARDED_BY(mutex_);
  Time mean_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::serve
