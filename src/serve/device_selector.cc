#include "serve/device_selector.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft::serve {
namespace {

constexpr std::string_view kPolicyNames[] = {"soonest_free", "round_robin"};
constexpr Time kRunsOfMean = 8;  // runs that a mean looks back

}  // namespace

std::string_view NameOf(DeviceSelector::Policy policy) {
  return kPolicyNames[static_cast<size_t>(policy)];
}

std::optional<DeviceSelector::Policy> ParseSelection(std::string_view text) {
  for (size_t i = 0; i < std::size(kPolicyNames); ++i) {
    if (text == kPolicyNames[i]) return static_cast<DeviceSelector::Policy>(i);
  }
  return std::nullopt;
}

DeviceSelector::DeviceSelector(int devices, Policy policy) : policy_(policy) {
  CHECK(devices > 0);
  MutexLock lock(mutex_);
  loads_.resize(static_cast<size_t>(devices));
}

DeviceSelector::Reservation DeviceSelector::Reserve(Time expected) {
  MutexLock lock(mutex_);
  const size_t count = loads_.size();
  size_t best = next_;
  // Of equal work, or none known, the one with fewer runs.
  for (size_t i = 1; policy_ == Policy::kSoonestFree && i < count; ++i) {
    const size_t other = (next_ + i) % count;
    const Load &a = loads_[other], &b = loads_[best];
    if (std::pair(a.work, a.reserved) < std::pair(b.work, b.reserved)) best = other;
  }
  next_ = (best + 1) % count;
  Load& load = loads_[best];
  ++load.reserved, ++load.total;
  load.work += expected;
  return Reservation(this, static_cast<int>(best), expected);
}

void DeviceSelector::Release(int device, Time expected) {
  MutexLock lock(mutex_);
  Load& load = loads_[static_cast<size_t>(device)];
  --load.reserved;
  load.work -= expected;
}

std::vector<DeviceSelector::Load> DeviceSelector::loads() const {
  MutexLock lock(mutex_);
  return loads_;
}

void DeviceTimes::Learn(int device, Time took) {
  MutexLock lock(mutex_);
  if (!seen_[static_cast<size_t>(device)]) {
    seen_[static_cast<size_t>(device)] = true;
    return;
  }
  mean_ = mean_ == 0 ? std::max<Time>(took, 1) : mean_ + (took - mean_) / kRunsOfMean;
}

Time DeviceTimes::expected() const {
  MutexLock lock(mutex_);
  return mean_;
}

int64_t DeviceTimes::warm_ups() const {
  MutexLock lock(mutex_);
  return std::ranges::count(seen_, true);
}

}  // namespace weft::serve
