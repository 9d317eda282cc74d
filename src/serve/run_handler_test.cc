// Threads around the scheduler: every task runs or is refused, once.
#include "serve/run_handler.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace weft::serve {
namespace {

// Runs take a while; whoever runs or is refused is counted.
struct SlowRunner final : TaskRunner {
  void Run(const Scheduler::Batch& batch) override {
    Time until = Now() + takes.at(batch.lane);
    while (Now() < until) {
    }
    ran += static_cast<int>(batch.tasks.size());
  }
  void Refuse(Task&, Error) override { ++refused; }
  std::map<const Lane*, Time> takes;  // before anything runs
  std::atomic<int> ran = 0, refused = 0;
};

// While requests are turned away the runs change over to other threads, and back: none is lost.
TEST(RunHandler, LosesNobodyWhileItIsCrowded) {
  SlowRunner runner;
  SchedulerOptions options{.slots = 3, .reserved = 1, .max_queue = 4, .cores = 2, .high_slots = 2};
  Lane lane({1}, true);
  runner.takes[&lane] = kMillisecond;
  {
    RunHandler handler(options, runner);
    for (int i = 0; i < 100; ++i) {
      auto task = std::make_shared<Task>();
      task->lane = &lane;
      task->priority = i % 10 == 0 ? Priority::kHigh : Priority::kNormal;
      task->arrival = Now();
      handler.Submit(std::move(task));
      if (i % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    EXPECT_TRUE(handler.Drain(Now() + 20 * kSecond));
  }
  EXPECT_EQ(runner.ran + runner.refused, 100);
  EXPECT_GT(runner.refused, 0);
}

// Of requests that came together the shortest run first, here; what would wait for them too long is
// handed over before.
TEST(RunHandler, RunsTheShortestOfSeveralFirst) {
  struct Notes final : TaskRunner {
    void Run(const Scheduler::Batch& batch) override {
      MutexLock lock(mutex);
      (std::this_thread::get_id() == here ? ran_here : ran_there).push_back(batch.lane);
    }
    void Refuse(Task&, Error) override {}
    const std::thread::id here = std::this_thread::get_id();
    Mutex mutex;
    std::vector<const Lane*> ran_here, ran_there;
  } notes;
  std::array<Lane, 3> lanes = {Lane({1}, true), Lane({1}, true), Lane({1}, true)};
  constexpr Time kTakes[] = {80 * kMicrosecond, 30 * kMicrosecond, 20 * kMicrosecond};
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i].Learn(0, kTakes[i]);
  {
    RunHandler handler({.slots = 8, .cores = 8}, notes);
    RunHandler::HoldRuns();
    for (int which : {0, 1, 2, 0}) {
      auto task = std::make_shared<Task>();
      task->lane = &lanes[static_cast<size_t>(which)];
      task->arrival = Now();
      EXPECT_TRUE(handler.RunHere(task));
    }
    EXPECT_TRUE(RunHandler::HoldsRuns());
    EXPECT_TRUE(notes.ran_here.empty());
    EXPECT_EQ(RunHandler::ReleaseRuns(100 * kMicrosecond), 3u);  // the second long one waits 130 us
    EXPECT_FALSE(RunHandler::HoldsRuns());
    auto others = [&] {
      MutexLock lock(notes.mutex);
      return notes.ran_there.size();
    };
    for (Time until = Now() + 20 * kSecond; others() == 0 && Now() < until;) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 3; ++i) RunHandler::RunNext();
    EXPECT_TRUE(handler.Drain(Now() + 20 * kSecond));
  }
  EXPECT_EQ(notes.ran_there, (std::vector<const Lane*>{&lanes[0]}));
  EXPECT_EQ(notes.ran_here, (std::vector<const Lane*>{&lanes[2], &lanes[1], &lanes[0]}));
}

// One run that was behind others says nothing; where all hardly get on somebody else has the cores.
TEST(RunHandler, StarvingIsJudgedByManyRuns) {
  Starvation starvation;
  EXPECT_FALSE(starvation.Add(60));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(starvation.Add(i % 10 == 0 ? 20 : 1.5));
  int runs = 1;
  while (!starvation.Add(20)) ++runs;
  EXPECT_LE(runs, 16);
  EXPECT_FALSE(starvation.Add(20));  // it begins anew
}

// Threads of each kind say how they are ranked, and whose turn it is.
TEST(RunHandler, SaysHowThreadsAreRanked) {
  SlowRunner runner;
  SchedulerOptions options{
      .slots = 3, .reserved = 1, .cores = 4, .own_cores = true, .high_slots = 4};
  RunHandler handler(options, runner);
  std::vector<RunHandler::CrewFacts> crews = handler.Crews();
  ASSERT_EQ(crews.size(), 4u);
  EXPECT_EQ(crews[0].cores, "begin on the last 3");
  EXPECT_EQ(crews[1].threads, 1);
  EXPECT_EQ(crews[1].cores, "begin on the first 1");
  EXPECT_EQ(crews[2].rank, "SCHED_OTHER, slices of 100000 us");
  EXPECT_TRUE(crews[2].turn);
  EXPECT_EQ(crews[3].rank, "SCHED_IDLE");
  EXPECT_FALSE(crews[3].turn);
}

// Short ones run where they arrive and go by long ones, threads of the high class take what is much
// shorter, some are cancelled, some expire, and at times there is too much: none is lost. On cores
// of its own (of which there may be fewer than it is told) threads have places.
class RunHandlerPlacement : public ::testing::TestWithParam<SchedulerOptions::Placement> {};
using Placement = SchedulerOptions::Placement;
INSTANTIATE_TEST_SUITE_P(All, RunHandlerPlacement,
                         ::testing::Values(Placement::kFree, Placement::kPinned,
                                           Placement::kBehind));

TEST_P(RunHandlerPlacement, LosesNobodyOfManyLanes) {
  SlowRunner runner;
  SchedulerOptions options{.slots = 4,
                           .reserved = 1,
                           .max_queue = 20,
                           .cores = 4,
                           .own_cores = true,
                           .placement = GetParam(),
                           .high_slots = 3};
  std::array<Lane, 3> lanes = {Lane({1, 4}), Lane({1, 4}), Lane({1}, true)};
  constexpr Time kTakes[] = {20 * kMicrosecond, 200 * kMicrosecond, kMillisecond};
  for (size_t i = 0; i < lanes.size(); ++i) {
    runner.takes[&lanes[i]] = kTakes[i];
    for (size_t bucket = 0; bucket < lanes[i].buckets().size(); ++bucket)
      lanes[i].Learn(bucket, kTakes[i]);
  }
  constexpr int kThreads = 3, kEach = 200;
  {
    RunHandler handler(options, runner);
    auto ask = [&](uint64_t seed) {
      std::mt19937_64 random(seed);
      for (int i = 0; i < kEach; ++i) {
        auto task = std::make_shared<Task>();
        size_t which = random() % lanes.size();
        task->lane = &lanes[which];
        task->priority = static_cast<Priority>(random() % kPriorities);
        task->arrival = Now();
        if (random() % 4 == 0) task->deadline = task->arrival + 2 * kMillisecond;
        if (which == 0 && handler.RunHere(task)) continue;
        handler.Submit(task);
        if (random() % 8 == 0) handler.Cancel(*task);
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
    };
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < kThreads; ++i) threads.emplace_back(ask, i + 1);
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(handler.Drain(Now() + 60 * kSecond));
    EXPECT_EQ(handler.load().running, 0);
  }
  EXPECT_EQ(runner.ran + runner.refused, kThreads * kEach);
}

}  // namespace
}  // namespace weft::serve
