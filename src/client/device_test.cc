// Arrays and programs on a device with memory of its own: the pretend GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "base/trace.h"
#include "client/accelerator.h"
#include "client/cancel.h"
#include "client/test_util.h"

namespace weft::client {
namespace {

using testing::Call;
using testing::CompileText;
using testing::F32;
using testing::Floats;
using testing::MakeClient;
using testing::RunOne;

constexpr char kAddOne[] = R"(
HloModule add_one, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main {
  x = f32[4] parameter(0)
  one = f32[] constant(1)
  ones = f32[4] broadcast(one), dimensions={}
  ROOT r = f32[4] add(x, ones)
})";

std::unique_ptr<Client> PretendClient(int devices = 1, int64_t memory = 0) {
  ClientOptions options;
  options.platform = Platform::kPretend;
  options.cpu_devices = devices;
  options.memory_limit = memory;
  return MakeClient(options);
}

TEST(Device, SaysWhatItIs) {
  auto client = PretendClient(2);
  ASSERT_EQ(client->devices().size(), 2u);
  EXPECT_EQ(client->devices()[1]->kind(), "Weft GPU: pretend:0");
  EXPECT_NE(client->devices()[0]->default_memory()->accelerator(), nullptr);
  EXPECT_EQ(client->devices()[0]->FindMemory("pinned_host")->accelerator(), nullptr);
}

TEST(Device, ArraysAreDefinedAtOnceAndReadyLater) {
  auto client = PretendClient();
  auto program = CompileText(*client, kAddOne);
  auto x = F32(*client, {1, 2, 3, 4}, {4});
  for (int i = 0; i < 200; ++i) {
    auto result = Call(*program, {x.get()});
    ASSERT_TRUE(result.has_value());
    x = std::move(result->outputs[0][0]);
    EXPECT_TRUE((*x->Get())->defined()->IsReady());
    EXPECT_NE((*x->Get())->device, nullptr);
  }
  ASSERT_TRUE(x->ready()->Await().has_value());
  EXPECT_EQ(Floats(*x), (std::vector<float>{201, 202, 203, 204}));
}

TEST(Device, ADonatedArgumentsMemoryIsTheResults) {
  auto client = PretendClient();
  auto program = CompileText(*client, kAddOne);
  auto x = F32(*client, {1, 2, 3, 4}, {4});
  const void* before = *x->Address();
  auto y = RunOne(*program, {x.get()});
  EXPECT_TRUE(x->IsDeleted());
  EXPECT_EQ(*y->Address(), before);
}

TEST(Device, WhatOthersHoldIsNotOverwritten) {
  auto client = PretendClient();
  auto program = CompileText(*client, kAddOne);
  auto x = F32(*client, {1, 2, 3, 4}, {4});
  ASSERT_TRUE(x->AddExternalReference().has_value());
  const void* before = *x->Address();
  auto y = RunOne(*program, {x.get()});
  EXPECT_NE(*y->Address(), before);
  EXPECT_EQ(*x->Address(), before);  // held from outside
  EXPECT_TRUE(x->DropExternalReference().has_value());
  // Not donated by the caller.
  auto z = std::move(Call(*program, {y.get()}, {0})->outputs[0][0]);
  EXPECT_EQ(Floats(*y), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(Floats(*z), (std::vector<float>{3, 4, 5, 6}));
}

TEST(Device, CopiesAreMadeBeforeADonation) {
  auto client = PretendClient();
  auto program = CompileText(*client, kAddOne);
  for (int i = 0; i < 50; ++i) {
    auto x = F32(*client, {1, 2, 3, 4}, {4});
    std::vector<float> out(4);
    EventRef copied = x->CopyToHost(out.data(), 16);
    auto y = RunOne(*program, {x.get()});
    ASSERT_TRUE(copied->Await().has_value());
    EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(Floats(*y), (std::vector<float>{2, 3, 4, 5}));
  }
}

TEST(Device, MemoriesAndDevices) {
  auto client = PretendClient(2);
  auto x = F32(*client, {1, 2, 3, 4}, {4});
  auto host = x->CopyTo(client->devices()[0]->FindMemory("pinned_host"));
  ASSERT_TRUE(host.has_value());
  EXPECT_EQ(Floats(**host), (std::vector<float>{1, 2, 3, 4}));
  auto back = (*host)->CopyTo(client->devices()[1]->default_memory());
  ASSERT_TRUE(back.has_value());
  auto beside = (*back)->CopyTo(client->devices()[0]->default_memory());
  ASSERT_TRUE(beside.has_value());
  EXPECT_EQ(Floats(**beside), (std::vector<float>{1, 2, 3, 4}));
  float two[2];
  ASSERT_TRUE((*beside)->CopyRawToHost(two, 4, 8)->Await().has_value());
  EXPECT_EQ(two[0], 2);
  EXPECT_EQ(two[1], 3);
}

TEST(Device, ToAProcessorAndBack) {
  auto gpu = PretendClient();
  ClientOptions options;
  options.platform = Platform::kCpu;
  auto cpu = MakeClient(options);
  auto x = F32(*gpu, {1, 2, 3, 4}, {4});
  auto here = x->CopyTo(cpu->devices()[0]->default_memory());
  ASSERT_TRUE(here.has_value());
  EXPECT_EQ(Floats(**here), (std::vector<float>{1, 2, 3, 4}));
  auto there = (*here)->CopyTo(gpu->devices()[0]->default_memory());
  ASSERT_TRUE(there.has_value());
  EXPECT_EQ(Floats(**there), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Device, MemoryThatRunsOut) {
  auto client = PretendClient(1, 1 << 20);
  auto program = CompileText(*client, R"(
HloModule large
ENTRY main {
  x = f32[] parameter(0)
  ROOT r = f32[1048576] broadcast(x), dimensions={}
})");
  auto x = F32(*client, {1}, {});
  auto result = Call(*program, {x.get()});
  ASSERT_TRUE(result.has_value());
  const Status& status = result->outputs[0][0]->ready()->Await();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), Code::kResourceExhausted);
  EXPECT_NE(status.error().ToString().find("execute large: "), std::string::npos);
  EXPECT_EQ(client->gpu()->memory().in_use, 4);
}

TEST(Device, AnErrorIsThatOfWhatDependsOnIt) {
  auto client = PretendClient();
  auto program = CompileText(*client, kAddOne);
  Memory* memory = client->devices()[0]->default_memory();
  auto bad = ErrorBuffer(memory, Shape(DType::kF32, {4}), Error(Code::kAborted, "lost"));
  auto x = F32(*client, {1, 2, 3, 4}, {4});
  auto from_bad = RunOne(*program, {bad.get()});
  auto from_good = RunOne(*program, {x.get()});
  ASSERT_FALSE(from_bad->ready()->Await().has_value());
  EXPECT_EQ(from_bad->ready()->status().error().code(), Code::kAborted);
  EXPECT_EQ(Floats(*from_good), (std::vector<float>{2, 3, 4, 5}));
}

TEST(Device, TransfersInPieces) {
  auto client = PretendClient();
  auto transfer =
      HostTransfer::Create(client->devices()[0]->default_memory(), {Shape(DType::kF32, {4})});
  ASSERT_TRUE(transfer.has_value());
  auto buffer = (*transfer)->TakeBuffer(0);
  ASSERT_TRUE(buffer.has_value());
  auto program = CompileText(*client, kAddOne);
  auto result = RunOne(*program, {buffer->get()});  // before there is anything
  float values[] = {1, 2, 3, 4};
  ASSERT_TRUE((*transfer)->TransferRaw(0, values, 0, 8, false).has_value());
  ASSERT_TRUE((*transfer)->TransferRaw(0, values + 2, 8, 8, true).has_value());
  EXPECT_EQ(Floats(*result), (std::vector<float>{2, 3, 4, 5}));
}

TEST(Device, NothingIsLeftInUse) {
  auto client = PretendClient();
  {
    auto program = CompileText(*client, kAddOne);
    auto x = F32(*client, {1, 2, 3, 4}, {4});
    for (int i = 0; i < 100; ++i) x = RunOne(*program, {x.get()});
    auto other = F32(*client, {1, 2, 3, 4}, {4});  // never read
    EXPECT_EQ(Floats(*x)[0], 101);
  }
  // What is still being copied to the device holds its memory until that is done.
  for (int i = 0; i < 1000 && client->gpu()->memory().in_use != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(client->devices()[0]->default_memory()->use().bytes, 0);
  EXPECT_EQ(client->gpu()->memory().in_use, 0);
}

// A loop that only ends when it is cancelled.
constexpr char kForever[] = R"(HloModule forever
body {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4] get-tuple-element(p), index=1
  one = s32[] constant(1)
  more = s32[] add(i, one)
  mask = s32[] constant(1023)
  j = s32[] and(more, mask)
  y = f32[4] add(x, x)
  ROOT t = (s32[], f32[4]) tuple(j, y)
}
condition {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(1024)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(t), condition=condition, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1
})";

TEST(Device, CancelEndsALoopAndWhatWaitsForIt) {
  using Clock = std::chrono::steady_clock;
  auto client = PretendClient();
  auto forever = CompileText(*client, kForever), add = CompileText(*client, kAddOne);
  auto x = F32(*client, {1, 2, 3, 4}, {4});
  for (int round = 0; round < 3; ++round) {
    auto first = RunOne(*forever, {x.get()});
    auto second = RunOne(*add, {first.get()});
    std::vector<float> out(4);
    EventRef copied = second->CopyToHost(out.data(), 16);
    auto begin = Clock::now();
    CancelAll({copied});
    ASSERT_TRUE(first->IsDeleted() || first->ready()->IsReady());
    EXPECT_EQ(second->ready()->Await().error().code(), Code::kCancelled);
    EXPECT_EQ(copied->Await().error().code(), Code::kCancelled);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));  // a quiet machine takes 1 ms
    // The argument is as it was, and the stream goes on.
    EXPECT_EQ(Floats(*x), (std::vector<float>{1, 2, 3, 4}));
    auto next = std::move(Call(*add, {x.get()}, {0})->outputs[0][0]);
    EXPECT_EQ(Floats(*next), (std::vector<float>{2, 3, 4, 5}));
  }
}

TEST(Device, CancelReachesWhatWasLaunchedLater) {
  auto client = PretendClient();
  auto forever = CompileText(*client, kForever), add = CompileText(*client, kAddOne);
  auto transfer =
      HostTransfer::Create(client->devices()[0]->default_memory(), {Shape(DType::kF32, {4})});
  ASSERT_TRUE(transfer.has_value());
  auto x = (*transfer)->TakeBuffer(0);
  ASSERT_TRUE(x.has_value());
  // Launched when the argument is defined, by another thread.
  auto first = RunOne(*forever, {x->get()});
  auto second = RunOne(*add, {first.get()});
  float values[] = {1, 2, 3, 4};
  ASSERT_TRUE((*transfer)->TransferRaw(0, values, 0, 16, true).has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(second->ready()->IsReady());
  CancelAll({second->ready()});
  EXPECT_EQ(second->ready()->Await().error().code(), Code::kCancelled);
  EXPECT_EQ(Floats(**x), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Device, LoopsEndWithTheirClient) {
  auto client = PretendClient();
  auto forever = CompileText(*client, kForever);
  auto x = F32(*client, {1, 2, 3, 4}, {4});
  EventRef ready = RunOne(*forever, {x.get()})->ready();
  x.reset();
  forever.reset();
  client.reset();
  EXPECT_EQ(ready->Await().error().code(), Code::kCancelled);
}

// The events of one track of a timeline.
std::vector<trace::Event> TrackOf(const trace::Capture& capture, std::string_view name) {
  std::vector<trace::Event> events;
  for (const trace::ThreadEvents& thread : capture.threads) {
    if (thread.name == name)
      events.insert(events.end(), thread.events.begin(), thread.events.end());
  }
  return events;
}

TEST(Device, ACopyToTheHostOverlapsAProgramOnAnotherArray) {
  auto client = PretendClient();
  auto forever = CompileText(*client, kForever);
  auto x = F32(*client, {1, 2, 3, 4}, {4}), other = F32(*client, {5, 6, 7, 8}, {4});
  ASSERT_TRUE(x->ready()->Await() && other->ready()->Await());
  trace::Session session;
  auto running = RunOne(*forever, {x.get()});
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Floats(*other)[0], 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // on a busy machine it begins late
  }
  EXPECT_FALSE(running->ready()->IsReady());
  CancelAll({running->ready()});
  running.reset();
  EXPECT_EQ(Floats(*RunOne(*CompileText(*client, kAddOne), {x.get()}))[0], 2);  // behind the loop
  trace::Capture capture = session.Take();
  std::vector<trace::Event> copies = TrackOf(capture, "pretend:0 to host");
  std::vector<trace::Event> work = TrackOf(capture, "pretend:0 compute");
  auto named = [](std::string_view name) {
    return [name](const trace::Event& event) { return event.what->name == name; };
  };
  auto loop = std::ranges::find_if(work, named("forever"));
  ASSERT_NE(loop, work.end());
  EXPECT_EQ(loop->what->kind, trace::Kind::kExecute);
  EXPECT_NE(loop->from, 0u);  // the request
  EXPECT_GT(std::ranges::count_if(work, [](auto& e) { return e.what->kind == trace::Kind::kStep; }),
            0);
  EXPECT_GT(std::ranges::count_if(copies,
                                  [&](const trace::Event& copy) {
                                    return copy.what->name == "copy to host" && copy.bytes == 16 &&
                                           copy.begin > loop->begin && copy.end < loop->end;
                                  }),
            0);
}

TEST(Device, AThousandDonatedStepsWaitForNothing) {
  auto client = PretendClient();
  auto program = CompileText(*client, kAddOne);
  auto x = F32(*client, {0, 0, 0, 0}, {4});
  const int64_t syncs = metrics::ValueOf(metrics::kDeviceSyncs);
  const int64_t waits = metrics::ValueOf(metrics::kWaits);
  for (int i = 0; i < 1000; ++i) x = RunOne(*program, {x.get()});
  EXPECT_EQ(metrics::ValueOf(metrics::kDeviceSyncs), syncs);
  EXPECT_EQ(metrics::ValueOf(metrics::kWaits), waits);
  EXPECT_EQ(Floats(*x)[0], 1000);
}

TEST(Device, ThreadsShareAStream) {
  auto client = PretendClient();
  auto program = CompileText(*client, kAddOne);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto x = F32(*client, {float(t), 0, 0, 0}, {4});
      for (int i = 0; i < 100; ++i) x = RunOne(*program, {x.get()});
      if (Floats(*x)[0] != float(t + 100)) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace weft::client
