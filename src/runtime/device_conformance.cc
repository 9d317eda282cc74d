#include "runtime/device_conformance.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/testing_programs.h"

namespace weft::runtime {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceConformance);

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

}  // namespace weft::runtime
