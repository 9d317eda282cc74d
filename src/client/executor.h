// Threads that run executions and transfers. Tasks start in the order given; a task that has to
// wait for data is not given before the data is there. A task may block (a host callback that calls
// jitted code, say): while it does, another thread takes its place, so that nothing that is ready
// waits for it. A process that forks off may go on: what the other threads were at is lost to it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace weft::client {

struct WorkerState;  // what a thread is to the executors

class Executor {
 public:
  explicit Executor(int threads);  // how many work at once; they start when there is work
  ~Executor();                     // runs what was scheduled, then joins
  Executor(const Executor&) = delete;

  void Schedule(std::function<void()> task) WEFT_EXCLUDES(mutex_);
  // Nothing is queued or running. A hint, for running tiny programs on the caller's thread.
  bool IsIdle() const { return depth() == 0; }
  // Tasks that are queued or running.
  int64_t depth() const { return unfinished_.load(std::memory_order_relaxed); }
  // Whether the current thread is a worker of this executor.
  bool IsWorker() const;

  // While one lives, the current thread, if it is a worker of an Executor, counts as blocked.
  // `leavable`: it may be left behind when the process ends (it writes to nothing but its results).
  class BlockingScope {
   public:
    explicit BlockingScope(bool leavable = false);
    ~BlockingScope();
    BlockingScope(const BlockingScope&) = delete;

   private:
    Executor* executor_;
    const bool leavable_;
  };

  // While one lives on a worker, another thread may give up what that worker is at: it counts as
  // blocked until the scope ends, and may be left behind.
  class GiveUpScope {
   public:
    GiveUpScope();
    ~GiveUpScope();
    GiveUpScope(const GiveUpScope&) = delete;
    // From any thread, while the scope lives; who calls it sees to that, and that it is one at a
    // time.
    void GiveUp();

   private:
    Executor* executor_;  // null: not on a worker
    WorkerState* worker_;
    bool given_up_ = false;
  };

  // Waits until no task runs that may be left behind, or, after `patience`, until only such ones
  // are left; false in that case.
  bool WaitForAllButLeavable(std::chrono::milliseconds patience);
  bool HasLeavable() const { return leavable_.load(std::memory_order_relaxed) != 0; }

  // While one lives on a worker, that worker is about to finish its task: the first task scheduled
  // here waits for it rather than wake another thread.
  class FinishingScope {
   public:
    FinishingScope();
    ~FinishingScope();
    FinishingScope(const FinishingScope&) = delete;

   private:
    bool outer_;
  };

 private:
  struct Forking;
  void StartAgain() WEFT_THREAD_ATTRIBUTE(no_thread_safety_analysis);  // in a forked process
  void Work() WEFT_EXCLUDES(mutex_);
  void StartWorkerIfNeeded() WEFT_REQUIRES(mutex_);
  void Block(WorkerState& worker, bool leavable) WEFT_EXCLUDES(mutex_);
  void Unblock(WorkerState& worker, bool leavable) WEFT_EXCLUDES(mutex_);

  const int limit_;
  std::atomic<int64_t> unfinished_ = 0;
  std::atomic<int64_t> leavable_ = 0;  // of those that run
  mutable Mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_ WEFT_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ WEFT_GUARDED_BY(mutex_);
  int idle_ WEFT_GUARDED_BY(mutex_) = 0;     // threads that wait for a task
  int working_ WEFT_GUARDED_BY(mutex_) = 0;  // threads that run one and are not blocked
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
};

}  // namespace weft::client
