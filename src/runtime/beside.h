// What goes on beside a run, on threads of its own: the asynchronous lists of steps of a Program.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/kept_threads.h"
#include "base/mutex.h"

namespace weft::runtime {

class Beside {
 public:
  class Task;
  using TaskPtr = std::shared_ptr<Task>;

  // Runs fn here while so many more threads do what it starts. They have all ended when this
  // returns; what nobody has begun by then, fn having failed, is not done.
  static Status Run(KeptThreads& kept, int64_t threads, const std::function<Status(Beside&)>& fn);

  TaskPtr Start(std::function<Status()> work) WEFT_EXCLUDES(mutex_);
  // Until the work is done: by this thread, where no other has begun it, so that few threads are
  // enough for any number of tasks. What it returned.
  Status Wait(const TaskPtr& task) WEFT_EXCLUDES(mutex_);

 private:
  void Work() WEFT_EXCLUDES(mutex_);
  void End() WEFT_EXCLUDES(mutex_);

  Mutex mutex_;
  std::condition_variable started_, done_;
  std::deque<TaskPtr> queue_ WEFT_GUARDED_BY(mutex_);
  bool has_ended_ WEFT_GUARDED_BY(mutex_) = false;
};

}  // namespace weft::runtime
