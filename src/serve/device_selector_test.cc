// Requests over several devices: who gets which, and for how long.
#include "serve/device_selector.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "serve/test_model.h"

namespace weft::serve {
namespace {

using Policy = DeviceSelector::Policy;
using testing::Floats;
using testing::TempFolder;
using testing::WriteLinear;

TEST(DeviceSelector, RoundRobinGoesAroundWhateverIsBusy) {
  DeviceSelector selector(3, Policy::kRoundRobin);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(selector.Reserve(i).device(), i % 3);
}

TEST(DeviceSelector, SoonestFreeGoesByTheWorkThatIsThere) {
  DeviceSelector selector(2, Policy::kSoonestFree);
  auto slow = selector.Reserve(10 * kMillisecond);
  EXPECT_EQ(slow.device(), 0);
  auto first = selector.Reserve(kMillisecond), second = selector.Reserve(kMillisecond);
  EXPECT_EQ(first.device(), 1);
  EXPECT_EQ(second.device(), 1);  // two short ones are over before the slow one
  EXPECT_EQ(selector.loads()[1].work, 2 * kMillisecond);
}

// Where nothing is known of their times the one with fewer runs is taken.
TEST(DeviceSelector, RunsOfUnknownLengthAreSpread) {
  DeviceSelector selector(4, Policy::kSoonestFree);
  std::vector<DeviceSelector::Reservation> held;
  std::set<int> devices;
  for (int i = 0; i < 4; ++i) devices.insert(held.emplace_back(selector.Reserve(0)).device());
  EXPECT_EQ(devices.size(), 4u);
}

// A device is taken until the reservation goes, not until another begins.
TEST(DeviceSelector, ReservationsEndWithTheirHolder) {
  DeviceSelector selector(2, Policy::kSoonestFree);
  {
    auto held = selector.Reserve(kMillisecond);
    auto moved = std::move(held);
    EXPECT_EQ(selector.loads()[0].reserved, 1);
    EXPECT_EQ(selector.loads()[0].work, kMillisecond);
  }
  EXPECT_EQ(selector.loads()[0].reserved, 0);
  EXPECT_EQ(selector.loads()[0].work, 0);
  EXPECT_EQ(selector.loads()[0].total, 1);
}

TEST(DeviceSelector, PoliciesHaveNames) {
  EXPECT_EQ(ParseSelection("round_robin"), Policy::kRoundRobin);
  EXPECT_EQ(ParseSelection(NameOf(Policy::kSoonestFree)), Policy::kSoonestFree);
  EXPECT_EQ(ParseSelection("random"), std::nullopt);
}

TEST(DeviceTimes, TheFirstRunOnEachDeviceIsWarmUp) {
  DeviceTimes times(2);
  times.Learn(0, kSecond);
  EXPECT_EQ(times.expected(), 0);
  times.Learn(0, kMillisecond);
  times.Learn(1, kSecond);
  EXPECT_EQ(times.expected(), kMillisecond);
  EXPECT_EQ(times.warm_ups(), 2);
}

// A server on the devices of a GPU: weights are on each of them, every one answers, and all are
// free behind the last answer.
TEST(DeviceSelector, RequestsRunOnEveryDevice) {
  setenv("WEFT_GPU_DEVICES", "3", 1);
  setenv("WEFT_CACHE", "0", 1);
  auto backend = MakeClientBackend({.selection = Policy::kRoundRobin});
  unsetenv("WEFT_GPU_DEVICES");
  ASSERT_TRUE(backend);
  if (!(*backend)->is_gpu()) GTEST_SKIP() << "no device with memory of its own";
  TempFolder folder;
  WriteLinear(folder.path() + "/m/1", 2, 1, {1});
  const Backend& devices = **backend;
  EXPECT_EQ(devices.Lanes(), 3);
  Server server(std::move(*backend), DefaultServerOptions(3));
  ASSERT_TRUE(server.models().SetConfig({{"m", folder.path() + "/m"}}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        InferRequest request{.model = {"m"}};
        request.inputs.push_back({"x", Floats({1, 2}, {1, 2})});
        auto response = server.InferAndWait(std::move(request));
        ASSERT_TRUE(response) << response.error().ToString();
        EXPECT_EQ(response->outputs[0].value.GetDouble(1), 5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<DeviceSelector::Load> loads = devices.DeviceLoads();
  ASSERT_EQ(loads.size(), 3u);
  for (const DeviceSelector::Load& load : loads) {
    EXPECT_GE(load.total, 10);
    EXPECT_EQ(load.reserved, 0);
  }
}

}  // namespace
}  // namespace weft::serve
