#include "runtime/beside.h"

#include <algorithm>
#include <utility>

namespace weft::runtime {

class Beside::Task {
 public:
  explicit Task(std::function<Status()> work) : work_(std::move(work)) {}

 private:
  friend class Beside;
  const std::function<Status()> work_;
  bool is_done_ = false;  // with the status, under the mutex
  Status status_;
};

Status Beside::Run(KeptThreads& kept, int64_t threads, const std::function<Status(Beside&)>& fn) {
  Beside beside;
  Status status;
  kept.Run(threads + 1, [&](int64_t thread) {
    if (thread > 0) return beside.Work();
    status = fn(beside);
    beside.End();
  });
  return status;
}

Beside::TaskPtr Beside::Start(std::function<Status()> work) {
  auto task = std::make_shared<Task>(std::move(work));
  MutexLock lock(mutex_);
  queue_.push_back(task);
  started_.notify_one();
  return task;
}

Status Beside::Wait(const TaskPtr& task) {
  {
    MutexLock lock(mutex_);
    auto found = std::ranges::find(queue_, task);
    if (found == queue_.end()) {
      while (!task->is_done_) mutex_.Wait(done_);
      return task->status_;
    }
    queue_.erase(found);
  }
  return task->work_();
}

void Beside::Work() {
  MutexLock lock(mutex_);
  while (true) {
    while (queue_.empty() && !has_ended_) mutex_.Wait(started_);
    if (queue_.empty()) return;
    const TaskPtr task = std::move(queue_.front());
    queue_.pop_front();
    mutex_.Unlock();
    Status status = task->work_();
    mutex_.Lock();
    task->status_ = std::move(status);
    task->is_done_ = true;
    done_.notify_all();
  }
}

void Beside::End() {
  MutexLock lock(mutex_);
  queue_.clear();
  has_ended_ = true;
  started_.notify_all();
}

}  // namespace weft::runtime
