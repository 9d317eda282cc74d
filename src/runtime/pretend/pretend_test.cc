#include <gtest/gtest.h>

#include <vector>

#include "program/interpret.h"
#include "runtime/device_conformance.h"
#include "runtime/host_device.h"
#include "runtime/pretend/device_memory.h"
#include "runtime/pretend/pretend_device.h"

namespace weft::runtime {
namespace {

// The interpreter on memory of the host's: what the CPU's streams do, without native code.
class InterpretedHost : public HostDevice {
 public:
  InterpretedHost() : HostDevice("host", int64_t{64} << 20) {}

  const program::TargetInfo& target() const override { return target_; }
  Result<std::unique_ptr<LoadedProgram>> Load(program::Program program,
                                              const LoadOptions&) override {
    TRY(program::Verify(program));
    return std::make_unique<Loaded>(std::move(program));
  }

 private:
  class Loaded : public LoadedProgram {
   public:
    explicit Loaded(program::Program program) : program_(std::move(program)) {}
    Status Run(const Call& call) const override {
      std::vector<std::byte*> addresses;
      for (const program::Buffer& b : program_.buffers) {
        addresses.push_back(b.kind == program::BufferKind::kParameter ? call.parameters[b.index]
                            : b.kind == program::BufferKind::kResult  ? call.results[b.index]
                                                                      : nullptr);
      }
      program::InterpretOptions options;
      if (call.call != nullptr) {
        options.call = [&](int64_t, const program::Step& step,
                           std::span<const std::span<std::byte>> memory) {
          return (*call.call)(step, memory);
        };
      }
      return program::InterpretOn(program_, call.device, addresses, options);
    }
    const program::Program& program() const override { return program_; }
    const LoadStats& stats() const override { return stats_; }
    int64_t temp_bytes() const override { return 0; }

   private:
    program::Program program_;
    LoadStats stats_;
  };
  program::TargetInfo target_;
};

DeviceCase PretendCase(std::string name, PretendOptions options) {
  auto make = [options]() -> Result<std::shared_ptr<Device>> {
    return std::shared_ptr<Device>(TRY(PretendDevice::Create(options)));
  };
  return {std::move(name), make, options.runs, options.memory_bytes};
}

INSTANTIATE_TEST_SUITE_P(
    Runtime, DeviceConformance,
    testing::Values(DeviceCase{"Host",
                               []() -> Result<std::shared_ptr<Device>> {
                                 return std::make_shared<InterpretedHost>();
                               },
                               true, int64_t{64} << 20},
                    PretendCase("Pretend", {}),
                    PretendCase("PretendSlow1", {.most_delay = 300, .seed = 1}),
                    PretendCase("PretendSlow2", {.most_delay = 300, .seed = 2}),
                    PretendCase("PretendSlow3", {.most_delay = 500, .seed = 3}),
                    PretendCase("PretendSmall", {.memory_bytes = int64_t{33} << 20}),
                    PretendCase("Null", {.memory_bytes = int64_t{64} << 20, .runs = false})),
    NameOfCase);

std::unique_ptr<PretendDevice> MakePretend(const PretendOptions& options) {
  auto device = PretendDevice::Create(options);
  EXPECT_TRUE(device) << device.error().ToString();
  return std::move(*device);
}

TEST(PretendDeathTest, TheHostCannotTouchDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto device = MakePretend({});
  auto stream = device->NewStream(StreamKind::kCompute);
  auto a = device->AllocateOn(**stream, 100, MemorySpace::kDevice);
  ASSERT_TRUE(a);
  EXPECT_DEATH(*static_cast<volatile std::byte*>(a->address()) = std::byte{1}, "");
}

TEST(Pretend, FreedMemoryIsPoisonedInOrder) {
  auto device = MakePretend({});
  auto stream = *device->NewStream(StreamKind::kCompute);
  auto other = *device->NewStream(StreamKind::kCompute);
  auto a = device->AllocateOn(*stream, 4, MemorySpace::kDevice);
  ASSERT_TRUE(a);
  std::byte fresh[4], one[1] = {std::byte{1}}, used[4];
  std::byte* address = a->address();
  ASSERT_TRUE(stream->Copy(CopyKind::kToHost, fresh, address, 4));
  ASSERT_TRUE(stream->Fill(address, 4, one));
  ASSERT_TRUE(stream->Copy(CopyKind::kToHost, used, address, 4));
  a->Free();
  // The host's books say at once that it is gone.
  EXPECT_FALSE(stream->Copy(CopyKind::kToHost, used, address, 4));
  EXPECT_TRUE(stream->Synchronize());
  EXPECT_EQ(fresh[0], std::byte{0xa5});
  EXPECT_EQ(used[3], std::byte{1});
}

// There is enough, but not in one piece.
TEST(Pretend, AnErrorSaysWhatTheHolesAre) {
  auto device = MakePretend({.memory_bytes = 1 << 20});
  auto stream = *device->NewStream(StreamKind::kCompute);
  std::vector<Allocation> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(*device->AllocateOn(*stream, 1 << 18, MemorySpace::kDevice, "quarter"));
  }
  held[0].Free();
  held[2].Free();
  auto result = device->AllocateOn(*stream, 1 << 19, MemorySpace::kDevice);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kResourceExhausted);
  std::string text = result.error().ToString();
  EXPECT_TRUE(text.contains("524.3 kB are free in 2 holes, the largest has 262.1 kB")) << text;
  EXPECT_TRUE(text.contains("quarter")) << text;
  EXPECT_TRUE(text.contains("in use")) << text;
}

TEST(Pretend, ProgramsMustBeEnqueued) {
  auto device = MakePretend({});
  auto program =
      program::Parse("program p buffer y: s32[] result 0 steps { fill(write y) hex \"00\" }");
  ASSERT_TRUE(program);
  auto loaded = device->Load(std::move(*program), {});
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  Status status = (*loaded)->Run({});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kFailedPrecondition);
}

TEST(Pretend, SeveralDevicesHaveMemoryOfTheirOwn) {
  auto devices = PretendDevice::CreateSeveral(3, {.memory_bytes = 1 << 20});
  ASSERT_TRUE(devices);
  std::vector<StreamPtr> streams;
  std::vector<Allocation> memory;
  for (auto& device : *devices) {
    streams.push_back(*device->NewStream(StreamKind::kCompute));
    memory.push_back(*device->AllocateOn(*streams.back(), 1 << 20, MemorySpace::kDevice));
  }
  EXPECT_FALSE(streams[0]->Copy(CopyKind::kOnDevice, memory[0].address(), memory[1].address(), 8));
  EXPECT_FALSE((*devices)[0]->AllocateOn(*streams[1], 8, MemorySpace::kDevice));
}

// A device of any size, to see what a program would take.
TEST(NullDevice, CountsAndChecks) {
  auto device = MakePretend({.memory_bytes = int64_t{139} << 30, .runs = false});
  auto stream = *device->NewStream(StreamKind::kCompute);
  auto a = device->AllocateOn(*stream, int64_t{100} << 30, MemorySpace::kDevice, "weights");
  ASSERT_TRUE(a) << a.error().ToString();
  auto b = device->AllocateOn(*stream, int64_t{50} << 30, MemorySpace::kDevice);
  ASSERT_FALSE(b);
  EXPECT_TRUE(b.error().ToString().contains("107.37 GB weights")) << b.error().ToString();
  std::byte zero{};
  EXPECT_TRUE(stream->Fill(a->address(), int64_t{100} << 30, std::span(&zero, 1)));
  EXPECT_TRUE(stream->Synchronize());
  EXPECT_EQ(device->counts().fills, 1);
  EXPECT_EQ(device->memory().peak, int64_t{100} << 30);
}

TEST(DeviceMemory, ReusesInStreamOrderAndJoinsBlocks) {
  auto memory = DeviceMemory::Create(1 << 16, true);
  ASSERT_TRUE(memory);
  int stream = 0, other = 0;
  std::byte* a = (*memory)->Take(1 << 15, &stream);
  std::byte* b = (*memory)->Take(1 << 15, &stream);
  EXPECT_EQ((*memory)->Take(1, &stream), nullptr);
  auto freed = (*memory)->Release(a, &stream);
  EXPECT_EQ((*memory)->Take(1, &other), nullptr);  // not for others yet
  EXPECT_EQ((*memory)->Take(256, &stream), a);     // at once for its own
  (*memory)->Settle(freed);
  EXPECT_EQ((*memory)->Take(100, &other), a + 256);  // the rest
  (*memory)->Settle((*memory)->Release(a, &stream));
  (*memory)->Settle((*memory)->Release(a + 256, &stream));
  (*memory)->Settle((*memory)->Release(b, &stream));
  EXPECT_EQ((*memory)->Take(1 << 16, &other), a);  // one block again
}

}  // namespace
}  // namespace weft::runtime
