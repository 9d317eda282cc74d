#include "runtime/device_conformance.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/file.h"
#include "program/interpret.h"
#include "runtime/compare.h"

namespace weft::runtime {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceConformance);

#define EXPECT_FINE(...)                                        \
  do {                                                          \
    auto&& fine_status = (__VA_ARGS__);                         \
    EXPECT_TRUE(fine_status) << fine_status.error().ToString(); \
  } while (false)
#define ASSERT_FINE(...)                                        \
  do {                                                          \
    auto&& fine_status = (__VA_ARGS__);                         \
    ASSERT_TRUE(fine_status) << fine_status.error().ToString(); \
  } while (false)
#define EXPECT_CODE(code_wanted, ...)                                                       \
  do {                                                                                      \
    auto&& code_status = (__VA_ARGS__);                                                     \
    EXPECT_FALSE(code_status);                                                              \
    if (!code_status) {                                                                     \
      EXPECT_EQ(code_status.error().code(), code_wanted) << code_status.error().ToString(); \
    }                                                                                       \
  } while (false)

namespace {

using Bytes = std::vector<std::byte>;
constexpr int64_t kMegabyte = 1 << 20;

Bytes Pattern(int64_t n, uint32_t seed) {
  Bytes bytes(static_cast<size_t>(n));
  for (std::byte& b : bytes) {
    seed = seed * 1664525 + 1013904223;
    b = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

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

program::Program ParseProgram(const std::string& text) {
  auto program = program::Parse(text);
  EXPECT_TRUE(program) << program.error().ToString();
  EXPECT_FINE(program::Verify(*program));
  return std::move(*program);
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

constexpr char kAddOne[] = R"(program add_one
buffer x: s32[256] parameter 0 donate
buffer y: s32[256] result 0 in x at 0
kernel add(update x: s32[256]) {
  parallel %i = 0..256 {
    %v = load s32 x[%i]
    %r = add s32 %v, 1
    store s32 x[%i], %r
  }
}
steps { add.1: launch add(update y) })";

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

void DeviceConformance::SetUp() {
  auto device = GetParam().make();
  if (!device && device.error().code() == Code::kUnavailable) {
    GTEST_SKIP() << device.error().ToString();
  }
  ASSERT_TRUE(device) << device.error().ToString();
  device_ = std::move(*device);
  for (auto [kind, stream] :
       {std::pair(StreamKind::kCompute, &compute_), std::pair(StreamKind::kToDevice, &to_device_),
        std::pair(StreamKind::kToHost, &to_host_)}) {
    auto made = device_->NewStream(kind);
    ASSERT_TRUE(made) << made.error().ToString();
    EXPECT_EQ((*made)->kind(), kind);
    *stream = std::move(*made);
  }
}

void DeviceConformance::TearDown() {
  if (device_ == nullptr) return;
  for (Stream* stream : {compute_.get(), to_device_.get(), to_host_.get()}) {
    if (stream != nullptr) (void)stream->Synchronize();
  }
  EXPECT_EQ(device_->memory().in_use, 0);
}

Allocation DeviceConformance::Allocate(int64_t bytes, MemorySpace space) {
  auto allocation = device_->AllocateOn(*compute_, bytes, space, "test");
  EXPECT_TRUE(allocation) << allocation.error().ToString();
  return allocation ? std::move(*allocation) : Allocation();
}

Bytes DeviceConformance::Read(const Allocation& from, Stream& stream) {
  Bytes bytes(static_cast<size_t>(from.bytes()));
  EXPECT_FINE(stream.Copy(CopyKind::kToHost, bytes.data(), from.address(), from.bytes()));
  EXPECT_FINE(stream.Synchronize());
  return bytes;
}

// Arguments on a stream of their own, results on another, events between.
void DeviceConformance::ExpectLikeInterpreter(const std::string& text, uint64_t seed) {
  program::Program program = ParseProgram(text);
  std::vector<Literal> arguments, wanted;
  std::vector<Allocation> memory;
  std::vector<std::byte*> parameters, results;
  std::vector<int64_t> result_bytes;
  for (const program::Buffer& b : program.buffers) {
    if (b.kind != program::BufferKind::kParameter) continue;
    size_t n = static_cast<size_t>(b.index) + 1;
    if (n > arguments.size()) arguments.resize(n), parameters.resize(n);
    arguments[n - 1] = Numbers(b.shape, seed + n);
  }
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
  if (!computes()) return;
  for (size_t i = 0; i < results.size(); ++i) {
    const Literal& want = (*expected)[i];
    std::span<const std::byte> bytes(want.data(), static_cast<size_t>(want.byte_size()));
    Difference d = Compare(want.dtype(), bytes, got[i], SlackOf(want.dtype(), true),
                           LargestOf(want.dtype(), bytes));
    EXPECT_FALSE(d.any()) << program.name << " result " << i << ": " << d.ToString(want.size());
  }
}

TEST_P(DeviceConformance, AllocationsAreCounted) {
  EXPECT_EQ(device_->memory().in_use, 0);
  Allocation a = Allocate(1000), empty = Allocate(0), b = Allocate(5 * kMegabyte);
  for (const Allocation* x : {&a, &empty, &b}) {
    ASSERT_TRUE(*x);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x->address()) % kDeviceAlignment, 0u);
    EXPECT_EQ(x->space(), MemorySpace::kDevice);
  }
  EXPECT_NE(a.address(), empty.address());
  EXPECT_EQ(a.bytes(), 1000);
  EXPECT_EQ(device_->memory().in_use, 1000 + 5 * kMegabyte);
  EXPECT_EQ(device_->memory().count, 3);
  Allocation moved = std::move(b);
  EXPECT_FALSE(b);
  moved.Free();
  EXPECT_FALSE(moved);
  EXPECT_EQ(device_->memory().in_use, 1000);
  EXPECT_EQ(device_->memory().peak, 1000 + 5 * kMegabyte);
  a = Allocate(10);  // frees what was there
  EXPECT_EQ(device_->memory().in_use, 10);
  EXPECT_CODE(Code::kInvalidArgument, device_->AllocateOn(*compute_, -1, MemorySpace::kDevice));
}

TEST_P(DeviceConformance, TooMuchMemoryIsAnErrorThatSaysWhatIsInUse) {
  Allocation held = Allocate(3 * kMegabyte);
  int64_t limit = device_->memory().limit;
  int64_t asked = limit > 0 ? limit - kMegabyte : int64_t{1} << 60;
  auto result = device_->AllocateOn(*compute_, asked, MemorySpace::kDevice);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kResourceExhausted);
  std::string text = result.error().ToString();
  EXPECT_TRUE(text.contains("asked for ")) << text;
  EXPECT_TRUE(text.contains("in use")) << text;
  EXPECT_TRUE(text.contains(" test")) << text;  // the label of what is held
  EXPECT_EQ(device_->memory().in_use, 3 * kMegabyte);
  EXPECT_TRUE(Allocate(kMegabyte));
}

TEST_P(DeviceConformance, AllOfTheMemoryAgainAndAgain) {
  int64_t limit = GetParam().limit;
  if (limit == 0) GTEST_SKIP() << "the device has no small limit";
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Allocate(limit / 2 / 256 * 256));
    EXPECT_TRUE(Allocate(limit / 256 * 256));
    auto other = device_->AllocateOn(*to_device_, limit / 256 * 256, MemorySpace::kDevice);
    EXPECT_FINE(other);
  }
}

TEST_P(DeviceConformance, CopiesOfOddSizes) {
  for (int64_t n : {0, 1, 2, 3, 7, 8, 63, 64, 65, 255, 256, 257, 4095, 100003, 1 << 20}) {
    for (MemorySpace space : {MemorySpace::kHost, MemorySpace::kPinned}) {
      Allocation host = Allocate(n + 5, space), a = Allocate(n + 5), b = Allocate(n + 9);
      Bytes pattern = Pattern(n, static_cast<uint32_t>(n));
      ASSERT_TRUE(host && a && b);
      if (n > 0) std::memcpy(host.address() + 5, pattern.data(), pattern.size());
      ASSERT_FINE(compute_->Copy(CopyKind::kToDevice, a.address() + 3, host.address() + 5, n));
      ASSERT_FINE(compute_->Copy(CopyKind::kOnDevice, b.address() + 9, a.address() + 3, n));
      Bytes got(pattern.size());
      ASSERT_FINE(compute_->Copy(CopyKind::kToHost, got.data(), b.address() + 9, n));
      ASSERT_FINE(compute_->Synchronize());
      if (runs()) {
        EXPECT_EQ(got, pattern) << n;
      }
    }
  }
}

TEST_P(DeviceConformance, FillsOfAllPatterns) {
  for (int64_t width : {1, 2, 4, 8, 16}) {
    for (int64_t count : {0, 1, 3, 1000}) {
      Allocation a = Allocate(width * count + 32);
      Bytes pattern = Pattern(width, static_cast<uint32_t>(width)), zero(1);
      ASSERT_FINE(compute_->Fill(a.address(), a.bytes(), zero));
      ASSERT_FINE(compute_->Fill(a.address() + 16, width * count, pattern));
      Bytes got = Read(a, *compute_), want(got.size());
      FillBytes(std::span(want).subspan(16, static_cast<size_t>(width * count)), pattern);
      if (runs()) {
        EXPECT_EQ(got, want) << width << " x " << count;
      }
    }
  }
}

TEST_P(DeviceConformance, WrongArgumentsAreRefusedAtOnce) {
  Allocation a = Allocate(64), b = Allocate(64);
  Bytes three(3), host(64);
  EXPECT_CODE(Code::kInvalidArgument, compute_->Fill(a.address(), 64, three));
  EXPECT_CODE(Code::kInvalidArgument,
              compute_->Fill(a.address(), 63, std::span(host).subspan(0, 4)));
  EXPECT_CODE(Code::kInvalidArgument, compute_->Copy(CopyKind::kToDevice, nullptr, host.data(), 8));
  EXPECT_CODE(Code::kInvalidArgument,
              compute_->Copy(CopyKind::kToDevice, a.address(), host.data(), -1));
  EXPECT_CODE(Code::kInvalidArgument,
              compute_->Copy(CopyKind::kOnDevice, a.address() + 1, a.address(), 16));
  auto loaded = device_->Load(ParseProgram(kAddOne), {});
  ASSERT_FINE(loaded);
  std::byte* one[] = {a.address()};
  std::byte* other[] = {b.address()};
  std::byte* none[] = {nullptr};
  Call call;
  EXPECT_CODE(Code::kInvalidArgument, (*loaded)->Enqueue(call, *compute_));
  call.parameters = one;
  call.results = other;
  EXPECT_CODE(Code::kInvalidArgument, (*loaded)->Enqueue(call, *compute_));
  call.parameters = call.results = none;
  EXPECT_CODE(Code::kInvalidArgument, (*loaded)->Enqueue(call, *compute_));
  EXPECT_FINE(compute_->Synchronize());
}

TEST_P(DeviceConformance, AStreamKeepsItsOrder) {
  Allocation a = Allocate(4096);
  std::vector<Bytes> seen(50, Bytes(4096));
  for (size_t i = 0; i < seen.size(); ++i) {
    std::byte value{static_cast<uint8_t>(i + 1)};
    ASSERT_FINE(compute_->Fill(a.address(), 4096, std::span(&value, 1)));
    ASSERT_FINE(compute_->Copy(CopyKind::kToHost, seen[i].data(), a.address(), 4096));
  }
  std::atomic<bool> called = false;
  ASSERT_FINE(compute_->Call("look", [&]() -> Status {
    called = true;
    return {};
  }));
  ASSERT_FINE(compute_->Synchronize());
  EXPECT_TRUE(called);
  for (size_t i = 0; runs() && i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], Bytes(4096, std::byte{static_cast<uint8_t>(i + 1)}));
  }
}

TEST_P(DeviceConformance, EventsOrderStreams) {
  constexpr int64_t kBlock = 1 << 17;
  Allocation a = Allocate(kBlock), b = Allocate(kBlock);
  std::vector<Bytes> in, out(20, Bytes(kBlock));
  for (uint32_t i = 0; i < 20; ++i) in.push_back(Pattern(kBlock, i));
  auto free = compute_->Record();
  ASSERT_FINE(free);
  EventPtr a_free = *free, b_free = *free;
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_FINE(to_device_->WaitFor(a_free));
    ASSERT_FINE(to_device_->Copy(CopyKind::kToDevice, a.address(), in[i].data(), kBlock));
    auto there = to_device_->Record();
    ASSERT_FINE(there);
    ASSERT_FINE(compute_->WaitFor(*there));
    ASSERT_FINE(compute_->WaitFor(b_free));
    ASSERT_FINE(compute_->Copy(CopyKind::kOnDevice, b.address(), a.address(), kBlock));
    auto moved = compute_->Record();
    ASSERT_FINE(moved);
    a_free = *moved;
    ASSERT_FINE(to_host_->WaitFor(*moved));
    ASSERT_FINE(to_host_->Copy(CopyKind::kToHost, out[i].data(), b.address(), kBlock));
    auto read = to_host_->Record();
    ASSERT_FINE(read);
    b_free = *read;
  }
  ASSERT_FINE(b_free->Wait());
  EXPECT_TRUE(b_free->done());
  EXPECT_TRUE(a_free->done());
  for (size_t i = 0; runs() && i < in.size(); ++i) {
    EXPECT_EQ(in[i], out[i]) << i;
  }
}

// The host gets its bytes while the compute stream is held up.
TEST_P(DeviceConformance, CopiesToTheHostDoNotWaitForLaterWork) {
  if (device_->host_visible()) GTEST_SKIP() << "streams of this device run in place";
  Allocation a = Allocate(1000);
  Bytes pattern = Pattern(1000, 3), got(1000);
  ASSERT_FINE(compute_->Copy(CopyKind::kToDevice, a.address(), pattern.data(), 1000));
  auto written = compute_->Record();
  ASSERT_FINE(written);
  std::atomic<bool> go = false;
  ASSERT_FINE(compute_->Call("dawdle", [&]() -> Status {
    while (!go) std::this_thread::sleep_for(std::chrono::microseconds(50));
    return {};
  }));
  auto later = compute_->Record();
  ASSERT_FINE(later);
  ASSERT_FINE(to_host_->WaitFor(*written));
  ASSERT_FINE(to_host_->Copy(CopyKind::kToHost, got.data(), a.address(), 1000));
  EXPECT_FINE(to_host_->Synchronize());
  EXPECT_FALSE((*later)->done());
  go = true;
  EXPECT_FINE((*later)->Wait());
  if (runs()) {
    EXPECT_EQ(got, pattern);
  }
}

// Memory is freed while work that uses it is still queued, and taken again at once.
TEST_P(DeviceConformance, FreesInStreamOrder) {
  std::vector<Bytes> out(64, Bytes(100000));
  for (size_t i = 0; i < out.size(); ++i) {
    Allocation a = Allocate(100000);
    std::byte value{static_cast<uint8_t>(i + 1)};
    ASSERT_FINE(compute_->Fill(a.address(), a.bytes(), std::span(&value, 1)));
    ASSERT_FINE(compute_->Copy(CopyKind::kToHost, out[i].data(), a.address(), a.bytes()));
  }
  // By another stream, which has waited.
  Allocation a = Allocate(100000);
  ASSERT_FINE(compute_->Fill(a.address(), a.bytes(), Bytes(1, std::byte{77})));
  auto written = compute_->Record();
  ASSERT_FINE(written);
  ASSERT_FINE(to_host_->WaitFor(*written));
  Bytes last(100000);
  ASSERT_FINE(to_host_->Copy(CopyKind::kToHost, last.data(), a.address(), a.bytes()));
  a.FreeAfter(to_host_);
  a.Free();
  Allocation again = Allocate(100000);
  ASSERT_FINE(compute_->Fill(again.address(), again.bytes(), Bytes(1)));
  ASSERT_FINE(compute_->Synchronize());
  ASSERT_FINE(to_host_->Synchronize());
  if (!runs()) return;
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], Bytes(100000, std::byte{static_cast<uint8_t>(i + 1)})) << i;
  }
  EXPECT_EQ(last, Bytes(100000, std::byte{77}));
}

TEST_P(DeviceConformance, TenThousandAllocationsDoNotGrow) {
  Allocation first = Allocate(kMegabyte);
  first.Free();
  ASSERT_FINE(compute_->Synchronize());
  for (int i = 0; i < 10000; ++i) {
    Allocation a = Allocate(200000 + i % 7 * 1000), b = Allocate(i % 2 ? 300000 : 1000);
    ASSERT_TRUE(a && b) << i;
  }
  ASSERT_FINE(compute_->Synchronize());
  EXPECT_LE(device_->memory().reserved, 64 * kMegabyte);
  EXPECT_LE(device_->memory().peak, kMegabyte);
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
  for (const char* name : {"async_copy", "complex", "conditional", "elementwise", "gemm", "library",
                           "softmax", "atomic", "combine", "threads", "tiles", "vector_sum",
                           "while_counter", "while_limit", "while_wide_limit"}) {
    SCOPED_TRACE(name);
    auto text = ReadFile(StrCat("test/program/", name, ".program"));
    ASSERT_FINE(text);
    ExpectLikeInterpreter(*text, 5);
  }
}

}  // namespace weft::runtime
