// GPUs as devices: names of machines and launch checks anywhere, the rest where there is a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "base/trace.h"
#include "gpu/cuda_device.h"
#include "gpu/cuda_driver.h"
#include "gpu/cuda_machines.h"
#include "gpu/cuda_program.h"
#include "gpu/fake_driver.h"
#include "gpu/nvrtc.h"
#include "gpu/render_program.h"
#include "program/builder.h"
#include "runtime/device_conformance.h"

namespace weft::gpu {
namespace {

const std::string kNvidiaPackages[] = {".venv/lib/python3*/site-packages/nvidia/*/lib"};

// All but kernels, on any machine that has NVRTC.
auto FakeGpu(int64_t bytes) {
  CudaOptions options;
  options.driver = MakeFakeDriver(bytes);
  options.nvrtc_folders = kNvidiaPackages;
  return CreateCudaDevice(options);
}

}  // namespace
}  // namespace weft::gpu

namespace weft::runtime {
namespace {

DeviceCase CudaCase(std::string name, int64_t limit) {
  auto make = [limit]() -> Result<std::shared_ptr<Device>> {
    gpu::CudaOptions options;
    options.memory_limit = limit;
    return std::shared_ptr<Device>(TRY(gpu::CreateCudaDevice(options)));
  };
  return {std::move(name), make, true, limit};
}

DeviceCase FakeCase() {
  auto make = []() -> Result<std::shared_ptr<Device>> {
    return std::shared_ptr<Device>(TRY(gpu::FakeGpu(int64_t{64} << 20)));
  };
  return {.name = "FakeDriver", .make = make, .computes = false};
}

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceConformance,
                         testing::Values(CudaCase("Cuda", 0),
                                         CudaCase("CudaLimited", int64_t{64} << 20), FakeCase()),
                         NameOfCase);

}  // namespace
}  // namespace weft::runtime

namespace weft::gpu {
namespace {

struct MachineCase {
  int major, minor, cuda;
  const char* name;
  CudaMachine::Kind kind;
};
constexpr MachineCase kMachines[] = {
    {8, 0, 12000, "sm_80", CudaMachine::kPlain},
    {8, 6, 12000, "sm_86", CudaMachine::kPlain},
    {8, 7, 12000, "sm_87", CudaMachine::kPlain},
    {8, 8, 13000, "sm_87", CudaMachine::kPlain},  // not known: the next before it
    {8, 9, 12000, "sm_89", CudaMachine::kPlain},
    {9, 0, 12000, "sm_90a", CudaMachine::kExact},
    {9, 0, 13000, "sm_90a", CudaMachine::kExact},
    {10, 0, 12080, "sm_100a", CudaMachine::kExact},
    {10, 1, 12080, "sm_101a", CudaMachine::kExact},
    {10, 1, 13000, "sm_100f", CudaMachine::kFamily},  // has another name there
    {10, 3, 12080, "sm_101", CudaMachine::kPlain},    // the compiler is too old for families
    {10, 3, 12090, "sm_103a", CudaMachine::kExact},
    {10, 7, 13000, "sm_103f", CudaMachine::kFamily},
    {11, 0, 13000, "sm_110a", CudaMachine::kExact},
    {12, 0, 12080, "sm_120a", CudaMachine::kExact},
    {12, 1, 12080, "sm_120", CudaMachine::kPlain},
    {12, 1, 12090, "sm_121a", CudaMachine::kExact},
    {12, 5, 13000, "sm_121f", CudaMachine::kFamily},
    {10, 0, 12040, "compute_90", CudaMachine::kPtx},  // the driver compiles
    {13, 0, 13000, "compute_121", CudaMachine::kPtx},
    {7, 5, 13000, "", CudaMachine::kExact},
};

TEST(CudaMachines, EveryRow) {
  for (const MachineCase& c : kMachines) {
    CudaMachine got = MachineFor(c.major, c.minor, c.cuda);
    EXPECT_EQ(got.name, c.name) << c.major << "." << c.minor << " by " << c.cuda;
    EXPECT_EQ(got.kind, c.kind) << c.major << "." << c.minor << " by " << c.cuda;
  }
}

TEST(CudaMachines, PtxVersions) {
  constexpr std::pair<int, int> kVersions[] = {
      {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84}, {12050, 85},
      {12060, 85}, {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}, {13010, 91},
      {13020, 92}, {13030, 93}, {13040, 94}, {14000, 94}, {11080, 0}};
  for (auto [cuda, ptx] : kVersions) {
    EXPECT_EQ(PtxVersion(cuda), ptx) << cuda;
  }
}

// Names that this machine's compiler knows are those in the table.
TEST(CudaMachines, NvrtcTakesTheNames) {
  auto nvrtc = Nvrtc::Load(kNvidiaPackages);
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().ToString();
  for (const MachineCase& c : kMachines) {
    CudaMachine machine = MachineFor(c.major, c.minor, (*nvrtc)->version());
    if (machine.name.empty()) continue;
    auto code = (*nvrtc)->Compile("extern \"C\" __global__ void f() {}", "f.cu", machine.name);
    EXPECT_TRUE(code) << code.error().ToString();
    if (code) {
      EXPECT_FALSE(code->empty()) << machine.name;
    }
  }
}

TEST(CudaLaunch, ChecksSayWhatIsAskedAndWhatThereIs) {
  CudaLimits limits = {1024, 2147483647, 65536, 232448};
  KernelUse use = {32, 1024, 1000};
  EXPECT_TRUE(CheckLaunch("k", {100, 1024, 0}, use, limits));
  EXPECT_TRUE(CheckLaunch("k", {100, 1024, 231448}, use, limits));
  auto text = [&](const Launch& launch, const KernelUse& u) {
    Status status = CheckLaunch("k", launch, u, limits);
    EXPECT_FALSE(status);
    if (status) return std::string();
    EXPECT_EQ(status.error().code(), Code::kResourceExhausted);
    EXPECT_FALSE(status.error().hint().empty());
    return status.error().message();
  };
  EXPECT_EQ(text({100, 1024, 231449}, use),
            "k: too much shared memory in a block: asked for 232449, the device has 232448");
  EXPECT_EQ(text({100, 1025, 0}, use),
            "k: too many threads in a block: asked for 1025, the device has 1024");
  EXPECT_EQ(text({1, 1024, 0}, {255, 256, 0}),
            "k: too many registers in a block: asked for 261120, the device has 65536");
  EXPECT_EQ(text({int64_t{1} << 31, 32, 0}, use),
            "k: too many blocks: asked for 2147483648, the device has 2147483647");
}

TEST(CudaDriver, WithoutTheLibrarySaysSo) {
  auto driver = CudaDriver::Load("libno-such-cuda.so.1");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code(), Code::kUnavailable);
  EXPECT_TRUE(driver.error().message().contains("no libno-such-cuda.so.1"))
      << driver.error().message();
}

// A tile of more than 48 KiB in shared memory: x reversed in blocks of 16384.
program::Program LargeTile() {
  program::KernelBuilder b("reverse");
  constexpr int64_t kTile = 16384, kThreads = 256;
  auto in = b.Param("x", DType::kF32, 2 * kTile, program::Access::kRead);
  auto out = b.Param("y", DType::kF32, 2 * kTile, program::Access::kWrite);
  using program::LoopKind;
  using program::ValueId;
  b.For(LoopKind::kParallel, 0, 2, [&](ValueId block) {
    auto tile = b.Array("tile", DType::kF32, kTile);
    ValueId base = b.Mul(block, b.Int(kTile));
    b.For(LoopKind::kThread, 0, kThreads, [&](ValueId t) {
      b.For(LoopKind::kSerial, 0, kTile / kThreads, [&](ValueId i) {
        ValueId at = b.Add(b.Mul(i, b.Int(kThreads)), t);
        b.Store(tile, at, b.Load(in, b.Add(base, at)));
      });
    });
    b.For(LoopKind::kThread, 0, kThreads, [&](ValueId t) {
      b.For(LoopKind::kSerial, 0, kTile / kThreads, [&](ValueId i) {
        ValueId at = b.Add(b.Mul(i, b.Int(kThreads)), t);
        b.Store(out, b.Add(base, at), b.Load(tile, b.Sub(b.Int(kTile - 1), at)));
      });
    });
  });
  program::Program program;
  program.name = "large_tile";
  auto x =
      AddBuffer(program, "x", Shape(DType::kF32, {2 * kTile}), program::BufferKind::kParameter, 0);
  auto y =
      AddBuffer(program, "y", Shape(DType::kF32, {2 * kTile}), program::BufferKind::kResult, 0);
  int32_t kernel = AddKernel(program, std::move(b).Build());
  program.steps.push_back(MakeStep(
      program::KernelStep{kernel},
      {Whole(program, program::Access::kRead, x), Whole(program, program::Access::kWrite, y)}));
  return program;
}

TEST(CudaLaunch, DynamicSharedMemoryCompiles) {
  program::Program program = LargeTile();
  ASSERT_TRUE(program::Verify(program)) << program::Verify(program).error().ToString();
  CudaProgram cuda = RenderProgram(program);
  ASSERT_EQ(cuda.functions.size(), 1u);
  EXPECT_EQ(cuda.functions[0].launch.shared_bytes, 65536);
  auto nvrtc = Nvrtc::Load(kNvidiaPackages);
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().ToString();
  auto code = (*nvrtc)->Compile(cuda.text, "tile.cu", "sm_90a");
  EXPECT_TRUE(code) << code.error().ToString() << cuda.text;
}

// y = x, by way of a buffer that the rounds of a loop copy to and fro: too much for a native loop.
program::Program CountedLoop(int64_t trips) {
  constexpr int64_t kBytes = int64_t{1} << 19;
  program::Program program;
  program.name = "counted";
  Shape shape(DType::kU8, {kBytes});
  auto x = AddBuffer(program, "x", shape, program::BufferKind::kParameter, 0);
  auto y = AddBuffer(program, "y", shape, program::BufferKind::kResult, 0);
  auto t = AddBuffer(program, "t", shape, program::BufferKind::kTemp);
  auto go = AddBuffer(program, "go", Shape(DType::kPred, {}), program::BufferKind::kTemp);
  using program::Access;
  auto copy = [&](auto from, auto to) {
    return MakeStep(program::CopyStep{},
                    {Whole(program, Access::kRead, from), Whole(program, Access::kWrite, to)});
  };
  program.steps.push_back(copy(x, t));
  program::WhileStep loop;
  loop.trip_count = trips;
  loop.condition.push_back(
      MakeStep(program::FillStep{{std::byte{1}}}, {Whole(program, Access::kWrite, go)}));
  loop.body.push_back(copy(t, y));
  loop.body.push_back(copy(y, t));
  program.steps.push_back(MakeStep(std::move(loop), {Whole(program, Access::kRead, go)}));
  return program;
}

TEST(CudaGraphs, RoundsOfALoopAreLaunchedTogether) {
  auto device = FakeGpu(int64_t{64} << 20);
  if (!device) GTEST_SKIP() << device.error().ToString();
  constexpr int64_t kBytes = int64_t{1} << 19;
  auto loaded = (*device)->Load(CountedLoop(200), {});
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  auto stream = *(*device)->NewStream(runtime::StreamKind::kCompute);
  std::vector<std::byte> in(kBytes, std::byte{7}), out(kBytes);
  auto x = *(*device)->AllocateOn(*stream, kBytes, runtime::MemorySpace::kDevice);
  std::vector<runtime::Allocation> results;
  ASSERT_TRUE(stream->Copy(runtime::CopyKind::kToDevice, x.address(), in.data(), kBytes));
  const int64_t before = FakeGraphLaunches();
  for (int run = 0; run < 12; ++run) {  // more places of results than graphs are kept
    results.push_back(*(*device)->AllocateOn(*stream, kBytes, runtime::MemorySpace::kDevice));
    std::byte *parameters[] = {x.address()}, *places[] = {results.back().address()};
    runtime::Call call;
    call.parameters = parameters;
    call.results = places;
    ASSERT_TRUE((*loaded)->Enqueue(call, *stream));
    ASSERT_TRUE(stream->Copy(runtime::CopyKind::kToHost, out.data(), places[0], kBytes));
    Status status = stream->Synchronize();
    ASSERT_TRUE(status) << status.error().ToString();
    EXPECT_EQ(out, in);
    std::ranges::fill(out, std::byte{0});
  }
  EXPECT_EQ(FakeGraphLaunches() - before, 12 * 2);  // of 96 rounds each; the rest one by one
}

// What was launched before runs to its end; the stream has the error, and goes on.
TEST(CudaGraphs, ALoopLooksWhetherItIsCancelled) {
  auto device = FakeGpu(int64_t{64} << 20);
  if (!device) GTEST_SKIP() << device.error().ToString();
  constexpr int64_t kBytes = int64_t{1} << 19, kEndless = int64_t{1} << 40;
  auto loaded = (*device)->Load(CountedLoop(kEndless), {});
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  auto stream = *(*device)->NewStream(runtime::StreamKind::kCompute);
  auto x = *(*device)->AllocateOn(*stream, kBytes, runtime::MemorySpace::kDevice);
  auto y = *(*device)->AllocateOn(*stream, kBytes, runtime::MemorySpace::kDevice);
  std::byte *parameters[] = {x.address()}, *results[] = {y.address()};
  std::atomic<bool> cancel = false;
  runtime::Call call;
  call.parameters = parameters;
  call.results = results;
  call.cancel = &cancel;
  std::thread interrupt([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cancel = true;
  });
  const int64_t before = FakeGraphLaunches();
  ASSERT_TRUE((*loaded)->Enqueue(call, *stream));
  interrupt.join();
  Status status = stream->Synchronize();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kCancelled);
  EXPECT_GT(FakeGraphLaunches() - before, 0);
  ASSERT_TRUE(stream->ForgetError());
  EXPECT_TRUE(stream->Synchronize());
}

// A fault ends the context: an error that names the work, whatever is asked next.
TEST(CudaStreams, AFaultNamesTheWork) {
  auto device = FakeGpu(int64_t{64} << 20);
  if (!device) GTEST_SKIP() << device.error().ToString();
  constexpr int64_t kBytes = int64_t{1} << 19, kIllegalAddress = 700;
  program::Program program = CountedLoop(200);
  program.steps.back().name = "while.7";
  auto loaded = (*device)->Load(std::move(program), {});
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  auto stream = *(*device)->NewStream(runtime::StreamKind::kCompute);
  auto x = *(*device)->AllocateOn(*stream, kBytes, runtime::MemorySpace::kDevice);
  auto y = *(*device)->AllocateOn(*stream, kBytes, runtime::MemorySpace::kDevice);
  std::byte *parameters[] = {x.address()}, *results[] = {y.address()};
  runtime::Call call;
  call.parameters = parameters;
  call.results = results;
  ASSERT_TRUE((*loaded)->Enqueue(call, *stream));
  SetFakeFault(kIllegalAddress);
  for (int i = 0; i < 2; ++i) {
    Status status = stream->Synchronize();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message(), "cuda: in or before while.7: FAKE_ERROR (made up)");
  }
  SetFakeFault(0);
}

// Spans are at the times at which the device came by, on lines of the streams.
TEST(CudaTimeline, StepsAndCopies) {
  auto device = FakeGpu(int64_t{64} << 20);
  if (!device) GTEST_SKIP() << device.error().ToString();
  constexpr int64_t kBytes = int64_t{1} << 19;
  auto loaded = (*device)->Load(CountedLoop(200), {});
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  auto stream = *(*device)->NewStream(runtime::StreamKind::kCompute);
  auto x = *(*device)->AllocateOn(*stream, kBytes, runtime::MemorySpace::kDevice);
  auto y = *(*device)->AllocateOn(*stream, kBytes, runtime::MemorySpace::kDevice);
  std::vector<std::byte> out(kBytes);
  std::byte *parameters[] = {x.address()}, *results[] = {y.address()};
  runtime::Call call;
  call.parameters = parameters;
  call.results = results;
  call.flow = 77;
  trace::Session session;
  ASSERT_TRUE((*loaded)->Enqueue(call, *stream));
  ASSERT_TRUE(stream->Copy(runtime::CopyKind::kToHost, out.data(), y.address(), kBytes));
  ASSERT_TRUE(stream->Synchronize());
  trace::Capture capture = session.Take();
  std::vector<trace::Event> events;
  for (const trace::ThreadEvents& thread : capture.threads) {
    if (thread.name.starts_with("cuda:0 compute")) events = thread.events;
  }
  auto find = [&](std::string_view name) {
    return std::ranges::find_if(events, [name](auto& event) { return event.what->name == name; });
  };
  auto run = find("counted"), copy = find("copy to host");
  ASSERT_NE(run, events.end());
  ASSERT_NE(copy, events.end());
  EXPECT_EQ(run->from, 77u);
  EXPECT_EQ(copy->bytes, kBytes);
  EXPECT_LE(run->end, copy->begin);
  EXPECT_LE(capture.begin, run->begin);
  EXPECT_GE(capture.end, copy->end);
  // A copy, the graphs, 8 rounds of two copies; nothing that was recorded for the graph.
  EXPECT_EQ(std::ranges::count_if(events,
                                  [&](const trace::Event& event) {
                                    return event.what->kind != trace::Kind::kTransfer &&
                                           &event != &*run && event.begin >= run->begin &&
                                           event.end <= run->end;
                                  }),
            1 + 1 + 8 * 2);
}

TEST(CudaStreams, OfOtherLibraries) {
  auto device = FakeGpu(int64_t{1} << 20);
  if (!device) GTEST_SKIP() << device.error().ToString();
  auto own = *(*device)->NewStream(runtime::StreamKind::kCompute);
  ASSERT_NE(own->native_handle(), nullptr);
  std::atomic<bool> let_go = false, seen = false;
  ASSERT_TRUE(own->Call("wait", [&]() -> Status {
    while (!let_go) std::this_thread::yield();
    seen = true;
    return {};
  }));
  auto event = (*device)->RecordOn(own->native_handle());
  ASSERT_TRUE(event) << event.error().ToString();
  EXPECT_FALSE((*event)->done());
  let_go = true;
  EXPECT_TRUE((*event)->Wait());
  EXPECT_TRUE(seen);
}

class CudaGpu : public testing::Test {
 protected:
  void SetUp() override {
    auto device = CreateCudaDevice();
    if (!device && device.error().code() == Code::kUnavailable) {
      GTEST_SKIP() << device.error().ToString();
    }
    ASSERT_TRUE(device) << device.error().ToString();
    device_ = std::move(*device);
    stream_ = *device_->NewStream(runtime::StreamKind::kCompute);
  }
  std::unique_ptr<runtime::Device> device_;
  runtime::StreamPtr stream_;
};

TEST_F(CudaGpu, DynamicSharedMemoryRuns) {
  program::Program program = LargeTile();
  int64_t n = program.buffers[0].shape.elements();
  auto loaded = device_->Load(program, {});
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  std::vector<float> in(static_cast<size_t>(n)), out(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  auto x = *device_->AllocateOn(*stream_, n * 4, runtime::MemorySpace::kDevice);
  auto y = *device_->AllocateOn(*stream_, n * 4, runtime::MemorySpace::kDevice);
  ASSERT_TRUE(stream_->Copy(runtime::CopyKind::kToDevice, x.address(),
                            reinterpret_cast<std::byte*>(in.data()), n * 4));
  std::byte *parameters[] = {x.address()}, *results[] = {y.address()};
  runtime::Call call;
  call.parameters = parameters;
  call.results = results;
  ASSERT_TRUE((*loaded)->Enqueue(call, *stream_));
  ASSERT_TRUE(stream_->Copy(runtime::CopyKind::kToHost, reinterpret_cast<std::byte*>(out.data()),
                            y.address(), n * 4));
  Status status = stream_->Synchronize();
  ASSERT_TRUE(status) << status.error().ToString();
  EXPECT_EQ(out[0], 16383.0f);
  EXPECT_EQ(out[16384], 32767.0f);
  EXPECT_EQ(out[32767], 16384.0f);
}

// What a program with one kernel takes of the GPU beyond the context: code, constants, the pool.
TEST_F(CudaGpu, TheFirstProgramTakesLittleMemory) {
  auto driver = CudaDriver::Load();
  ASSERT_TRUE(driver);
  size_t before = 0, after = 0, total = 0;
  ASSERT_EQ((*driver)->MemGetInfo(&before, &total), 0);
  auto loaded = device_->Load(LargeTile(), {});
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  const int64_t bytes = *ByteSize((*loaded)->program().buffers[0]);
  auto x = *device_->AllocateOn(*stream_, bytes, runtime::MemorySpace::kDevice);
  auto y = *device_->AllocateOn(*stream_, bytes, runtime::MemorySpace::kDevice);
  std::byte *parameters[] = {x.address()}, *results[] = {y.address()};
  runtime::Call call;
  call.parameters = parameters;
  call.results = results;
  ASSERT_TRUE((*loaded)->Enqueue(call, *stream_));
  ASSERT_TRUE(stream_->Synchronize());
  ASSERT_EQ((*driver)->MemGetInfo(&after, &total), 0);
  const double taken = (static_cast<double>(before) - static_cast<double>(after)) / (1 << 20);
  std::printf("the first program takes %.1f MiB beyond the context\n", taken);
  EXPECT_LE(taken, 64);
}

// The driver itself has no more: trimmed, tried again, then said.
TEST_F(CudaGpu, OutOfMemoryIsNoEnd) {
  std::vector<runtime::Allocation> held;
  int64_t limit = device_->memory().limit, part = limit / 8;
  Status last;
  while (last && held.size() < 10) {
    auto next = device_->AllocateOn(*stream_, part, runtime::MemorySpace::kDevice, "part");
    if (next) {
      held.push_back(std::move(*next));
    } else {
      last = std::unexpected(next.error());
    }
  }
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code(), Code::kResourceExhausted);
  EXPECT_TRUE(last.error().ToString().contains("part")) << last.error().ToString();
  held.clear();
  EXPECT_TRUE(device_->AllocateOn(*stream_, part * 4, runtime::MemorySpace::kDevice));
  EXPECT_TRUE(stream_->Synchronize());
}

}  // namespace
}  // namespace weft::gpu
