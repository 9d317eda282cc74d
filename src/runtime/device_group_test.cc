#include "runtime/device_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "base/literal.h"

namespace weft::runtime {
namespace {

using program::Parse;
using program::Program;

// x and y of four floats each, on `devices` devices; `step` between them.
constexpr char kApart[] = "buffer x: f32[4] parameter 0 buffer y: f32[4] result 0";
constexpr char kInPlace[] =
    "buffer x: f32[4] parameter 0 donate buffer y: f32[4] result 0 in x at 0";

Program MakeProgram(int64_t devices, const std::string& step, const char* buffers = kApart) {
  auto program = Parse(StrCat("program p devices ", devices, " ", buffers,
                              " steps { meet: collective ", step, " }"));
  EXPECT_TRUE(program.has_value()) << program.error().ToString();
  auto verified = Verify(*program);
  EXPECT_TRUE(verified.has_value()) << verified.error().ToString();
  return std::move(*program);
}

using Array = std::array<float, 4>;
std::span<std::byte> BytesOf(Array& array) {
  return std::as_writable_bytes(std::span(array));
}

// What each device gets when device d brings {d, d + 10, d + 20, d + 30}.
std::vector<Array> RunStep(const Program& program, bool in_place = false, int64_t threads = 0) {
  size_t n = static_cast<size_t>(program.devices);
  std::vector<Array> x(n), y(n);
  DeviceGroup group(program.devices);
  Status status = group.RunAll(
      [&](int64_t device) -> Status {
        Array& mine = x[static_cast<size_t>(device)];
        for (size_t i = 0; i < 4; ++i) {
          mine[i] = static_cast<float>(device) + 10 * static_cast<float>(i);
        }
        Array& out = in_place ? mine : y[static_cast<size_t>(device)];
        std::span<std::byte> memory[] = {BytesOf(mine), BytesOf(out)};
        return group.Collective(program, program.steps[0], device, memory);
      },
      nullptr, threads);
  EXPECT_TRUE(status.has_value()) << status.error().ToString();
  return in_place ? x : y;
}

TEST(DeviceGroup, Kinds) {
  Array sum = {3, 33, 63, 93};
  EXPECT_EQ(RunStep(MakeProgram(3, "all_reduce add(read x, write y)")),
            (std::vector<Array>{sum, sum, sum}));
  EXPECT_EQ(RunStep(MakeProgram(3, "all_reduce max(read x, write y) groups [[0, 2], [1]]")),
            (std::vector<Array>{{2, 12, 22, 32}, {1, 11, 21, 31}, {2, 12, 22, 32}}));
  EXPECT_EQ(RunStep(MakeProgram(2, "all_to_all(read x, write y)")),
            (std::vector<Array>{{0, 10, 1, 11}, {20, 30, 21, 31}}));
  EXPECT_EQ(RunStep(MakeProgram(3, "permute(read x, write y) pairs [[2, 0], [2, 1]]")),
            (std::vector<Array>{{2, 12, 22, 32}, {2, 12, 22, 32}, {}}));
}

// Devices that share threads change over where they wait.
TEST(DeviceGroup, FewThreads) {
  for (int64_t threads : {1, 2, 3}) {
    Array sum = {6, 46, 86, 126};
    EXPECT_EQ(RunStep(MakeProgram(4, "all_reduce add(read x, write y)"), false, threads),
              (std::vector<Array>{sum, sum, sum, sum}));
    EXPECT_EQ(RunStep(MakeProgram(4, "permute(read x, write y) pairs [[3, 0], [0, 1], [1, 3]]"),
                      false, threads),
              (std::vector<Array>{{3, 13, 23, 33}, {0, 10, 20, 30}, {}, {1, 11, 21, 31}}));
  }
}

TEST(DeviceGroup, InPlace) {
  Array sum = {6, 46, 86, 126};
  EXPECT_EQ(RunStep(MakeProgram(4, "all_reduce add(read x, write y)", kInPlace), true),
            (std::vector<Array>{sum, sum, sum, sum}));
  EXPECT_EQ(RunStep(MakeProgram(2, "all_to_all(read x, write y)", kInPlace), true),
            (std::vector<Array>{{0, 10, 1, 11}, {20, 30, 21, 31}}));
  // Who sends and gets nothing has zeroes only once what it sends is read.
  EXPECT_EQ(RunStep(MakeProgram(2, "permute(read x, write y) pairs [[0, 1]]", kInPlace), true),
            (std::vector<Array>{{}, {0, 10, 20, 30}}));
}

TEST(DeviceGroup, PermutesMeetInPairs) {
  // Device 2 never comes: nobody's pair names it together with the others.
  Program program = MakeProgram(4, "permute(read x, write y) pairs [[0, 1], [1, 0], [2, 3]]");
  DeviceGroup group(4);
  std::vector<Array> y(4);
  Status status = group.RunAll([&](int64_t device) -> Status {
    if (device >= 2) return {};
    Array x = {static_cast<float>(device + 1)};
    std::span<std::byte> memory[] = {BytesOf(x), BytesOf(y[static_cast<size_t>(device)])};
    return group.Collective(program, program.steps[0], device, memory);
  });
  ASSERT_TRUE(status.has_value()) << status.error().ToString();
  EXPECT_EQ(y[0][0], 2);
  EXPECT_EQ(y[1][0], 1);
}

// Many elements of every kind of type, on threads that stay: each device's own copy of the sum.
TEST(DeviceGroup, LargeReductionsOfEveryType) {
  KeptThreads threads;
  for (std::string_view type : {"s8", "u8", "s16", "s32", "u64", "f32", "f64", "bf16", "f16"}) {
    for (int64_t n : {3, 5000}) {
      auto program = Parse(
          StrCat("program p devices 3 buffer x: ", type, "[", n, "] parameter 0 buffer y: ", type,
                 "[", n, "] result 0 steps { meet: collective all_reduce add(read x, write y) }"));
      ASSERT_TRUE(program.has_value()) << program.error().ToString();
      const Shape shape = program->buffers[0].shape;
      std::vector<Literal> x, y;
      for (int64_t d = 0; d < 3; ++d) {
        x.emplace_back(shape), y.emplace_back(shape);
        for (int64_t k = 0; k < n; ++k) {
          if (IsFloat(shape.dtype())) {
            x.back().SetDouble(k, static_cast<double>(d + k % 7));
          } else {
            x.back().SetInt(k, d + k % 7);
          }
        }
      }
      DeviceGroup group(3);
      Status status = group.RunAll(
          [&](int64_t device) -> Status {
            Literal &in = x[static_cast<size_t>(device)], &out = y[static_cast<size_t>(device)];
            const size_t bytes = static_cast<size_t>(in.byte_size());
            std::span<std::byte> memory[] = {{in.mutable_data(), bytes},
                                             {out.mutable_data(), bytes}};
            return group.Collective(*program, program->steps[0], device, memory);
          },
          &threads);
      ASSERT_TRUE(status.has_value()) << status.error().ToString();
      for (const Literal& sum : y) {
        for (int64_t k = 0; k < n; ++k) {
          const double got =
              IsFloat(shape.dtype()) ? sum.GetDouble(k) : static_cast<double>(sum.GetInt(k));
          ASSERT_EQ(got, static_cast<double>(3 + 3 * (k % 7))) << type << " " << k;
        }
      }
    }
  }
}

TEST(DeviceGroup, FailureReleasesTheOthers) {
  Program program = MakeProgram(3, "all_reduce add(read x, write y)");
  DeviceGroup group(3);
  Status status = group.RunAll([&](int64_t device) -> Status {
    if (device == 1) return InvalidArgument("no luck");
    Array x = {}, y = {};
    std::span<std::byte> memory[] = {BytesOf(x), BytesOf(y)};
    return group.Collective(program, program.steps[0], device, memory);
  });
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message(), "no luck");
  EXPECT_TRUE(status.error().ToString().contains("on device 1")) << status.error().ToString();
}

// x and y too large to be copied on the way.
constexpr char kLarge[] = "buffer x: f32[40000] parameter 0 buffer y: f32[40000] result 0";

struct LargeArrays {
  std::vector<float> x = std::vector<float>(40000, 1), y = std::vector<float>(40000, 0);
  std::array<std::span<std::byte>, 2> memory() {
    return {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
  }
};

// Device 0 sends to 1 and would get from 2, which fails: 0 keeps its memory until 1 has read it.
TEST(DeviceGroup, WhoFailsInAPermuteKeepsWhatOthersRead) {
  Program program = MakeProgram(3, "permute(read x, write y) pairs [[0, 1], [2, 0]]", kLarge);
  KeptThreads kept;
  for (int round = 0; round < 40; ++round) {
    DeviceGroup group(3);
    std::vector<LargeArrays> arrays(3);
    bool received = false;
    Status status = group.RunAll(
        [&](int64_t device) -> Status {
          if (device == 2) return InvalidArgument("no luck");
          LargeArrays& own = arrays[static_cast<size_t>(device)];
          Status done = group.Collective(program, program.steps[0], device, own.memory());
          if (device == 0) std::ranges::fill(own.x, -1.0f);  // its own again
          if (device == 1) received = done.has_value();
          return done;
        },
        &kept);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().message(), "no luck");
    if (received) EXPECT_EQ(arrays[1].y, std::vector<float>(40000, 1));
  }
}

// A device does not wait for targets that never come.
TEST(DeviceGroup, APermutesTargetFails) {
  Program program = MakeProgram(2, "permute(read x, write y) pairs [[0, 1]]", kLarge);
  for (bool fails : {false, true}) {
    DeviceGroup group(2);
    LargeArrays arrays;
    Status status = group.RunAll([&](int64_t device) -> Status {
      if (device == 1) return fails ? Status(InvalidArgument("no luck")) : Status();
      return group.Collective(program, program.steps[0], device, arrays.memory());
    });
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().message(),
              fails ? "no luck" : "deadlock: device 0 waits at meet, 1 finished");
  }
}

// Steps that meet by channel and bring different sizes: an error for all, after all have looked.
TEST(DeviceGroup, DifferentSizes) {
  for (std::string_view kind : {"all_reduce add", "permute"}) {
    const std::string_view pairs = kind == "permute" ? " pairs [[0, 1], [1, 0]]" : "";
    auto program = Parse(StrCat(
        "program p devices 2 buffer x: f32[4] parameter 0 buffer y: f32[4] result 0 "
        "buffer v: f32[40000] parameter 1 buffer w: f32[40000] result 1 steps { meet: collective ",
        kind, "(read x, write y)", pairs, " channel 1 also: collective ", kind, "(read v, write w)",
        pairs, " channel 1 }"));
    ASSERT_TRUE(program.has_value()) << program.error().ToString();
    DeviceGroup group(2);
    Status status = group.RunAll([&](int64_t device) -> Status {
      LargeArrays large;
      Array x = {}, y = {};
      std::span<std::byte> small[] = {BytesOf(x), BytesOf(y)};
      if (device == 0) return group.Collective(*program, program->steps[0], device, small);
      return group.Collective(*program, program->steps[1], device, large.memory());
    });
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().message(), "collective: devices meet with arrays of different sizes");
  }
}

int64_t ResidentPages() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident;
}

// AddressSanitizer keeps what was freed for a while.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kFreedIsKept = true;
#elif defined(__has_feature)
constexpr bool kFreedIsKept = __has_feature(address_sanitizer);
#else
constexpr bool kFreedIsKept = false;
#endif

// Meetings leave nothing behind.
TEST(DeviceGroup, ManyCollectivesWithoutGrowth) {
  Program sum = MakeProgram(4, "all_reduce add(read x, write y)");
  Program turn = MakeProgram(4, "permute(read x, write y) pairs [[0, 1], [1, 2], [2, 3], [3, 0]]");
  DeviceGroup group(4);
  int64_t before = 0, after = 0;
  Status status = group.RunAll(
      [&](int64_t device) -> Status {
        Array x = {}, y = {};
        std::span<std::byte> memory[] = {BytesOf(x), BytesOf(y)};
        for (int i = 0; i < 10000; ++i) {
          TRY(group.Collective(sum, sum.steps[0], device, memory));
          TRY(group.Collective(turn, turn.steps[0], device, memory));
          if (i == 1000 && device == 0) before = ResidentPages();
        }
        if (device == 0) after = ResidentPages();
        return {};
      },
      nullptr, 1);
  EXPECT_TRUE(status.has_value());
  if (!kFreedIsKept) EXPECT_LT(after - before, 64);  // pages
}

TEST(DeviceGroup, WhoNeverComesIsADeadlock) {
  Program program = MakeProgram(2, "all_reduce add(read x, write y)");
  DeviceGroup group(2);
  Status status = group.RunAll([&](int64_t device) -> Status {
    if (device == 1) return {};
    Array x = {}, y = {};
    std::span<std::byte> memory[] = {BytesOf(x), BytesOf(y)};
    return group.Collective(program, program.steps[0], device, memory);
  });
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message(), "deadlock: device 0 waits at meet, 1 finished");
}

}  // namespace
}  // namespace weft::runtime
