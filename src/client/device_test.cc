// Arrays and programs on a device with memory of its own: the pretend GPU.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "client/accelerator.h"
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
