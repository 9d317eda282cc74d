// Threads that share work. ParallelFor splits a range in pieces that depend on the range alone, so
// that results do not depend on how many threads there are.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/cores.h"
#include "base/inline_vec.h"
#include "base/mutex.h"

namespace weft {

class ThreadPool {
 public:
  // `threads` counts the caller of ParallelFor too. Threads start when there is work for them.
  explicit ThreadPool(int threads);
  ~ThreadPool();  // runs what was scheduled, then joins
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // At most n threads (1 to threads()) take up work from now on. Scheduled tasks always have one.
  void SetLimit(int n) WEFT_EXCLUDES(mutex_);
  int limit() const { return limit_; }

  // Runs the task on a thread of the pool, some time.
  void Schedule(std::function<void()> task) WEFT_EXCLUDES(mutex_);

  // Calls fn(begin, end) for consecutive pieces of [0, n), each of at least `grain` (but the last),
  // in any order and in parallel, and returns when all are done. The caller works too, so that
  // calls may nest; all take subnormal numbers as it does (base/float_mode.h).
  template <class Fn>
  void ParallelFor(int64_t n, int64_t grain, const Fn& fn) {
    Run(n, grain, &fn, [](const void* f, int64_t begin, int64_t end) {
      (*static_cast<const Fn*>(f))(begin, end);
    });
  }
  // The size of the pieces.
  static int64_t PieceSize(int64_t n, int64_t grain);

 private:
  using RangeFn = void (*)(const void* fn, int64_t begin, int64_t end);
  struct Loop;
  // A task, or a loop that some threads are to help with.
  struct Entry {
    std::function<void()> task;
    std::shared_ptr<Loop> loop;
    int copies = 1;
  };
  // A worker as others wake it.
  struct Sleeper {
    const int index;
    std::condition_variable wake;
  };
  // Where a worker that looks for work gets a loop without the mutex.
  struct Mailbox;
  // Whom to wake, and who the workers are where they are few.
  static constexpr int kFewWorkers = 3;
  using Workers = InlineVec<int, kFewWorkers>;
  struct ToWake {
    InlineVec<Sleeper*, 2> sleepers;
    Workers workers;
  };
  void Run(int64_t n, int64_t grain, const void* fn, RangeFn call);
  int Offer(const std::shared_ptr<Loop>& loop, int helpers);
  void Work(int index) WEFT_EXCLUDES(mutex_);
  void Enqueue(Entry entry) WEFT_EXCLUDES(mutex_);
  Entry Take() WEFT_REQUIRES(mutex_);
  bool LookForLoop(int index) WEFT_EXCLUDES(mutex_);
  void HelpOffered(int index) WEFT_EXCLUDES(mutex_);
  void WakeForQueue() WEFT_EXCLUDES(mutex_);
  void LockSoon() WEFT_THREAD_ATTRIBUTE(acquire_capability(mutex_));
  ToWake ThreadsToWake() WEFT_REQUIRES(mutex_);
  static void WakeSome(const ToWake& which);
  void WakeAll() WEFT_REQUIRES(mutex_);
  int AllowedWorkers() const { return std::max(1, limit_ - 1); }

  const int threads_;
  mutable Mutex mutex_;
  std::deque<Entry> queue_ WEFT_GUARDED_BY(mutex_);
  std::atomic<int> waiting_{0};  // copies in the queue; for those who look without the mutex too
  std::vector<std::thread> workers_ WEFT_GUARDED_BY(mutex_);
  Workers started_ WEFT_GUARDED_BY(mutex_);               // the first few, as the system names them
  std::deque<Sleeper> sleepers_ WEFT_GUARDED_BY(mutex_);  // one for each worker, in their order
  // Workers without a task: those that look for one, and those that sleep, the last to fall asleep
  // last.
  std::atomic<int> looking_{0};
  std::vector<Sleeper*> asleep_ WEFT_GUARDED_BY(mutex_);
  const std::unique_ptr<Mailbox[]> boxes_;  // one for each worker that there may be
  std::atomic<int> limit_;
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
};

// One pool for the process with AvailableCores() threads; made on first use, never destroyed.
ThreadPool& DefaultPool();

}  // namespace weft
