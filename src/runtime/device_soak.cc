// Nearly all of a device's memory, again and again: allocators must not run out of what is free.
#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "runtime/device_conformance.h"

namespace weft::runtime {
namespace {

constexpr double kNearlyAll = 0.95;

// Freed from the front, from the back, or every other one first.
void FreeInOrder(std::vector<Allocation>& held, int64_t order) {
  if (order % 3 == 1) {
    while (!held.empty()) held.pop_back();
  } else if (order % 3 == 2) {
    for (size_t i = 0; i < held.size(); i += 2) held[i].Free();
  }
  for (Allocation& allocation : held) allocation.Free();
  held.clear();
}

}  // namespace

// Whole, in two, in three, ... and all of it given back between.
TEST_P(DeviceConformance, AlternatingAllocationsOfNearlyAllMemory) {
  const int64_t limit = device_->memory().limit;
  if (limit == 0) GTEST_SKIP() << "the device has no limit";
  const auto all = static_cast<int64_t>(static_cast<double>(limit) * kNearlyAll);
  const int64_t count = computes() && GetParam().limit == 0 ? 10'000 : 400;
  constexpr int64_t kParts[] = {1, 7, 2, 31, 3, 61, 5, 127};
  std::vector<Allocation> held;
  for (int64_t done = 0, round = 0; done < count; ++round) {
    const int64_t parts = kParts[round % std::ssize(kParts)];
    Stream& stream = round % 4 == 3 ? *to_device_ : *compute_;
    for (int64_t i = 0; i < parts; ++i, ++done) {
      auto next = device_->AllocateOn(stream, all / parts, MemorySpace::kDevice, "soak");
      ASSERT_TRUE(next) << "allocation " << done << ", " << i << " of " << parts << ": "
                        << next.error().ToString();
      held.push_back(std::move(*next));
    }
    FreeInOrder(held, round);
    // Memory in one piece: what is allocated while others are still given back may lie in the
    // middle of it.
    if (GetParam().limit == 0 && computes()) continue;
    ASSERT_TRUE(compute_->Synchronize());
    ASSERT_TRUE(to_device_->Synchronize());
  }
  EXPECT_EQ(device_->memory().in_use, 0);
}

// Sizes of all kinds, of which random ones are freed until the next fits. Where memory is one piece
// there are holes between them; on GPUs pages are put together behind addresses.
TEST_P(DeviceConformance, MixedAllocationsOfNearlyAllMemory) {
  const int64_t limit = device_->memory().limit;
  if (limit == 0) GTEST_SKIP() << "the device has no limit";
  if (GetParam().limit != 0 || !computes()) GTEST_SKIP() << "only where memory is large";
  const auto all = static_cast<int64_t>(static_cast<double>(limit) * kNearlyAll);
  std::mt19937_64 random(7);
  std::vector<Allocation> held;
  int64_t in_use = 0, most = 0, refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    // From a few KB to a sixteenth of everything, small ones as often as large ones.
    const int shift = static_cast<int>(random() % 20);
    const int64_t bytes =
        std::max<int64_t>(limit / 16 >> shift, 1) * static_cast<int64_t>(3 + random() % 6) / 8;
    while (in_use + bytes > all) {
      const size_t k = random() % held.size();
      in_use -= held[k].bytes();
      held[k] = std::move(held.back());
      held.pop_back();
    }
    auto next = device_->AllocateOn(*compute_, bytes, MemorySpace::kDevice, "soak");
    if (!next) {
      if (++refused == 1) {
        std::printf("first refused: allocation %d of %lld bytes, %lld in use: %s\n", i,
                    static_cast<long long>(bytes), static_cast<long long>(in_use),
                    next.error().ToString().c_str());
      }
      continue;
    }
    in_use += bytes;
    most = std::max(most, in_use);
    held.push_back(std::move(*next));
  }
  std::printf("mixed allocations: %lld of 10000 refused, most in use %.1f %% of memory\n",
              static_cast<long long>(refused),
              100.0 * static_cast<double>(most) / static_cast<double>(limit));
  EXPECT_EQ(refused, 0);
}

}  // namespace weft::runtime
