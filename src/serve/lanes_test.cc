// Runs on devices: the scheduler and the selector of devices under twice the load, at simulated
// times. A device does the runs of each of its queues (lanes) one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "serve/device_selector.h"
#include "serve/scheduler_fixture.h"
#include "serve/server.h"

namespace weft::serve {
namespace {

constexpr Time kRun =
    20 * kMillisecond;  // as long as each takes while the others are not in its way

struct Answers {
  std::vector<Time> latencies;
  int64_t asked = 0, in_time = 0;
};

class LanesSimulation {
 public:
  // `at_once`: how many lanes the device does at full speed.
  LanesSimulation(SchedulerOptions options, int lanes, int at_once)
      : at_once_(at_once),
        scheduler_(options),
        selector_(lanes, DeviceSelector::Policy::kSoonestFree),
        queues_(static_cast<size_t>(lanes)) {}

  // `load`: of what the device can do; `high`: the part of the high class.
  void Run(double load, double high, Time length) {
    std::exponential_distribution<double> gap(load * at_once_ / static_cast<double>(kRun));
    std::uniform_real_distribution<double> any;
    for (Time next = 0; next < length;) {
      next += static_cast<Time>(gap(random_));
      WorkUntil(next);
      Arrive(any(random_) < high ? Priority::kHigh : Priority::kNormal);
      Start();
    }
    while (under_way_ > 0) WorkUntil(now_ + kMillisecond);
  }

  Answers high, rest;

 private:
  struct OnDevice {
    Scheduler::Batch batch;
    DeviceSelector::Reservation held;
    double left;  // of its time
  };

  void Arrive(Priority priority) {
    auto task = std::make_shared<Named>();
    task->lane = &lane_;
    task->priority = priority;
    task->arrival = now_;
    task->deadline = now_ + 5 * kRun;
    ++Of(*task).asked;
    scheduler_.Admit(task, now_);
  }

  void Start() {
    using Takes = Scheduler::Takes;
    for (Takes takes : {Takes::kHigh, Takes::kOthers}) {
      for (;;) {
        Scheduler::Decision decision = scheduler_.Next(now_, takes, takes == Takes::kHigh);
        if (!decision.batch) break;
        DeviceSelector::Reservation held = selector_.Reserve(kRun);
        auto& queue = queues_[static_cast<size_t>(held.device())];
        queue.push_back({std::move(*decision.batch), std::move(held), static_cast<double>(kRun)});
        ++under_way_;
      }
    }
  }

  // The first run of each queue goes on; of more than the device does at full speed each is slower.
  void WorkUntil(Time until) {
    while (now_ < until) {
      std::vector<std::deque<OnDevice>*> busy;
      for (auto& queue : queues_) {
        if (!queue.empty()) busy.push_back(&queue);
      }
      if (busy.empty()) break;
      const double speed = std::min(1.0, at_once_ / static_cast<double>(busy.size()));
      double step = static_cast<double>(until - now_) * speed;
      for (auto* queue : busy) step = std::min(step, queue->front().left);
      now_ += std::max<Time>(static_cast<Time>(step / speed), 1);
      for (auto* queue : busy) queue->front().left -= step;
      for (auto* queue : busy) {
        if (queue->front().left < 1) End(*queue);
      }
      Start();
    }
    now_ = std::max(now_, until);
  }

  void End(std::deque<OnDevice>& queue) {
    const Scheduler::Batch& batch = queue.front().batch;
    const Task& task = *batch.tasks[0];
    Answers& to = Of(task);
    to.latencies.push_back(now_ - task.arrival);
    if (now_ <= task.deadline) ++to.in_time;
    scheduler_.Done(batch, now_);
    queue.pop_front();
    --under_way_;
  }

  Answers& Of(const Task& task) { return task.priority == Priority::kHigh ? high : rest; }

  const int at_once_;
  Time now_ = 0;
  int under_way_ = 0;
  std::mt19937_64 random_{1};
  Lane lane_{{1}, true};
  Scheduler scheduler_;
  DeviceSelector selector_;
  std::vector<std::deque<OnDevice>> queues_;
};

Time P99(std::vector<Time> times) {
  std::ranges::sort(times);
  return times[times.size() * 99 / 100];
}

struct LanesCase {
  int lanes, at_once;
  double slower;   // p99 of the high class, of its time alone
  double in_time;  // of the high class
};

class LanesTest : public ::testing::TestWithParam<LanesCase> {};

// Small runs beside each other, and runs of which each takes the whole device: what it has begun
// goes on, so that one of the high class shares it.
INSTANTIATE_TEST_SUITE_P(All, LanesTest,
                         ::testing::Values(LanesCase{8, 8, 1.5, 0.999}, LanesCase{4, 4, 1.8, 0.999},
                                           LanesCase{4, 1, 5.5, 0.97}, LanesCase{1, 1, 3, 0.99}));

TEST_P(LanesTest, TheHighClassIsAnsweredInTimeUnderOverload) {
  const LanesCase& with = GetParam();
  SchedulerOptions options = DefaultServerOptions(with.lanes).scheduler;
  LanesSimulation storm(options, with.lanes, with.at_once);
  storm.Run(2, 0.1, 100 * kSecond);
  EXPECT_GE(static_cast<double>(storm.high.in_time),
            with.in_time * static_cast<double>(storm.high.asked));
  EXPECT_LE(static_cast<double>(P99(storm.high.latencies)), with.slower * kRun);
  // What the high class leaves of the device is used, as far as lanes are not kept for it.
  const int lanes = std::min(with.at_once, std::max(with.lanes - options.reserved, 1));
  const double all = 100.0 * kSecond / kRun * lanes;
  const double spare = all - static_cast<double>(storm.high.latencies.size());
  EXPECT_GE(static_cast<double>(storm.rest.in_time), 0.85 * spare);
}

TEST(Lanes, AsManyRunsAsTheDevicesDo) {
  SchedulerOptions options = DefaultServerOptions(4).scheduler;
  Scheduler scheduler(options);
  Lane lane({1}, true);
  auto admit = [&](Priority priority) {
    auto task = std::make_shared<Named>();
    task->lane = &lane;
    task->priority = priority;
    scheduler.Admit(task, 0);
  };
  for (int i = 0; i < 20; ++i) admit(Priority::kNormal);
  std::vector<Scheduler::Batch> running;
  auto next = [&](Scheduler::Takes takes) {
    Scheduler::Decision decision = scheduler.Next(0, takes);
    if (decision.batch) running.push_back(std::move(*decision.batch));
    return decision.batch.has_value();
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(next(Scheduler::Takes::kOthers));
  EXPECT_FALSE(next(Scheduler::Takes::kOthers));  // a lane is left for the high class
  EXPECT_EQ(running[0].threads, 1);               // the host only waits
  admit(Priority::kHigh);
  EXPECT_TRUE(next(Scheduler::Takes::kHigh));
  // Nothing goes by others where it would stand behind one.
  Lane brief({1}, true);
  brief.Learn(0, kMicrosecond);
  auto task = std::make_shared<Named>();
  task->lane = &brief;
  EXPECT_FALSE(scheduler.StartAtOnce(task, 0, true));
  scheduler.Done(running[0], kMillisecond);
  EXPECT_TRUE(scheduler.StartAtOnce(task, kMillisecond, true));
}

}  // namespace
}  // namespace weft::serve
