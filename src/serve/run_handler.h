// Threads and time around the scheduler: tasks come in, batches run, whoever does not run is told.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "serve/scheduler.h"

namespace weft::serve {

// Nanoseconds of a steady clock.
Time Now();

// What the run handler does with tasks; implemented by whoever knows what is in them.
class TaskRunner {
 public:
  virtual ~TaskRunner() = default;
  virtual void Run(const Scheduler::Batch& batch) = 0;
  // Turned away, expired or withdrawn: it did not run and will not.
  virtual void Refuse(Task& task, Error error) = 0;
};

// Whether runs hardly get on: on average of late, not one of them, which may have been behind
// several of the high class.
class Starvation {
 public:
  // `slowdown`: how much longer than at its best a run took. Whether they starve; begins anew then.
  bool Add(double slowdown);
  void Reset() { slowdown_ = 1; }

 private:
  double slowdown_ = 1;
};

// As many threads as slots; the high class has its own where slots are reserved for it. While
// requests are turned away, or one of the high class comes upon a queue, the others run on threads
// that stand behind for the system (nice): threads that receive, answer and turn away come first,
// and so do runs of the high class, which the system puts in the place of others that have begun.
// Where the cores are the server's own these threads take only what is left (SCHED_IDLE): a core
// that runs one of them counts as free when the system looks for a place for a thread that wakes.
// Beside other programs they would starve. A thread cannot come back from either, so there are two
// sets of them. Where runs hardly get on behind, the first set goes on for a while. A run that
// shares the cores with others has few threads, so that none of a loop's waits long for one that
// was put behind.
class RunHandler {
 public:
  RunHandler(SchedulerOptions options, TaskRunner& runner);
  ~RunHandler();  // takes no more, waits for what is there
  RunHandler(const RunHandler&) = delete;

  void Submit(TaskRef task) WEFT_EXCLUDES(mutex_);
  // Runs it, which is short, on the caller's thread, where there is a free slot and nothing else
  // waits, or where only what is longer stands before it: no queue and no other thread is between.
  // False: it is to be submitted.
  bool RunHere(const TaskRef& task) WEFT_EXCLUDES(mutex_);
  // Of requests that come together to one thread: between the two, RunHere keeps the caller's tasks
  // back, so that what others are to run is handed over before anything runs here. Behind that the
  // shortest go first, one by one; those that would wait longer than `most` for it are submitted.
  // ReleaseRuns: how many are left for RunNext.
  static void HoldRuns();
  static bool HoldsRuns();
  static size_t ReleaseRuns(Time most);
  static void RunNext();
  // The task does not run, if it did not begin: refused with CANCELLED.
  void Cancel(Task& task) WEFT_EXCLUDES(mutex_);
  // From now on tasks are refused with UNAVAILABLE; returns when nothing waits or runs, or at the
  // deadline, whether that is so.
  bool Drain(Time deadline) WEFT_EXCLUDES(mutex_);

  struct Load {
    size_t queued[kPriorities] = {};
    int running = 0, limit = 0;
  };
  Load load() const WEFT_EXCLUDES(mutex_);
  // Whether a core has nothing to run, as far as runs tell: a thread may look for work there
  // without sleeping.
  bool HasIdleCore() const { return under_way_.load(std::memory_order_relaxed) + 1 < cores_; }

  // Threads of one kind: how the system ranks and places them, and whether it is their turn.
  struct CrewFacts {
    std::string_view name;
    int threads = 0, waiting = 0;
    std::string rank, cores;
    bool turn = true;
  };
  std::vector<CrewFacts> Crews() const WEFT_EXCLUDES(mutex_);

 private:
  // Threads of one kind, and what wakes them.
  enum class Crew : uint8_t {
    kHigh,
    kHighToo,  // woken when all of those have something to do
    kOthers,
    kLeftover,
  };
  static constexpr int kCrews = 4;
  static bool IsHigh(Crew crew) { return crew == Crew::kHigh || crew == Crew::kHighToo; }
  void StartHigh(int count);
  bool IsPinned(Crew crew) const;  // each thread to a core
  void SetCrowded(Time now) WEFT_REQUIRES(mutex_);
  // `core`: where it begins its runs; -1: anywhere.
  void Work(Crew crew, int core) WEFT_EXCLUDES(mutex_);
  // Which of the two does the runs that are not of the high class.
  Crew CrewOfOthers(Time now) const WEFT_REQUIRES(mutex_);
  // While requests are turned away all that runs is in a slot.
  bool MayPass(Time now) const WEFT_REQUIRES(mutex_) { return now >= crowded_until_; }
  std::optional<Scheduler::Decision> NextFor(Crew crew, bool& ends) WEFT_EXCLUDES(mutex_);
  void JudgeLeftover(const Scheduler::Batch& batch) WEFT_EXCLUDES(mutex_);
  // Runs it, then says that it is done. Whether others wait.
  bool RunBatch(const Scheduler::Batch& batch) WEFT_EXCLUDES(mutex_);
  bool RunNow(const TaskRef& task) WEFT_EXCLUDES(mutex_);
  // A thread of each kind that has nothing to do, for what waits and may start.
  void WakeOne() WEFT_EXCLUDES(mutex_);

  TaskRunner& runner_;
  mutable Mutex mutex_;
  std::array<std::condition_variable, kCrews> wake_;
  std::condition_variable idle_;
  Scheduler scheduler_ WEFT_GUARDED_BY(mutex_);
  std::array<int, kCrews> waiting_ WEFT_GUARDED_BY(mutex_) = {};
  std::array<int, kCrews> threads_of_ = {};        // settled at the start
  std::atomic<int> under_way_ = 0;                 // runs
  Starvation starvation_ WEFT_GUARDED_BY(mutex_);  // of the leftover
  // Until then the leftover does the others; not before then, where it hardly got on.
  Time crowded_until_ WEFT_GUARDED_BY(mutex_) = 0, leftover_from_ WEFT_GUARDED_BY(mutex_) = 0;
  const int cores_;
  const bool own_cores_;                         // and runs are their work
  const bool runs_on_cores_;                     // or on devices, for which threads wait
  const SchedulerOptions::Placement placement_;  // free, where the cores are not its own
  const bool others_only_;  // threads that are not the high class's do not run it
  bool draining_ WEFT_GUARDED_BY(mutex_) = false, stopping_ WEFT_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace weft::serve
