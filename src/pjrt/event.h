// A moment that will come: pending, done, or failed with an Error.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"

namespace weft::pjrt {

class Event;
using EventRef = std::shared_ptr<Event>;

class Event {
 public:
  Event() = default;              // pending
  static const EventRef& Done();  // one for all
  static EventRef Failed(Error error);

  bool IsReady() const { return ready_.load(std::memory_order_acquire); }
  // What became of it; only once ready.
  const Status& status() const { return status_; }
  // Once. Runs what OnReady left here, on this thread, after the state is visible to all.
  void Set(Status status) WEFT_EXCLUDES(mutex_);
  // Runs fn when ready: at once on this thread, or later on the thread that calls Set.
  void OnReady(std::function<void(const Status&)> fn) WEFT_EXCLUDES(mutex_);
  // Blocks. A worker of an Executor that awaits counts as blocked (executor.h).
  const Status& Await() WEFT_EXCLUDES(mutex_);

 private:
  std::atomic<bool> ready_ = false;
  Status status_;
  Mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void(const Status&)>> waiting_ WEFT_GUARDED_BY(mutex_);
};

// Ready when all are; fails with the first error in order.
EventRef AllOf(std::vector<EventRef> events);

}  // namespace weft::pjrt
