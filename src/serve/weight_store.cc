#include "serve/weight_store.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace weft::serve {
namespace {

// Odd numbers without a pattern (digits of pi and e).
constexpr std::array<uint64_t, 4> kMultipliers = {0x243f6a8885a308d3, 0x13198a2e03707345,
                                                  0xb7e151628aed2a6b, 0x9e3779b97f4a7c15};
constexpr size_t kLanes = 8;  // independent, so that multiplications overlap

uint64_t Word(const char* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

uint64_t Mixed(uint64_t x) {
  x ^= x >> 32;
  x *= kMultipliers[2];
  x ^= x >> 29;
  x *= kMultipliers[3];
  return x ^ (x >> 32);
}

}  // namespace

ContentKey ContentOf(std::string_view bytes) {
  std::array<uint64_t, kLanes> lanes{};
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = kMultipliers[i % 4] + i;
  constexpr size_t kBlock = kLanes * sizeof(uint64_t);
  size_t at = 0;
  for (; at + kBlock <= bytes.size(); at += kBlock) {
    for (size_t i = 0; i < kLanes; ++i) {
      uint64_t x = lanes[i] ^ Word(bytes.data() + at + i * sizeof(uint64_t));
      // High bits go down before they are multiplied: a product alone only moves bits up, and two
      // that differ in the highest could meet again in the next block.
      lanes[i] = std::rotl((x ^ (x >> 29)) * kMultipliers[i % 2], 31);
    }
  }
  std::array<char, kBlock> rest{};
  std::memcpy(rest.data(), bytes.data() + at, bytes.size() - at);
  for (size_t i = 0; i < kLanes; ++i) {
    lanes[i] = Mixed(lanes[i] ^ Word(rest.data() + i * sizeof(uint64_t)));
  }
  ContentKey key{bytes.size(), ~static_cast<uint64_t>(bytes.size())};
  for (size_t i = 0; i < kLanes; ++i) {
    key.first = Mixed(key.first ^ lanes[i]) + std::rotl(key.first, 7);
    key.second = Mixed(key.second + std::rotl(lanes[i], 17)) ^ std::rotl(key.second, 11);
  }
  return key;
}

Result<DeviceValueRef> WeightStore::Place(Literal value) {
  Key key{ContentOf({reinterpret_cast<const char*>(value.data()),
                     static_cast<size_t>(value.byte_size())}),
          value.dtype(),
          {value.shape().dims().begin(), value.shape().dims().end()}};
  DeviceValueRef there;
  {
    MutexLock lock(mutex_);
    // Those that nobody uses any more go with the next one that comes.
    std::erase_if(values_, [](const auto& entry) { return entry.second.expired(); });
    if (auto found = values_.find(key); found != values_.end()) there = found->second.lock();
  }
  // The same hash is not yet the same bytes.
  if (there != nullptr && TRY(backend_.Holds(*there, value))) {
    MutexLock lock(mutex_);
    ++shared_;
    return there;
  }
  DeviceValueRef placed = TRY(backend_.Place(std::move(value)));
  MutexLock lock(mutex_);
  values_.insert_or_assign(std::move(key), placed);
  return placed;
}

int64_t WeightStore::shared() const {
  MutexLock lock(mutex_);
  return shared_;
}

}  // namespace weft::serve
