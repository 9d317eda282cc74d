#include "serve/run_handler.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/thread_limit.h"
#include "base/trace.h"

namespace weft::serve {
namespace {

std::chrono::steady_clock::time_point ToClock(Time time) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time));
}

// Of the system's priorities (nice): a tenth of the weight of the threads that do not stand behind.
constexpr int kBehind = 10;

void StandBehind() {
  id_t self = static_cast<id_t>(gettid());
  // Where it is refused all are alike.
  (void)setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kBehind);
}

// Milliseconds, rounded up: what a client is told to wait.
int64_t RetryMilliseconds(Time wait) {
  return std::max<int64_t>((wait + kMillisecond - 1) / kMillisecond, 1);
}

Error TurnedAway(Scheduler::Verdict verdict, Time retry_after) {
  if (verdict == Scheduler::Verdict::kExpired) {
    return Error(Code::kDeadlineExceeded, "the deadline passed before the request began");
  }
  std::string_view why = verdict == Scheduler::Verdict::kQueueFull
                             ? "the queue is full"
                             : "the request would wait longer than it may";
  Error error(Code::kResourceExhausted, StrCat("overloaded: ", why));
  error.Hint(StrCat("retry after ", RetryMilliseconds(retry_after), " ms"));
  return error;
}

}  // namespace

Time Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

RunHandler::RunHandler(SchedulerOptions options, TaskRunner& runner)
    : runner_(runner),
      scheduler_(options),
      others_only_(options.reserved > 0 && options.high_slots > 0) {
  auto start = [&](int count, std::string_view name, Scheduler::Takes takes) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, label = StrCat(name, i), takes] {
        trace::NameThread(label);
        Work(takes);
      });
    }
  };
  using Takes = Scheduler::Takes;
  if (options.reserved > 0) {
    start(std::max(options.reserved, options.high_slots), "serve high ", Takes::kHigh);
  }
  start(options.slots - options.reserved, "serve ", others_only_ ? Takes::kOthers : Takes::kAll);
}

RunHandler::~RunHandler() {
  Drain(0);
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  wake_high_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RunHandler::Submit(TaskRef task) {
  Scheduler::Admission admission;
  bool draining = false;
  TaskRef kept = task;
  {
    MutexLock lock(mutex_);
    draining = draining_;
    if (!draining) admission = scheduler_.Admit(std::move(task), Now());
  }
  if (draining) return runner_.Refuse(*kept, Error(Code::kUnavailable, "the server shuts down"));
  if (admission.displaced != nullptr) {
    runner_.Refuse(*admission.displaced,
                   TurnedAway(Scheduler::Verdict::kQueueFull, admission.retry_after));
  }
  if (admission.verdict != Scheduler::Verdict::kAdmitted) {
    return runner_.Refuse(*kept, TurnedAway(admission.verdict, admission.retry_after));
  }
  WakeOne();
}

bool RunHandler::RunHere(const TaskRef& task) {
  std::optional<Scheduler::Batch> batch;
  {
    MutexLock lock(mutex_);
    if (!draining_) batch = scheduler_.StartAtOnce(task, Now());
  }
  if (!batch) return false;
  if (RunBatch(*batch)) WakeOne();  // its slot is free for what came meanwhile
  return true;
}

void RunHandler::WakeOne() {
  bool high = false, other = false;
  {
    MutexLock lock(mutex_);
    if (scheduler_.queued() == 0) return;
    high = waiting_high_ > 0 && scheduler_.MayTake(Scheduler::Takes::kHigh);
    other =
        waiting_ > 0 && (scheduler_.MayTake(Scheduler::Takes::kOthers) ||
                         (!high && !others_only_ && scheduler_.MayTake(Scheduler::Takes::kHigh)));
  }
  if (high) wake_high_.notify_one();
  if (other) wake_.notify_one();
}

void RunHandler::Cancel(Task& task) {
  TaskRef withdrawn;
  {
    MutexLock lock(mutex_);
    withdrawn = scheduler_.Withdraw(task);
  }
  if (withdrawn != nullptr)
    runner_.Refuse(task, Error(Code::kCancelled, "the request was cancelled"));
}

bool RunHandler::RunBatch(const Scheduler::Batch& batch) {
  {
    ThreadLimit limit(batch.threads);
    runner_.Run(batch);
  }
  bool idle = false, more = false;
  {
    MutexLock lock(mutex_);
    scheduler_.Done(batch, Now());
    idle = draining_ && scheduler_.Idle();
    more = scheduler_.queued() > 0;
  }
  if (idle) idle_.notify_all();
  return more;
}

void RunHandler::Work(Scheduler::Takes takes) {
  const bool high = takes == Scheduler::Takes::kHigh;
  std::condition_variable& wake = high ? wake_high_ : wake_;
  if (!high) StandBehind();
  for (;;) {
    Scheduler::Decision decision;
    {
      MutexLock lock(mutex_);
      decision = scheduler_.Next(Now(), takes);
      if (!decision.batch && decision.expired.empty()) {
        if (stopping_) return;
        int& waiting = high ? waiting_high_ : waiting_;
        ++waiting;
        if (decision.wake == kNever) {
          mutex_.Wait(wake);
        } else {
          mutex_.WaitUntil(wake, ToClock(decision.wake));
        }
        --waiting;
        continue;
      }
    }
    WakeOne();  // another slot may be free for what is left
    for (const TaskRef& task : decision.expired) {
      runner_.Refuse(*task, TurnedAway(Scheduler::Verdict::kExpired, 0));
    }
    if (decision.batch && RunBatch(*decision.batch)) WakeOne();
  }
}

bool RunHandler::Drain(Time deadline) {
  MutexLock lock(mutex_);
  draining_ = true;
  while (!scheduler_.Idle()) {
    if (deadline == 0) {
      mutex_.Wait(idle_);
    } else if (Now() >= deadline) {
      return false;
    } else {
      mutex_.WaitUntil(idle_, ToClock(deadline));
    }
  }
  return true;
}

RunHandler::Load RunHandler::load() const {
  MutexLock lock(mutex_);
  Load load;
  for (int c = 0; c < kPriorities; ++c)
    load.queued[c] = scheduler_.queued(static_cast<Priority>(c));
  load.running = scheduler_.running();
  load.limit = scheduler_.limit();
  return load;
}

}  // namespace weft::serve
