// Who runs next, with whom in one batch, who is turned away: policy alone, without threads and
// without a clock. Times are nanoseconds of whatever clock the caller has.
//
// Requests have a class (priority). Inside a class the earliest deadline goes first; who has none
// gets one by how long it takes, so that what is short does not wait for what is long. One that
// waited longer than `ageing` is ordered as one class higher, and so on. `reserved` slots are for
// the high class alone. Of all slots as many are used as runs bear: where they take much longer
// than at their best, the limit comes down, and up again when they do not. A batch takes its best
// request, and others of the same lane as far as they fit. Runs share the cores: one that is alone
// has all of them, beside others it has its part.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::serve {

using Time = int64_t;
inline constexpr Time kNever = std::numeric_limits<Time>::max();
inline constexpr Time kMicrosecond = 1000, kMillisecond = 1000 * kMicrosecond,
                      kSecond = 1000 * kMillisecond;

enum class Priority : uint8_t { kHigh, kNormal, kLow };
inline constexpr int kPriorities = 3;
// To hand a run to another thread and to wake that takes up to so long.
inline constexpr Time kHandOver = 50 * kMicrosecond;
std::string_view NameOf(Priority priority);  // "high"
std::optional<Priority> ParsePriority(std::string_view text);

// Whether the thread that brings a request may run it.
enum class ThreadUse : uint8_t {
  kFree,    // what is short
  kWanted,  // others came with it, or no other thread is left to receive: what is sooner run than
            // handed to another
};

class Lane;

struct Task {
  virtual ~Task() = default;
  Lane* lane = nullptr;
  int64_t rows = 1;
  Priority priority = Priority::kNormal;
  Time arrival = 0;
  Time deadline = kNever;

 private:
  friend class Scheduler;
  friend class Lane;
  Time order_ = 0;  // its deadline, or one that it gets for the order
  Time cost_ = 0;   // estimated when it came
  uint64_t sequence_ = 0;
};
using TaskRef = std::shared_ptr<Task>;

// Requests that may share a run. Outlives its tasks.
class Lane {
 public:
  // `buckets`: rows that a run can have, ascending. `alone`: a run takes one request. `max_delay`:
  // how long a request may wait for others while there is a free slot.
  Lane(std::vector<int64_t> buckets, bool alone = false, Time max_delay = 0);
  const std::vector<int64_t>& buckets() const { return buckets_; }
  int64_t largest() const { return buckets_.back(); }
  size_t BucketFor(int64_t rows) const;  // the smallest that holds them
  // How long a run of the bucket takes, as far as known; 0: not.
  Time Cost(size_t bucket) const { return costs_[bucket].load(std::memory_order_relaxed); }
  // The same for all but a few runs: a request that begins later than this before its deadline is
  // likely to be late.
  Time CostBound(size_t bucket) const { return Cost(bucket) + 4 * deviations_[bucket]; }
  // One at a time. `alone`: nothing ran beside it. `threads`: as many it had.
  void Learn(size_t bucket, Time took, bool alone = true, int threads = 1);
  // The least of a run with one thread, as far as known; 0: not.
  Time Best(size_t bucket) const { return best_[bucket]; }
  // Whether several threads do it sooner by enough to be worth their cores, as far as known.
  bool GainsByThreads(size_t bucket) const;
  // How much longer than at its best a run of the bucket with one thread took.
  double Slowdown(size_t bucket, Time took) const;

 private:
  friend class Scheduler;
  struct Earlier {
    bool operator()(const TaskRef& a, const TaskRef& b) const {
      return std::pair(a->order_, a->sequence_) < std::pair(b->order_, b->sequence_);
    }
  };
  Time CostOfRows(int64_t rows) const;
  // Whether twice the rows that wait would take much less than twice as long, as far as known.
  bool GainsByJoining() const;
  bool Empty() const { return arrivals_.empty(); }

  const std::vector<int64_t> buckets_;
  const bool alone_;
  const Time max_delay_;
  std::vector<std::atomic<Time>> costs_;  // read by anybody
  std::vector<Time> deviations_;
  std::vector<Time> best_;         // the least with one thread; of late, where it ran alone
  std::vector<Time> best_spread_;  // with several; lower by and by, so that it is tried again
  uint64_t id_ = 0;                // given when it first gets a task
  int64_t rows_ = 0;
  Time full_since_ = kNever;  // its rows are a whole run's
  int running_ = 0;
  std::array<std::set<TaskRef, Earlier>, kPriorities> queues_;
  std::set<std::pair<Time, uint64_t>> arrivals_;
};

struct SchedulerOptions {
  int slots = 1;
  int reserved = 0;                // of the slots, for the high class
  size_t max_queue = 1000;         // requests that wait
  Time max_queue_delay = kSecond;  // of requests without a deadline
  Time ageing = 100 * kMillisecond;
  int cores = 1;  // that runs share
  // Queues of devices that do the runs, where the host's cores only wait for them; 0: the cores do.
  int lanes = 0;
  bool own_cores = false;  // no other program uses them
  // There, runs that are not of the high class: on any core, but for threads that stand behind,
  // which have one each; each thread on one of its own; that too, and behind all others, not only
  // while requests are turned away.
  enum class Placement : uint8_t { kFree, kPinned, kBehind };
  Placement placement = Placement::kFree;
  // Runs of the high class at once, whatever else runs: for threads that the system puts before the
  // others. 0: they take slots as the others do.
  int high_slots = 0;
  // Fewer slots are used while runs take much longer than at their best, down to this many; 0: all
  // are, always.
  int least_slots = 0;
};

std::optional<SchedulerOptions::Placement> ParsePlacement(std::string_view text);  // "pinned"

// Not thread-safe.
class Scheduler {
 public:
  explicit Scheduler(SchedulerOptions options);

  enum class Verdict : uint8_t { kAdmitted, kQueueFull, kTooLate, kExpired };
  struct Admission {
    Verdict verdict = Verdict::kAdmitted;
    Time retry_after = 0;  // when it was turned away
    TaskRef displaced;     // one of a lower class, turned away in its place
  };
  Admission Admit(TaskRef task, Time now);

  struct Batch {
    Lane* lane = nullptr;
    std::vector<TaskRef> tasks;
    size_t bucket = 0;  // of the lane
    int64_t rows = 0;
    Priority priority = Priority::kLow;  // the highest of its members
    Time started = 0, expected = 0;
    Time ripe = 0;  // from when on it waited for a slot, no longer for others
    int threads = 1;
    bool slotless = false;  // beside the slots
    uint64_t id = 0;
  };
  struct Decision {
    std::optional<Batch> batch;
    std::vector<TaskRef> expired;  // while they waited
    Time wake = kNever;            // nothing changes before, unless a task comes or a batch ends
  };
  // A run for this task, which is short, at once, where none waits and there is a free slot: it
  // never gets into a queue. With `pass` it goes by requests of other lanes, and needs no slot, so
  // that it does not wait for what is long: as many as cores may, one of a lane whose requests
  // could be joined instead, none past a higher class. None: it is to be admitted as any other.
  std::optional<Batch> StartAtOnce(const TaskRef& task, Time now, bool pass = false);
  // Requests that the asker takes: all, only the high class, or all but that.
  enum class Takes : uint8_t { kAll, kHigh, kOthers };
  // With `pass` a thread of the high class that has nothing else takes what is much shorter than
  // all that runs, beside the slots.
  Decision Next(Time now, Takes takes = Takes::kAll, bool pass = false);
  // Whether there may be something to take: requests wait, a slot is free for them, and they do not
  // wait to be joined.
  bool MayTake(Takes takes, Time now) const;
  // Whether Next would find something by `pass`.
  bool MayPassRuns(Time now) const { return ToPassRuns(now).first != nullptr; }
  // The task, which does not run then; null: it waits no longer.
  TaskRef Withdraw(Task& task);
  // `now`: when the run ended; the lane learns how long it took.
  void Done(const Batch& batch, Time now);

  size_t queued() const { return queued_; }
  size_t queued(Priority priority) const { return queued_by_[static_cast<size_t>(priority)]; }
  // Slots in use.
  int running() const { return static_cast<int>(running_.size()) - slotless_; }
  // Runs under way from which on rows that are cheaper together wait for one to end.
  int JoinsFrom() const { return std::max(options_.cores * kBusyOfEight / 8, 2); }
  // Slots that are used at most, as adapted.
  int limit() const { return static_cast<int>(limit_); }
  bool Idle() const { return queued_ == 0 && running_.empty(); }
  // How long one of the class that comes now would wait.
  Time EstimatedWait(Priority priority, Time now) const;

 private:
  // Of eight cores, those that run something when rows begin to wait to be joined.
  static constexpr int kBusyOfEight = 5;
  struct Running {
    Priority priority;
    Time expected_end, cost;
  };
  using Candidate = std::pair<std::pair<int, Time>, uint64_t>;  // class with age, order, sequence
  bool MayStart(Priority priority) const;
  bool MayPass(const Task& task) const;
  bool IsRipe(const Lane& lane, Time now) const;
  bool IsJoined(const Lane& lane, Time now) const;
  static Time JoinedUntil(const Lane& lane);
  std::pair<Lane*, Priority> ToPassRuns(Time now) const;
  int EffectiveClass(const Task& task, Time now) const;
  void Insert(TaskRef task);
  TaskRef Remove(Lane& lane, Priority priority, std::set<TaskRef, Lane::Earlier>::iterator at);
  TaskRef TakeLastOfLower(Priority than);
  Batch Build(Lane& lane, Priority first, Time now, int classes_from);
  void ShrinkToPay(Batch& batch);
  int ThreadsFor(const Batch& batch) const;
  // What goes by others must not stand behind one of them on a device.
  bool HasFreeLane() const {
    return options_.lanes == 0 || static_cast<int>(running_.size()) < options_.lanes;
  }
  int AtOnce() const { return options_.lanes > 0 ? options_.lanes : options_.cores; }
  void Begin(Batch& batch);
  void Adapt(Time took, Time best);

  const SchedulerOptions options_;
  std::map<uint64_t, Lane*> active_;               // lanes with tasks, by their number
  std::set<std::pair<Time, uint64_t>> deadlines_;  // of waiting tasks that have one
  std::map<uint64_t, Task*> waiting_;              // by sequence
  std::map<uint64_t, Running> running_;
  std::array<Time, kPriorities> queued_cost_{};
  std::array<size_t, kPriorities> queued_by_{};
  std::array<int, kPriorities> running_by_{};
  size_t queued_ = 0;
  int slotless_ = 0;  // of the runs
  double limit_ = 1;
  double took_ = 0, best_ = 0;  // runs of late, and what they take at their best
  uint64_t next_lane_ = 1, next_sequence_ = 1, next_batch_ = 1;
};

}  // namespace weft::serve
