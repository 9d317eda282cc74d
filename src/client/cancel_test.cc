// Runs that are cancelled, and runs that crash.
#include "client/cancel.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "client/executor.h"
#include "client/test_util.h"
#include "cpu/device.h"
#include "inspect/crash_report.h"

namespace weft::client {
namespace {

using testing::CompileText;
using testing::F32;
using testing::Floats;
using testing::MakeClient;
using testing::RunOne;

constexpr char kEndless[] = R"(HloModule endless
body {
  p = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[2] get-tuple-element(p), index=1
  mask = s32[] constant(1023)
  one = s32[] constant(1)
  more = s32[] add(i, one)
  j = s32[] and(more, mask)
  y = f32[2] add(x, x)
  ROOT t = (s32[], f32[2]) tuple(j, y)
}
condition {
  p = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(1024)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[2] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[2]) tuple(zero, x)
  w = (s32[], f32[2]) while(t), condition=condition, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1
})";

constexpr char kTwice[] = R"(HloModule twice
ENTRY main {
  a = f32[2] parameter(0)
  ROOT r = f32[2] add(a, a), metadata={source_file="model.py" source_line=7}
})";

TEST(Cancel, EndsWhatAnEventWaitsForAndNothingElse) {
  ClientOptions options;
  options.threads = 2;
  auto client = MakeClient(options);
  auto endless = CompileText(*client, kEndless), twice = CompileText(*client, kTwice);
  auto x = F32(*client, {1, 2}, {2});
  auto first = RunOne(*endless, {x.get()});
  auto second = RunOne(*twice, {first.get()});
  auto third = RunOne(*twice, {second.get()});
  auto other = RunOne(*endless, {x.get()});
  CancelAll({third->ready()});
  for (Buffer* buffer : {first.get(), second.get(), third.get()}) {
    ASSERT_TRUE(buffer->ready()->IsReady());
    EXPECT_EQ(buffer->ready()->status().error().code(), Code::kCancelled);
  }
  EXPECT_FALSE(other->ready()->IsReady());
  // The place of the first is free, and its argument is as it was.
  EXPECT_EQ(Floats(*RunOne(*twice, {x.get()})), (std::vector<float>{2, 4}));
  CancelAll({other->ready()});
  CancelAll({other->ready()});
  EXPECT_EQ(other->ready()->status().error().code(), Code::kCancelled);
}

TEST(Cancel, WhatIsCopiedOrJoined) {
  auto client = MakeClient();
  auto endless = CompileText(*client, kEndless);
  auto x = F32(*client, {1, 2}, {2});
  auto y = RunOne(*endless, {x.get()}), z = RunOne(*endless, {x.get()});
  std::vector<float> out(2);
  EventRef copied = y->CopyToHost(out.data(), 8);
  EventRef both = AllOf({copied, z->ready()});
  CancelAll({both});
  EXPECT_FALSE(both->Await().has_value());
  EXPECT_TRUE(y->ready()->IsReady() && z->ready()->IsReady());
}

// A task that nobody can end counts as blocked once it is given up: others run, and who leaves does
// not wait for it.
TEST(Cancel, ATaskThatIsGivenUp) {
  Executor executor(1);
  std::atomic<bool> end = false, other = false;
  std::atomic<Executor::GiveUpScope*> running = nullptr;
  executor.Schedule([&] {
    Executor::GiveUpScope scope;
    running = &scope;
    running.notify_all();
    while (!end) std::this_thread::yield();
  });
  running.wait(nullptr);
  EXPECT_FALSE(executor.HasLeavable());
  running.load()->GiveUp();
  running.load()->GiveUp();
  EXPECT_FALSE(executor.WaitForAllButLeavable(std::chrono::milliseconds(1)));
  executor.Schedule([&] {
    other = true;
    other.notify_all();
  });
  other.wait(false);
  end = true;
  EXPECT_TRUE(executor.WaitForAllButLeavable(std::chrono::hours(1)));
}

TEST(Cancel, ACompilation) {
  auto client = MakeClient();
  std::atomic<bool> cancel = true;
  auto executable = Executable::Compile(*client, "hlo", kTwice, {}, &cancel);
  ASSERT_FALSE(executable.has_value());
  EXPECT_EQ(executable.error().code(), Code::kCancelled);
}

// Memory that is not there, handed in as an argument.
void CrashInAKernel() {
  inspect::CrashReportOptions report;
  report.directory = ::testing::TempDir() + "weft-crash-test";
  inspect::InstallCrashReport(report);
  auto client = MakeClient();
  auto twice = CompileText(*client, kTwice);
  auto x = BufferFromView(client->devices()[0]->default_memory(), Shape(DType::kF32, {2}),
                          reinterpret_cast<void*>(uintptr_t{64}), [] {});
  RunOne(*twice, {x->get()});
}

TEST(CrashReportDeathTest, NamesTheStepOfAKernel) {
  if (!cpu::IsAvailable()) GTEST_SKIP() << "no native code";
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(CrashInAKernel(), ::testing::KilledBySignal(SIGSEGV),
              "weft: crash: SIGSEGV at address 0x40 while twice runs\n  in .*\n  at model.py:7\n"
              "  hint: to see it again: weft bisect .*weft-crash-test/crash-[0-9]+.twice\n");
}

}  // namespace
}  // namespace weft::client
