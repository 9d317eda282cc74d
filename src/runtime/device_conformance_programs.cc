// What every device must do with Programs: results, donation, errors, several threads.
#include <atomic>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>

#include "base/file.h"
#include "program/interpret.h"
#include "runtime/compare.h"
#include "runtime/testing_programs.h"

namespace weft::runtime {

Bytes Pattern(int64_t n, uint32_t seed) {
  Bytes bytes(static_cast<size_t>(n));
  for (std::byte& b : bytes) {
    seed = seed * 1664525 + 1013904223;
    b = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

program::Program ParseProgram(const std::string& text) {
  auto program = program::Parse(text);
  EXPECT_TRUE(program) << program.error().ToString();
  EXPECT_FINE(program::Verify(*program));
  return std::move(*program);
}

namespace {

// Of numbers that any order of adding gets right to a few units.
Literal Numbers(const Shape& shape, uint64_t seed) {
  Literal literal(shape);
  Bytes random = Pattern(literal.size(), static_cast<uint32_t>(seed));
  for (int64_t i = 0; i < literal.size(); ++i) {
    int64_t n = static_cast<int64_t>(random[static_cast<size_t>(i)]);
    if (shape.dtype() == DType::kPred) {
      literal.mutable_data()[i] = static_cast<std::byte>(n & 1);
    } else if (IsFloat(shape.dtype())) {
      literal.SetDouble(i, static_cast<double>(n - 100) / 64);
    } else if (IsInteger(shape.dtype())) {
      literal.mutable_data()[i * ByteWidth(shape.dtype())] = static_cast<std::byte>(n & 3);
    }
  }
  return literal;
}

constexpr char kScale[] = R"(program scale
buffer x: f32[1000] parameter 0
buffer y: f32[1000] result 0
kernel scale(read x: f32[1000], write y: f32[1000]) {
  parallel %i = 0..1000 {
    %v = load f32 x[%i]
    %r = fma f32 %v, 2, -0.5
    store f32 y[%i], %r
  }
}
steps { scale.1: launch scale(read x, write y) })";

constexpr char kRowSums[] = R"(program row_sums
buffer x: f32[37,50] parameter 0
buffer t: f32[37,50] temp
buffer c: f32[37,50] constant hex "CONSTANT"
buffer y: f32[37] result 0
kernel add(read x: f32[1850], read c: f32[1850], write t: f32[1850]) {
  parallel %i = 0..1850 {
    %a = load f32 x[%i]
    %b = load f32 c[%i]
    %s = add f32 %a, %b
    store f32 t[%i], %s
  }
}
kernel sum(read x: f32[1850], write y: f32[37]) {
  parallel %row = 0..37 {
    %base = mul s64 %row, 50
    serial %i = 0..50 carry %acc: f32 = 0 {
      %at = add s64 %base, %i
      %v = load f32 x[%at]
      %next = add f32 %acc, %v
    } yield %next -> %total
    store f32 y[%row], %total
  }
}
steps {
  add.1: launch add(read x, read c, write t)
  sum.1: launch sum(read t, write y)
})";

// A loop that is too much work for one block, with a copy and a conditional inside.
constexpr char kLoop[] = R"(program loop
buffer x: f32[4096] parameter 0
buffer n: s32[] parameter 1
buffer y: f32[4096] result 0
buffer t: f32[4096] temp
buffer i: s32[] temp
buffer go: pred[] temp
buffer odd: pred[] temp
kernel less(read i: s32[1], read n: s32[1], write go: pred[1], write odd: pred[1]) {
  %0 = load s32 i[0]
  %n = load s32 n[0]
  %m = add s32 %n, 5
  %1 = lt s32 %0, %m
  store pred go[0], %1
  %2 = and s32 %0, 1
  %3 = eq s32 %2, 1
  store pred odd[0], %3
}
kernel count(update i: s32[1]) {
  %0 = load s32 i[0]
  %1 = add s32 %0, 1
  store s32 i[0], %1
}
kernel twice(read y: f32[4096], write t: f32[4096]) {
  parallel %k = 0..4096 {
    %v = load f32 y[%k]
    %r = add f32 %v, %v
    store f32 t[%k], %r
  }
}
kernel less_one(read y: f32[4096], write t: f32[4096]) {
  parallel %k = 0..4096 {
    %v = load f32 y[%k]
    %r = sub f32 %v, 1
    store f32 t[%k], %r
  }
}
steps {
  copy(read x, write y)
  fill(write i) hex "00000000"
  loop: while(read go) {
    launch less(read i, read n, write go, write odd)
  } do {
    choose: if(read odd) {
      launch twice(read y, write t)
    } else {
      launch less_one(read y, write t)
    }
    copy(read t, write y)
    launch count(update i)
  }
})";

constexpr char kFails[] = R"(program fails
buffer x: s32[256] parameter 0 donate
buffer y: s32[256] result 0 in x at 0
steps { bad.7: call "no_such_routine"(update y) source "model.py:7" })";

std::string RowSums() {
  std::string text = kRowSums, hex;
  for (int i = 0; i < 37 * 50; ++i) hex += i % 3 == 0 ? "0000803f" : "000000bf";  // 1, -0.5
  size_t at = text.find("CONSTANT");
  return text.replace(at, 8, hex);
}

}  // namespace

namespace {

// Arguments by number.
std::vector<Literal> ArgumentsOf(const program::Program& program, uint64_t seed) {
  std::vector<Literal> arguments;
  for (const program::Buffer& b : program.buffers) {
    if (b.kind != program::BufferKind::kParameter) continue;
    size_t n = static_cast<size_t>(b.index) + 1;
    if (n > arguments.size()) arguments.resize(n);
    arguments[n - 1] = Numbers(b.shape, seed + n);
  }
  return arguments;
}

void ExpectSame(const program::Program& program, std::span<const Literal> expected,
                std::span<const Bytes> got) {
  for (size_t i = 0; i < got.size(); ++i) {
    const Literal& want = expected[i];
    std::span<const std::byte> bytes(want.data(), static_cast<size_t>(want.byte_size()));
    Difference d = Compare(want.dtype(), bytes, got[i], SlackOf(want.dtype(), true),
                           LargestOf(want.dtype(), bytes));
    EXPECT_FALSE(d.any()) << program.name << " result " << i << ": " << d.ToString(want.size());
  }
}

}  // namespace

// Arguments on a stream of their own, results on another, events between.
void DeviceConformance::ExpectLikeInterpreter(const std::string& text, uint64_t seed) {
  program::Program program = ParseProgram(text);
  std::vector<Literal> arguments = ArgumentsOf(program, seed);
  std::vector<Allocation> memory;
  std::vector<std::byte*> parameters(arguments.size()), results;
  auto expected = program::Interpret(program, arguments);
  ASSERT_TRUE(expected) << expected.error().ToString();
  auto loaded = device_->Load(program, {});
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  for (size_t i = 0; i < arguments.size(); ++i) {
    memory.push_back(Allocate(arguments[i].byte_size()));
    parameters[i] = memory.back().address();
  }
  auto taken = compute_->Record();
  ASSERT_FINE(taken);
  ASSERT_FINE(to_device_->WaitFor(*taken));
  for (size_t i = 0; i < arguments.size(); ++i) {
    ASSERT_FINE(to_device_->Copy(CopyKind::kToDevice, parameters[i], arguments[i].data(),
                                 arguments[i].byte_size()));
  }
  auto there = to_device_->Record();
  ASSERT_FINE(there);
  ASSERT_FINE(compute_->WaitFor(*there));
  results.resize(expected->size());
  for (const program::Buffer& b : program.buffers) {
    if (b.kind != program::BufferKind::kResult) continue;
    if (b.base >= 0) {
      results[b.index] = parameters[program.buffers[b.base].index] + b.offset;
    } else {
      memory.push_back(Allocate(*ByteSize(b)));
      results[b.index] = memory.back().address();
    }
  }
  Call call;
  call.parameters = parameters;
  call.results = results;
  ASSERT_FINE((*loaded)->Enqueue(call, *compute_));
  auto computed = compute_->Record();
  ASSERT_FINE(computed);
  ASSERT_FINE(to_host_->WaitFor(*computed));
  std::vector<Bytes> got;
  for (size_t i = 0; i < results.size(); ++i) {
    got.emplace_back(static_cast<size_t>((*expected)[i].byte_size()));
    ASSERT_FINE(to_host_->Copy(CopyKind::kToHost, got[i].data(), results[i], std::ssize(got[i])));
  }
  ASSERT_FINE(to_host_->Synchronize());
  if (computes()) ExpectSame(program, *expected, got);
}

TEST_P(DeviceConformance, DonatedParametersBecomeResults) {
  Allocation a = Allocate(1024);
  ASSERT_FINE(compute_->Fill(a.address(), 1024, Bytes(4)));
  auto loaded = device_->Load(ParseProgram(kAddOne), {});
  ASSERT_FINE(loaded);
  std::byte* addresses[] = {a.address()};
  Call call;
  call.parameters = call.results = addresses;
  for (int i = 0; i < 100; ++i) ASSERT_FINE((*loaded)->Enqueue(call, *compute_));
  Bytes got = Read(a, *compute_);
  for (size_t i = 0; computes() && i < 256; ++i) {
    EXPECT_EQ(got[i * 4], std::byte{100}) << i;
  }
}

TEST_P(DeviceConformance, ErrorsArriveWhereTheyBelong) {
  ASSERT_FINE(compute_->Synchronize());
  auto before = compute_->Record();
  ASSERT_FINE(compute_->Call("step.3", [] { return Status(InvalidArgument("is wrong")); }));
  ASSERT_FINE(compute_->Call("step.4", [] { return Status(InvalidArgument("is wrong too")); }));
  auto after = compute_->Record();
  ASSERT_FINE(before);
  ASSERT_FINE(after);
  EXPECT_FINE((*before)->Wait());
  Status status = (*after)->Wait();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "step.3: is wrong");
  EXPECT_CODE(Code::kInvalidArgument, compute_->Synchronize());
  // Who waits for it has the error, others do not.
  ASSERT_FINE(to_host_->WaitFor(*after));
  Status waited = to_host_->Synchronize();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().message(), "step.3: is wrong");
  EXPECT_FINE(to_device_->Synchronize());
  // Afresh.
  ASSERT_FINE(compute_->ForgetError());
  ASSERT_FINE(to_host_->ForgetError());
  EXPECT_FINE(compute_->Synchronize());
  EXPECT_FINE(to_host_->Synchronize());
  EXPECT_CODE(Code::kInvalidArgument, (*after)->Wait());
  EXPECT_FINE((*before)->Wait());
}

TEST_P(DeviceConformance, FailedStepsNameThemselvesAndTheDeviceGoesOn) {
  if (!runs()) GTEST_SKIP() << "this device runs nothing";
  Allocation a = Allocate(1024);
  ASSERT_FINE(compute_->Fill(a.address(), 1024, Bytes(4)));
  auto fails = device_->Load(ParseProgram(kFails), {});
  auto adds = device_->Load(ParseProgram(kAddOne), {});
  ASSERT_FINE(fails);
  ASSERT_FINE(adds);
  std::function<Status(const program::Step&, std::span<const std::span<std::byte>>)> hook =
      [](const program::Step&, std::span<const std::span<std::byte>>) {
        return Status(FailedPrecondition("the routine said no"));
      };
  std::byte* addresses[] = {a.address()};
  Call call;
  call.parameters = call.results = addresses;
  call.call = &hook;
  ASSERT_FINE((*fails)->Enqueue(call, *compute_));
  auto failed = compute_->Record();
  ASSERT_FINE(failed);
  ASSERT_FINE(compute_->ForgetError());
  ASSERT_FINE(compute_->Fill(a.address(), 1024, Bytes(4)));
  ASSERT_FINE((*adds)->Enqueue(call, *compute_));
  Bytes got = Read(a, *compute_);
  if (computes()) {
    EXPECT_EQ(got[0], std::byte{1});
  }
  Status status = (*failed)->Wait();
  ASSERT_FALSE(status);
  std::string text = status.error().ToString();
  EXPECT_EQ(status.error().code(), Code::kFailedPrecondition) << text;
  EXPECT_TRUE(text.contains("the routine said no")) << text;
  EXPECT_TRUE(text.contains("bad.7")) << text;
}

TEST_P(DeviceConformance, SeveralThreadsEnqueue) {
  auto loaded = device_->Load(ParseProgram(kAddOne), {});
  ASSERT_FINE(loaded);
  Allocation shared = Allocate(1024);
  ASSERT_FINE(compute_->Fill(shared.address(), 1024, Bytes(4)));
  constexpr int kThreads = 4, kRuns = 25;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      auto stream = device_->NewStream(StreamKind::kCompute);
      if (!stream) return void(++wrong);
      for (int i = 0; i < kRuns; ++i) {
        std::byte* addresses[] = {shared.address()};
        Call call;
        call.parameters = call.results = addresses;
        if (!(*loaded)->Enqueue(call, *compute_)) ++wrong;  // all on one stream ...
        auto own = device_->AllocateOn(**stream, 1024, MemorySpace::kDevice);  // ... or their own
        if (!own) return void(++wrong);
        Bytes zero(4), got(1024);
        if (!(*stream)->Fill(own->address(), 1024, zero)) ++wrong;
        addresses[0] = own->address();
        for (int k = 0; k < 3; ++k) wrong += !(*loaded)->Enqueue(call, **stream);
        wrong += !(*stream)->Copy(CopyKind::kToHost, got.data(), own->address(), 1024);
        wrong += !(*stream)->Synchronize();
        if (computes() && got[1020] != std::byte{3}) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  Bytes got = Read(shared, *compute_);
  if (computes()) {
    EXPECT_EQ(got[0], std::byte{kThreads * kRuns});
  }
}

// Frees and allocations of several threads on one stream: nobody's memory is freed under them.
TEST_P(DeviceConformance, SeveralThreadsAllocateOnOneStream) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Bytes value(1, std::byte{static_cast<uint8_t>(t + 1)}), got(512);
      for (int i = 0; i < 50; ++i) {
        auto a = device_->AllocateOn(*compute_, 512, MemorySpace::kDevice);
        if (!a) return void(++wrong);
        wrong += !compute_->Fill(a->address(), 512, value);
        wrong += !compute_->Copy(CopyKind::kToHost, got.data(), a->address(), 512);
        if (i % 5 != 0) continue;
        wrong += !compute_->Synchronize();
        if (runs() && got != Bytes(512, value[0])) ++wrong;
      }
      wrong += !compute_->Synchronize();  // `got` is written until then
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(DeviceConformance, ProgramsComputeWhatTheInterpreterDoes) {
  for (uint64_t seed : {1, 2}) {
    ExpectLikeInterpreter(kScale, seed);
    ExpectLikeInterpreter(RowSums(), seed);
    ExpectLikeInterpreter(kLoop, seed);
    ExpectLikeInterpreter(kAddOne, seed);
  }
}

TEST_P(DeviceConformance, ProgramFiles) {
  for (const char* name : {"async_copy", "async_list", "complex", "conditional", "elementwise",
                           "gemm", "library", "softmax", "atomic", "combine", "threads", "tiles",
                           "vector_sum", "while_counter", "while_limit", "while_wide_limit"}) {
    SCOPED_TRACE(name);
    auto text = ReadFile(StrCat("test/program/", name, ".program"));
    ASSERT_FINE(text);
    ExpectLikeInterpreter(*text, 5);
  }
}

}  // namespace weft::runtime
