// Asynchronous collectives: the same results as in place, while devices go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/str.h"
#include "runtime/device_group.h"

namespace weft::runtime {
namespace {

using program::Program;
using AsyncClock = std::chrono::steady_clock;

constexpr int64_t kElements = 4096;  // of f32: more than is copied aside

Program AsyncProgram(int64_t devices, const std::string& collective, int64_t given = kElements,
                     int64_t got = kElements) {
  auto program = program::Parse(StrCat(
      "program p devices ", devices, " buffer x: f32[", given, "] parameter 0 buffer y: f32[", got,
      "] result 0 steps { async e meet: collective ", collective, " wait e }"));
  EXPECT_TRUE(program.has_value()) << program.error().ToString();
  auto verified = Verify(*program);
  EXPECT_TRUE(verified.has_value()) << verified.error().ToString();
  return std::move(*program);
}

struct Way {
  bool async = false, transfers = false;
  int64_t threads = 0;
  double link = 0;
};

// What each device gets when device d brings d, d + 1, ...; three times in a row.
std::vector<std::vector<float>> RunAsync(const Program& program, const Way& way) {
  const auto n = static_cast<size_t>(program.devices);
  const auto given = static_cast<size_t>(program.buffers[0].shape.elements());
  const auto got = static_cast<size_t>(program.buffers[1].shape.elements());
  std::vector<std::vector<float>> x(n, std::vector<float>(given)), y(n, std::vector<float>(got));
  DeviceGroup group(program.devices);
  group.SimulateLink(way.link);
  Status status = group.RunAll(
      [&](int64_t device) -> Status {
        const auto d = static_cast<size_t>(device);
        std::iota(x[d].begin(), x[d].end(), static_cast<float>(device));
        std::span<std::byte> memory[] = {std::as_writable_bytes(std::span(x[d])),
                                         std::as_writable_bytes(std::span(y[d]))};
        for (int round = 0; round < 3; ++round) {
          const program::Step& step = program.steps[0];
          if (way.async) {
            TRY(group.Start(program, step, device, memory));
            TRY(group.Wait("e", device));
          } else {
            TRY(group.Collective(program, step, device, memory));
          }
          for (float& element : x[d]) element += 1;  // its memory is the device's again
        }
        return {};
      },
      nullptr, way.threads, way.transfers);
  EXPECT_TRUE(status.has_value()) << status.error().ToString();
  return y;
}

TEST(AsyncCollective, SameResults) {
  const Program programs[] = {
      AsyncProgram(4, "all_reduce add(read x, write y)"),
      AsyncProgram(4, "all_reduce max(read x, write y) groups [[0, 2], [1], [3]]"),
      AsyncProgram(4, "all_gather(read x, write y)", kElements, 4 * kElements),
      AsyncProgram(4, "reduce_scatter add(read x, write y)", kElements, kElements / 4),
      AsyncProgram(4, "all_to_all(read x, write y) groups [[0, 1], [2, 3]]"),
      AsyncProgram(4, "permute(read x, write y) pairs [[0, 1], [1, 2], [2, 3], [3, 0]]"),
      AsyncProgram(4, "permute(read x, write y) pairs [[2, 0], [2, 1], [2, 2]]"),
  };
  for (const Program& program : programs) {
    const auto expected = RunAsync(program, {});
    for (int64_t threads : {0, 1, 2}) {
      EXPECT_EQ(RunAsync(program, {true, false, threads, 0}), expected) << threads;
      EXPECT_EQ(RunAsync(program, {true, true, threads, 0}), expected) << threads;
      EXPECT_EQ(RunAsync(program, {true, true, threads, 1e8}), expected) << threads;
      EXPECT_EQ(RunAsync(program, {false, true, threads, 1e8}), expected) << threads;
    }
  }
}

// Four devices on one thread: all are on their way before the wire has done anything, and none is
// through before it has done all of it.
TEST(AsyncCollective, DevicesGoOnDuringTheTransfer) {
  const Program program = AsyncProgram(4, "all_reduce add(read x, write y)");
  std::vector<std::vector<float>> x(4, std::vector<float>(kElements, 1)), y = x;
  DeviceGroup group(4);
  constexpr double kSeconds = 0.4;
  group.SimulateLink(2 * 0.75 * kElements * sizeof(float) / kSeconds);
  const AsyncClock::time_point begin = AsyncClock::now();
  auto since = [&] { return std::chrono::duration<double>(AsyncClock::now() - begin).count(); };
  std::array<double, 4> started = {}, ended = {};
  Status status = group.RunAll(
      [&](int64_t device) -> Status {
        const auto d = static_cast<size_t>(device);
        std::span<std::byte> memory[] = {std::as_writable_bytes(std::span(x[d])),
                                         std::as_writable_bytes(std::span(y[d]))};
        TRY(group.Start(program, program.steps[0], device, memory));
        started[d] = since();
        TRY(group.Wait("e", device));
        ended[d] = since();
        return {};
      },
      nullptr, 1, true);
  ASSERT_TRUE(status.has_value()) << status.error().ToString();
  for (size_t d = 0; d < 4; ++d) {
    EXPECT_LT(started[d], kSeconds);
    EXPECT_GE(ended[d], kSeconds);
    EXPECT_EQ(y[d], std::vector<float>(kElements, 4));
  }
}

// A device that fails with a transfer under way: its memory may go, and the others hear of it.
TEST(AsyncCollective, ADeviceFailsInFlight) {
  const Program program = AsyncProgram(2, "all_reduce add(read x, write y)");
  for (bool all_come : {false, true}) {
    for (int64_t threads : {0, 1}) {
      DeviceGroup group(2);
      group.SimulateLink(1e3);  // for half a minute
      Status status = group.RunAll(
          [&](int64_t device) -> Status {
            std::vector<float> x(kElements, 1), y = x;
            std::span<std::byte> memory[] = {std::as_writable_bytes(std::span(x)),
                                             std::as_writable_bytes(std::span(y))};
            auto run = [&]() -> Status {
              if (device == 0 || all_come) {
                TRY(group.Start(program, program.steps[0], device, memory));
              }
              if (device == 1) return InvalidArgument("no luck");
              return group.Wait("e", device);
            };
            Status mine = run();
            if (!mine) group.Abandon(device);
            return mine;
          },
          nullptr, threads, true);
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().message(), "no luck");
    }
  }
}

TEST(AsyncCollective, WhoNeverComesIsADeadlock) {
  const Program program = AsyncProgram(2, "all_reduce add(read x, write y)");
  DeviceGroup group(2);
  Status status = group.RunAll(
      [&](int64_t device) -> Status {
        if (device == 1) return {};
        std::vector<float> x(kElements, 1), y = x;
        std::span<std::byte> memory[] = {std::as_writable_bytes(std::span(x)),
                                         std::as_writable_bytes(std::span(y))};
        TRY(group.Start(program, program.steps[0], device, memory));
        Status waited = group.Wait("e", device);
        group.Abandon(device);
        return waited;
      },
      nullptr, 0, true);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message(), "deadlock: device 0 waits at meet, 1 finished");
}

// A step as schedules have it: the weights of the next layer are gathered while this one computes,
// the gradients of the last are scattered behind it. Several transfers of a device are in flight.
class ShardedStep {
 public:
  static constexpr size_t kLayers = 4, kShard = 512, kDevices = 8;

  ShardedStep() : program_(*program::Parse(Text())) {
    for (Arrays& a : arrays_) {
      a.resize(3 * kLayers);
      for (size_t l = 0; l < kLayers; ++l) {
        a[3 * l].resize(kShard);
        a[3 * l + 1].resize(kDevices * kShard);
        a[3 * l + 2].resize(kShard);
      }
    }
  }

  // Weights of device d, layer l, round r are d + l + r; gradients twice that of their owner.
  Status Run(DeviceGroup& group, int64_t device, int round) {
    Arrays& a = arrays_[static_cast<size_t>(device)];
    auto start = [&](size_t l, bool gathers) {
      auto bytes = [&](size_t k) { return std::as_writable_bytes(std::span(a[k])); };
      std::span<std::byte> memory[] = {bytes(gathers ? 3 * l : 3 * l + 1),
                                       bytes(gathers ? 3 * l + 1 : 3 * l + 2)};
      return group.Start(program_, program_.steps[4 * l + (gathers ? 0 : 2)], device, memory);
    };
    auto begin = [&](size_t l) {
      std::ranges::fill(a[3 * l], static_cast<float>(static_cast<size_t>(device) + l) +
                                      static_cast<float>(round));
      return start(l, true);
    };
    TRY(begin(0));
    for (size_t l = 0; l < kLayers; ++l) {
      if (l + 1 < kLayers) TRY(begin(l + 1));
      TRY(group.Wait(StrCat("g", l), device));
      for (float& x : a[3 * l + 1]) x *= 2;
      TRY(start(l, false));
      if (l > 0) TRY(Check(group, device, l - 1, round));
    }
    return Check(group, device, kLayers - 1, round);
  }

 private:
  using Arrays = std::vector<std::vector<float>>;
  static std::string Text() {
    std::string buffers, steps;
    for (size_t l = 0; l < kLayers; ++l) {
      StrAppend(buffers, " buffer w", l, ": f32[", kShard, "] parameter ", l);
      StrAppend(buffers, " buffer f", l, ": f32[", kDevices * kShard, "] temp");
      StrAppend(buffers, " buffer s", l, ": f32[", kShard, "] result ", l);
      StrAppend(steps, " async g", l, " gather", l, ": collective all_gather(read w", l,
                ", write f", l, ") channel ", 2 * l + 1, " wait g", l);
      StrAppend(steps, " async s", l, " scatter", l, ": collective reduce_scatter add(read f", l,
                ", write s", l, ") channel ", 2 * l + 2, " wait s", l);
    }
    return StrCat("program p devices ", kDevices, buffers, " steps {", steps, " }");
  }
  Status Check(DeviceGroup& group, int64_t device, size_t l, int round) {
    TRY(group.Wait(StrCat("s", l), device));
    const float want =
        2 * static_cast<float>(kDevices) *
        (static_cast<float>(static_cast<size_t>(device) + l) + static_cast<float>(round));
    for (float x : arrays_[static_cast<size_t>(device)][3 * l + 2]) {
      if (x != want) return InvalidArgument("layer ", l, ": ", x, " instead of ", want);
    }
    return {};
  }

  Program program_;
  std::array<Arrays, kDevices> arrays_;
};

TEST(AsyncCollective, StepsWithSeveralTransfersInFlight) {
  for (double link : {0.0, 5e7}) {
    for (int64_t threads : {0, 1, 3}) {
      ShardedStep step;
      DeviceGroup group(ShardedStep::kDevices);
      group.SimulateLink(link);
      Status status = group.RunAll(
          [&](int64_t device) -> Status {
            for (int round = 0; round < 10; ++round) TRY(step.Run(group, device, round));
            return {};
          },
          nullptr, threads, true);
      EXPECT_TRUE(status.has_value()) << status.error().ToString();
    }
  }
}

}  // namespace
}  // namespace weft::runtime
