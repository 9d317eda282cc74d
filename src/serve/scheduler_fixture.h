// For tests of the scheduler: tasks with names, at times that the tests make up.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/scheduler.h"

namespace weft::serve {

using Verdict = Scheduler::Verdict;

struct Named : Task {
  std::string name;
};

struct NewTask {
  Priority priority = Priority::kNormal;
  int64_t rows = 1;
  Time deadline = kNever;
};

class SchedulerTest : public ::testing::Test {
 protected:
  void Make(SchedulerOptions options) { scheduler_ = std::make_unique<Scheduler>(options); }
  Scheduler::Admission Admit(std::string name, Lane& lane, NewTask with = {}) {
    auto task = std::make_shared<Named>();
    task->name = std::move(name);
    task->lane = &lane;
    task->rows = with.rows;
    task->priority = with.priority;
    task->arrival = now_;
    task->deadline = with.deadline;
    return scheduler_->Admit(task, now_);
  }
  // The names in the next batch; what expired goes to expired_.
  std::string Next(Scheduler::Takes takes = Scheduler::Takes::kAll) {
    Scheduler::Decision decision = scheduler_->Next(now_, takes);
    wake_ = decision.wake;
    for (const TaskRef& task : decision.expired) expired_ += static_cast<Named&>(*task).name;
    if (!decision.batch) return "-";
    std::string names;
    for (const TaskRef& task : decision.batch->tasks) names += static_cast<Named&>(*task).name;
    running_.push_back(std::move(*decision.batch));
    return names;
  }
  void Done(size_t index = 0) {
    scheduler_->Done(running_[index], now_);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Scheduler::Batch> running_;
  std::string expired_;
  Time now_ = 0, wake_ = 0;
};

inline constexpr NewTask kHigh{.priority = Priority::kHigh}, kLow{.priority = Priority::kLow};

}  // namespace weft::serve
