// A moment that will come: pending, done, or failed with an Error.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"

namespace weft::client {

class Cancellable;  // cancel.h
class Event;
using EventRef = std::shared_ptr<Event>;

class Event {
 public:
  Event() = default;              // pending
  static const EventRef& Done();  // one for all
  static EventRef Failed(Error error);
  ~Event();
  Event(const Event&) = delete;

  bool IsReady() const { return waiting_.load(std::memory_order_acquire) == Ready(); }
  // What became of it; only once ready.
  const Status& status() const { return status_; }
  // Once. Runs what OnReady left here, on this thread and in that order, after the state is visible
  // to all. The event may be gone when this returns.
  void Set(Status status);
  // Runs fn when ready: at once on this thread, or later on the thread that calls Set.
  void OnReady(std::function<void(const Status&)> fn);
  // What will set it, where that can be cancelled. Said before others have the event.
  void SetSource(std::weak_ptr<Cancellable> source) { source_ = std::move(source); }
  const std::weak_ptr<Cancellable>& source() const { return source_; }
  // Blocks. A worker of an Executor that awaits counts as blocked (executor.h).
  const Status& Await();

 private:
  struct Waiter;
  struct Unwinding;
  static constexpr int kMaxDepth = 50;
  static void RunWaiters(Waiter* oldest, const Status& status);
  static Waiter* Ready() { return reinterpret_cast<Waiter*>(uintptr_t{1}); }

  // A list of waiters, newest first, while pending; Ready() from then on.
  std::atomic<Waiter*> waiting_ = nullptr;
  Status status_;  // written before Ready()
  std::weak_ptr<Cancellable> source_;
};

// Ready when all are; fails with the first error in order.
EventRef AllOf(std::vector<EventRef> events);

}  // namespace weft::client
