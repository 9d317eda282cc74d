// The way to an Executor for those who may come after it is gone: an event that fires late.
#pragma once

#include <functional>
#include <utility>

#include "base/mutex.h"
#include "client/executor.h"

namespace weft::client {

class TaskGate {
 public:
  explicit TaskGate(Executor* executor) : executor_(executor) {}
  // False, and the task does not run, once closed.
  bool Schedule(std::function<void()> task) WEFT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (executor_ == nullptr) return false;
    executor_->Schedule(std::move(task));
    return true;
  }
  void Close() WEFT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    executor_ = nullptr;
  }

 private:
  Mutex mutex_;
  Executor* executor_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::client
