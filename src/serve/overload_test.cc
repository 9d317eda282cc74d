// The scheduler under twice the load that it can take, at simulated times: requests come as a
// Poisson process and take exponential times; a tenth of them are of the high class.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "serve/scheduler.h"

namespace weft::serve {
namespace {

struct SimulatedTask : Task {
  Time takes = 0;
};

struct Outcomes {
  std::vector<Time> latencies;  // of those that were done
  int64_t shed = 0, expired = 0, late = 0;
  Time longest_wait = 0;

  Time Quantile(double q) {
    std::ranges::sort(latencies);
    return latencies[static_cast<size_t>(q * static_cast<double>(latencies.size() - 1))];
  }
};

class Simulation {
 public:
  Simulation(SchedulerOptions options, double load, Time low_deadline)
      : slots_(options.slots), load_(load), low_deadline_(low_deadline), scheduler_(options) {}

  void Run(Time length) {
    Time mean_gap = static_cast<Time>(static_cast<double>(kMean) / (load_ * slots_));
    Time next = 0;
    while (next < length || !events_.empty()) {
      if (next < length && (events_.empty() || next <= events_.begin()->first)) {
        now_ = next;
        Arrive();
        next += Draw(mean_gap);
      } else {
        auto event = events_.extract(events_.begin());
        now_ = event.key();
        event.mapped()();
      }
      Start();
    }
  }

  Outcomes high, low;
  static constexpr Time kMean = kMillisecond;

 private:
  Time Draw(Time mean) {
    return 1 + static_cast<Time>(
                   std::exponential_distribution<double>(1.0 / static_cast<double>(mean))(random_));
  }

  void Arrive() {
    auto task = std::make_shared<SimulatedTask>();
    bool is_high = std::uniform_real_distribution<double>()(random_) < 0.1;
    task->lane = &lane_;
    task->priority = is_high ? Priority::kHigh : Priority::kLow;
    task->arrival = now_;
    if (!is_high) task->deadline = now_ + low_deadline_;
    task->takes = Draw(kMean);
    Scheduler::Admission admission = scheduler_.Admit(task, now_);
    if (admission.verdict != Scheduler::Verdict::kAdmitted) ++Of(*task).shed;
    if (admission.displaced != nullptr) ++Of(*admission.displaced).shed;
  }

  Outcomes& Of(const Task& task) { return task.priority == Priority::kHigh ? high : low; }

  void Start() {
    for (;;) {
      Scheduler::Decision decision = scheduler_.Next(now_);
      for (const TaskRef& task : decision.expired) ++Of(*task).expired;
      if (decision.wake < wake_) {
        wake_ = decision.wake;
        events_.emplace(wake_, [this] { wake_ = kNever; });
      }
      if (!decision.batch) return;
      auto batch = std::make_shared<Scheduler::Batch>(std::move(*decision.batch));
      const auto& task = static_cast<const SimulatedTask&>(*batch->tasks[0]);
      EXPECT_GT(task.deadline, now_);  // expired ones never run
      Outcomes& to = Of(task);
      to.longest_wait = std::max(to.longest_wait, now_ - task.arrival);
      events_.emplace(now_ + task.takes, [this, batch] {
        const Task& done = *batch->tasks[0];
        if (now_ > done.deadline) ++Of(done).late;
        if (now_ <= done.deadline) Of(done).latencies.push_back(now_ - done.arrival);
        scheduler_.Done(*batch, now_);
      });
    }
  }

  const int slots_;
  const double load_;
  const Time low_deadline_;
  Time now_ = 0, wake_ = kNever;
  std::mt19937_64 random_{1};
  Lane lane_{{1}};
  Scheduler scheduler_;
  std::multimap<Time, std::function<void()>> events_;
};

constexpr Time kLength = 5 * kSecond;
// 16 workers' worth of slots, and two that are the high class's own.
SchedulerOptions SixteenSlots() {
  SchedulerOptions options;
  options.slots = 16;
  options.reserved = 2;
  return options;
}

TEST(Overload, TheHighClassDoesNotNoticeAndTheRestIsUsed) {
  Simulation calm(SixteenSlots(), 0.1, 20 * kMillisecond);
  calm.Run(kLength);
  Time unloaded = calm.high.Quantile(0.99);
  for (double load : {1.2, 2.0}) {
    Simulation storm(SixteenSlots(), load, 20 * kMillisecond);
    storm.Run(kLength);
    EXPECT_LE(storm.high.Quantile(0.99), unloaded * 3 / 2) << load;
    EXPECT_EQ(storm.high.shed + storm.high.expired, 0) << load;
    // What the high class leaves of 16 slots, in requests of a millisecond each.
    double seconds = static_cast<double>(kLength) / static_cast<double>(kSecond);
    double spare = 16'000 * seconds - static_cast<double>(storm.high.latencies.size());
    double wanted = std::min(spare, 0.9 * load * 16'000 * seconds);
    EXPECT_GE(static_cast<double>(storm.low.latencies.size()), 0.9 * wanted) << load;
    EXPECT_GT(storm.low.shed, 0) << load;
  }
}

// Requests of four shapes at half of the load that the cores can take: each shape's tail. A run
// beside the slots takes a core as any other; here all have one of their own, as at half load
// nearly all do.
class Mixture {
 public:
  Mixture() {
    for (size_t i = 0; i < kShapes.size(); ++i) {
      lanes_.push_back(std::make_unique<Lane>(std::vector<int64_t>{1}));
      lanes_.back()->Learn(0, kShapes[i]);
    }
  }

  // p99 of p50, by shape.
  std::vector<double> Run(int64_t requests) {
    double work = 0;
    for (Time takes : kShapes) work += static_cast<double>(takes) / kShapes.size();
    std::exponential_distribution<double> gap(0.5 * kCores / work);
    double next = 0;
    for (int64_t i = 0; i < requests; ++i) {
      next += gap(random_);
      while (!ends_.empty() && ends_.begin()->first <= static_cast<Time>(next)) End();
      now_ = static_cast<Time>(next);
      Arrive(random_() % kShapes.size());
    }
    while (!ends_.empty()) End();
    std::vector<double> tails;
    for (auto& times : latencies_) {
      std::ranges::sort(times);
      auto at = [&](size_t percent) {
        return static_cast<double>(times[times.size() * percent / 100]);
      };
      tails.push_back(at(99) / at(50));
    }
    return tails;
  }

 private:
  static constexpr int kCores = 8;
  static constexpr std::array<Time, 4> kShapes = {20 * kMicrosecond, 100 * kMicrosecond,
                                                  400 * kMicrosecond, 2 * kMillisecond};
  struct Shaped : Task {
    size_t shape = 0;
  };

  void Arrive(size_t shape) {
    auto task = std::make_shared<Shaped>();
    task->lane = lanes_[shape].get();
    task->shape = shape;
    task->arrival = now_;
    if (kShapes[shape] <= 200 * kMicrosecond) {
      if (auto batch = scheduler_.StartAtOnce(task, now_, true)) return Begin(std::move(*batch));
    }
    scheduler_.Admit(task, now_);
    Start();
  }

  void Start() {
    using Takes = Scheduler::Takes;
    for (Takes takes : {Takes::kOthers, Takes::kHigh}) {
      for (;;) {
        Scheduler::Decision decision = scheduler_.Next(now_, takes, takes == Takes::kHigh);
        if (!decision.batch) break;
        Begin(std::move(*decision.batch));
      }
    }
  }

  void Begin(Scheduler::Batch batch) {
    size_t shape = static_cast<const Shaped&>(*batch.tasks[0]).shape;
    ends_.emplace(now_ + kShapes[shape], std::move(batch));
  }

  void End() {
    auto end = ends_.extract(ends_.begin());
    now_ = end.key();
    for (const TaskRef& task : end.mapped().tasks)
      latencies_[static_cast<const Shaped&>(*task).shape].push_back(now_ - task->arrival);
    scheduler_.Done(end.mapped(), now_);
    Start();
  }

  Time now_ = 0;
  std::mt19937_64 random_{1};
  Scheduler scheduler_{{.slots = kCores + 2, .reserved = 2, .cores = kCores, .high_slots = kCores}};
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::multimap<Time, Scheduler::Batch> ends_;
  std::array<std::vector<Time>, 4> latencies_;
};

TEST(Overload, AtHalfLoadNoShapeWaitsForAnother) {
  for (double tail : Mixture().Run(40'000)) EXPECT_LE(tail, 1.5);
}

TEST(Overload, NobodyStarves) {
  SchedulerOptions options = SixteenSlots();
  options.max_queue = 100;
  options.ageing = 5 * kMillisecond;
  Simulation storm(options, 3.0, kNever / 2);
  storm.Run(2 * kSecond);
  EXPECT_GT(storm.low.latencies.size(), 4'000u);
  // A hundred wait at most, and 14 slots work on them: those let in are done within a bound.
  EXPECT_LT(storm.low.longest_wait, 100 * kMillisecond);
}

}  // namespace
}  // namespace weft::serve
