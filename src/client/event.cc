#include "client/event.h"

#include <condition_variable>
#include <deque>
#include <utility>

#include "base/check.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/trace.h"
#include "client/cancel.h"
#include "client/executor.h"

namespace weft::client {

struct Event::Waiter {
  std::function<void(const Status&)> fn;
  Waiter* next = nullptr;
};

// Waiters set events whose waiters set events. From some depth on those wait their turn, so that a
// long chain that fails at once (its client is gone) does not unwind on one stack.
struct Event::Unwinding {
  int depth = 0;
  std::deque<std::pair<Waiter*, Status>> later;
};

Event::~Event() {
  // Pending for ever: nobody is left to set it.
  Waiter* waiter = waiting_.load(std::memory_order_relaxed);
  while (waiter != nullptr && waiter != Ready()) {
    delete std::exchange(waiter, waiter->next);
  }
}

const EventRef& Event::Done() {
  // Never destroyed: threads may use it until the very end.
  static const EventRef& done = *[] {
    auto* event = new EventRef(std::make_shared<Event>());
    (*event)->Set({});
    return event;
  }();
  return done;
}

EventRef Event::Failed(Error error) {
  auto event = std::make_shared<Event>();
  event->Set(std::unexpected(std::move(error)));
  return event;
}

void Event::Set(Status status) {
  status_ = std::move(status);
  // Whoever waits may drop the event as soon as it is ready.
  Status copy = status_;
  Waiter* newest = waiting_.exchange(Ready(), std::memory_order_acq_rel);
  CHECK(newest != Ready()) << "event: set twice";
  Waiter* oldest = nullptr;
  while (newest != nullptr) {
    Waiter* next = std::exchange(newest->next, oldest);
    oldest = std::exchange(newest, next);
  }
  if (oldest == nullptr) return;
  thread_local Unwinding unwinding;
  if (unwinding.depth == kMaxDepth) {
    unwinding.later.emplace_back(oldest, std::move(copy));
    return;
  }
  ++unwinding.depth;
  RunWaiters(oldest, copy);
  while (unwinding.depth == kMaxDepth && !unwinding.later.empty()) {
    auto [waiters, their_status] = std::move(unwinding.later.front());
    unwinding.later.pop_front();
    RunWaiters(waiters, their_status);
  }
  --unwinding.depth;
}

void Event::RunWaiters(Waiter* oldest, const Status& status) {
  while (oldest != nullptr) {
    std::unique_ptr<Waiter> waiter(std::exchange(oldest, oldest->next));
    waiter->fn(status);
  }
}

void Event::OnReady(std::function<void(const Status&)> fn) {
  if (!IsReady()) {
    auto waiter = std::make_unique<Waiter>(std::move(fn));
    Waiter* head = waiting_.load(std::memory_order_acquire);
    while (head != Ready()) {
      waiter->next = head;
      if (waiting_.compare_exchange_weak(head, waiter.get(), std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
        waiter.release();
        return;
      }
    }
    fn = std::move(waiter->fn);
  }
  fn(status_);
}

const Status& Event::Await() {
  if (IsReady()) return status_;
  // Shared with the callback, which may still hold it when this thread has seen the flag.
  struct Signal {
    Mutex mutex;
    std::condition_variable wake;
    bool set WEFT_GUARDED_BY(mutex) = false;
  };
  auto signal = std::make_shared<Signal>();
  OnReady([signal](const Status&) {
    MutexLock lock(signal->mutex);
    signal->set = true;
    signal->wake.notify_one();
  });
  static const trace::CachedWhat waiting;
  trace::Span span(waiting.Get(trace::Kind::kWait, [] { return trace::What{.name = "await"}; }));
  metrics::Add(metrics::kWaits);
  metrics::Timer timer(metrics::kWaitSeconds);
  Executor::BlockingScope blocking;
  MutexLock lock(signal->mutex);
  while (!signal->set) signal->mutex.Wait(signal->wake);
  return status_;
}

namespace {

// Events of which another one is made.
struct Join : Cancellable {
  std::vector<EventRef> events;
  std::atomic<size_t> pending;
  EventRef all = std::make_shared<Event>();

  void Cancel(std::vector<EventRef>& before) override {
    before.insert(before.end(), events.begin(), events.end());
  }
};

}  // namespace

EventRef AllOf(std::vector<EventRef> events) {
  std::erase_if(events, [](const EventRef& e) { return e->IsReady() && e->status().has_value(); });
  if (events.empty()) return Event::Done();
  if (events.size() == 1) return events[0];
  auto join = std::make_shared<Join>();
  join->events = std::move(events);
  join->pending = join->events.size();
  join->all->SetSource(join);
  EventRef all = join->all;
  for (size_t i = 0; i < join->events.size(); ++i) {
    // Not held by the event itself once it has run, so that there is no cycle.
    join->events[i]->OnReady([join](const Status&) {
      if (join->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      Status first;
      for (const EventRef& event : join->events) {
        if (event->IsReady() && !event->status()) {
          first = event->status();
          break;
        }
      }
      join->all->Set(std::move(first));
    });
  }
  return all;
}

}  // namespace weft::client
