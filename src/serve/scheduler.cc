#include "serve/scheduler.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace weft::serve {
namespace {

constexpr std::string_view kPriorityNames[kPriorities] = {"high", "normal", "low"};
constexpr int kMostSkipped = 64;   // tasks of a lane that do not fit into a batch
constexpr double kBearable = 2.5;  // a run's slowdown up to which more of them at once are fine
// The same on a device: it may do them one after the other, then more at once are for nothing.
constexpr double kBearableOnDevice = 1.5;
constexpr double kSmoothing = 1.0 / 16;  // of slowdowns and of the limit
// Runs that one thread does sooner than this do not gain by more: waking one takes up to 50 us.
constexpr Time kWorthThreads = 200 * kMicrosecond;
// Of what is left until a deadline, that may be waited: an answer that is computed at the last
// moment comes too late, and a longer queue does not get more done.
constexpr double kPartToWait = 0.5;
// A request without a deadline is ordered as if it had to begin within so many times its run: each
// waits in proportion to what it takes, and what is long is passed for so long only.
constexpr Time kWaitOfRun = 10;
// Runs that are left before a deadline of what is joined.
constexpr Time kRunsBeforeDeadline = 3;
// What takes so much less than each of the runs under way does not wait for them.
constexpr Time kMuchShorter = 4;

}  // namespace

std::string_view NameOf(Priority priority) {
  return kPriorityNames[static_cast<int>(priority)];
}

std::optional<Priority> ParsePriority(std::string_view text) {
  for (int i = 0; i < kPriorities; ++i) {
    if (text == kPriorityNames[i]) return static_cast<Priority>(i);
  }
  return std::nullopt;
}

std::optional<SchedulerOptions::Placement> ParsePlacement(std::string_view text) {
  constexpr std::string_view kNames[] = {"free", "pinned", "behind"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (text == kNames[i]) return static_cast<SchedulerOptions::Placement>(i);
  }
  return std::nullopt;
}

Scheduler::Scheduler(SchedulerOptions options) : options_(options), limit_(options.slots) {
  CHECK(options_.slots > options_.reserved && options_.reserved >= 0);
}

Time Scheduler::EstimatedWait(Priority priority, Time now) const {
  Time work = 0;
  for (int c = 0; c <= static_cast<int>(priority); ++c)
    work += queued_cost_[static_cast<size_t>(c)];
  bool free = MayStart(priority);
  if (free && work == 0) return 0;
  for (const auto& [id, run] : running_) work += std::max<Time>(run.expected_end - now, 0);
  int slots = priority == Priority::kHigh ? limit() : limit() - options_.reserved;
  return work / std::max(slots, 1);
}

void Scheduler::Insert(TaskRef task) {
  Lane& lane = *task->lane;
  if (lane.id_ == 0) lane.id_ = next_lane_++;
  size_t c = static_cast<size_t>(task->priority);
  active_.emplace(lane.id_, &lane);
  lane.arrivals_.emplace(task->arrival, task->sequence_);
  lane.rows_ += task->rows;
  if (lane.rows_ >= lane.largest()) lane.full_since_ = std::min(lane.full_since_, task->arrival);
  queued_cost_[c] += task->cost_;
  ++queued_by_[c], ++queued_;
  if (task->deadline != kNever) deadlines_.emplace(task->deadline, task->sequence_);
  waiting_.emplace(task->sequence_, task.get());
  lane.queues_[c].insert(std::move(task));
}

TaskRef Scheduler::Remove(Lane& lane, Priority priority,
                          std::set<TaskRef, Lane::Earlier>::iterator at) {
  size_t c = static_cast<size_t>(priority);
  TaskRef task = *at;
  lane.queues_[c].erase(at);
  lane.arrivals_.erase({task->arrival, task->sequence_});
  lane.rows_ -= task->rows;
  if (lane.rows_ < lane.largest()) lane.full_since_ = kNever;
  queued_cost_[c] -= task->cost_;
  --queued_by_[c], --queued_;
  if (task->deadline != kNever) deadlines_.erase({task->deadline, task->sequence_});
  waiting_.erase(task->sequence_);
  if (lane.Empty()) active_.erase(lane.id_);
  return task;
}

// The one that would come last among those of lower classes; null: there is none.
TaskRef Scheduler::TakeLastOfLower(Priority than) {
  for (int c = kPriorities - 1; c > static_cast<int>(than); --c) {
    Lane* worst = nullptr;
    std::pair<Time, uint64_t> last;
    for (const auto& [id, lane] : active_) {
      const auto& queue = lane->queues_[static_cast<size_t>(c)];
      if (queue.empty()) continue;
      const Task& task = **queue.rbegin();
      std::pair<Time, uint64_t> key(task.order_, task.sequence_);
      if (worst == nullptr || key > last) worst = lane, last = key;
    }
    if (worst == nullptr) continue;
    return Remove(*worst, static_cast<Priority>(c),
                  std::prev(worst->queues_[static_cast<size_t>(c)].end()));
  }
  return nullptr;
}

Scheduler::Admission Scheduler::Admit(TaskRef task, Time now) {
  if (task->deadline <= now) return {Verdict::kExpired, 0, nullptr};
  task->cost_ = task->lane->CostOfRows(task->rows);
  task->sequence_ = next_sequence_++;
  Time patience = task->cost_ > 0 ? std::min(kWaitOfRun * task->cost_, options_.max_queue_delay)
                                  : options_.max_queue_delay;
  bool pressing = task->deadline < task->arrival + options_.max_queue_delay;
  task->order_ = pressing ? task->deadline : task->arrival + patience;
  Time wait = EstimatedWait(task->priority, now);
  Time bound = task->lane->CostBound(task->lane->BucketFor(task->rows));
  Time limit = options_.max_queue_delay;
  if (task->deadline != kNever) {
    limit = static_cast<Time>(kPartToWait * static_cast<double>(task->deadline - now - bound));
  }
  // With nothing before it, it is tried: the estimate may be wrong.
  if (wait > 0 && wait > limit) return {Verdict::kTooLate, wait, nullptr};
  Admission admission;
  if (queued_ >= options_.max_queue) {
    admission.displaced = TakeLastOfLower(task->priority);
    if (admission.displaced == nullptr) return {Verdict::kQueueFull, wait, nullptr};
    admission.retry_after = wait;
  }
  Insert(std::move(task));
  return admission;
}

bool Scheduler::MayStart(Priority priority) const {
  const int high = running_by_[static_cast<size_t>(Priority::kHigh)];
  if (priority == Priority::kHigh) {
    return options_.high_slots > 0 ? high < options_.high_slots : running() < options_.slots;
  }
  if (running() >= limit()) return false;
  // On a device nothing is put behind a run of the high class, nor before one that waits.
  const int taken = static_cast<int>(running_.size() + queued(Priority::kHigh));
  if (options_.lanes > 0 && taken >= options_.lanes) return false;
  int others = running() - high;
  return others < limit() - options_.reserved;
}

bool Scheduler::MayTake(Takes takes, Time now) const {
  bool high = queued(Priority::kHigh) > 0 && MayStart(Priority::kHigh);
  bool others = queued_ > queued(Priority::kHigh) && MayStart(Priority::kNormal) &&
                !std::ranges::all_of(
                    active_, [&](const auto& entry) { return IsJoined(*entry.second, now); });
  return takes == Takes::kHigh ? high : takes == Takes::kOthers ? others : high || others;
}

int Scheduler::EffectiveClass(const Task& task, Time now) const {
  Time levels = options_.ageing > 0 ? (now - task.arrival) / options_.ageing : 0;
  return static_cast<int>(std::max<Time>(static_cast<Time>(task.priority) - levels, 0));
}

TaskRef Scheduler::Withdraw(Task& task) {
  if (!waiting_.contains(task.sequence_)) return nullptr;
  auto& queue = task.lane->queues_[static_cast<size_t>(task.priority)];
  auto at = queue.find(TaskRef(TaskRef(), &task));  // owns nothing: only to be compared
  CHECK(at != queue.end());
  return Remove(*task.lane, task.priority, at);
}

// A batch that is little more than a smaller bucket may be done sooner as that one; the rest waits.
void Scheduler::ShrinkToPay(Batch& batch) {
  const Lane& lane = *batch.lane;
  if (batch.bucket == 0 || batch.rows == lane.buckets_[batch.bucket]) return;
  Time cost = lane.Cost(batch.bucket), smaller = lane.Cost(batch.bucket - 1);
  if (cost == 0 || smaller == 0) return;
  int64_t limit = lane.buckets_[batch.bucket - 1], rows = 0;
  size_t kept = 0;
  while (kept < batch.tasks.size() && rows + batch.tasks[kept]->rows <= limit) {
    rows += batch.tasks[kept++]->rows;
  }
  double as_is = static_cast<double>(batch.rows) / static_cast<double>(cost);
  double less = static_cast<double>(rows) / static_cast<double>(smaller);
  if (kept == 0 || less <= as_is) return;
  for (size_t i = kept; i < batch.tasks.size(); ++i) Insert(std::move(batch.tasks[i]));
  batch.tasks.resize(kept);
  batch.rows = rows;
  batch.bucket = lane.BucketFor(rows);
  batch.priority = Priority::kLow;
  for (const TaskRef& task : batch.tasks) batch.priority = std::min(batch.priority, task->priority);
}

Scheduler::Batch Scheduler::Build(Lane& lane, Priority first, Time now, int classes_from) {
  Batch batch;
  batch.lane = &lane;
  batch.priority = first;
  batch.started = now;
  batch.id = next_batch_++;
  batch.ripe = std::min(lane.arrivals_.begin()->first + lane.max_delay_, lane.full_since_);
  auto add = [&](Priority priority, std::set<TaskRef, Lane::Earlier>::iterator at) {
    batch.rows += (*at)->rows;
    batch.priority = std::min(batch.priority, priority);
    batch.tasks.push_back(Remove(lane, priority, at));
  };
  add(first, lane.queues_[static_cast<size_t>(first)].begin());
  int skipped = 0;
  for (int c = classes_from; !lane.alone_ && c < kPriorities && skipped < kMostSkipped; ++c) {
    auto& queue = lane.queues_[static_cast<size_t>(c)];
    for (auto at = queue.begin(); at != queue.end() && skipped < kMostSkipped;) {
      auto here = at++;
      if (batch.rows + (*here)->rows <= lane.largest()) {
        add(static_cast<Priority>(c), here);
      } else {
        ++skipped;
      }
    }
  }
  batch.bucket = lane.BucketFor(batch.rows);
  ShrinkToPay(batch);
  return batch;
}

// Beside others each run has its part of the cores: the threads of a loop wait for each other, and
// on busy cores they wait long. The high class has half of them in any case.
int Scheduler::ThreadsFor(const Batch& batch) const {
  Time best = batch.lane->Best(batch.bucket);
  if (options_.lanes > 0) return 1;  // of the host, which waits
  if (batch.slotless || (best != 0 && best < kWorthThreads)) return 1;
  if (!batch.lane->GainsByThreads(batch.bucket)) return 1;
  size_t others = static_cast<size_t>(running()) + queued_;
  int share = options_.cores / static_cast<int>(std::min<size_t>(others + 1, 1024));
  if (batch.priority == Priority::kHigh) share = std::max(share, (options_.cores + 1) / 2);
  return std::max(share, 1);
}

void Scheduler::Begin(Batch& batch) {
  batch.expected = batch.started + batch.lane->Cost(batch.bucket);
  batch.threads = ThreadsFor(batch);
  running_.emplace(batch.id,
                   Running{batch.priority, batch.expected, batch.expected - batch.started});
  ++batch.lane->running_;
  if (batch.slotless) {
    ++slotless_;
  } else {
    ++running_by_[static_cast<size_t>(batch.priority)];
  }
}

bool Scheduler::MayPass(const Task& task) const {
  const Lane& lane = *task.lane;
  if (slotless_ >= AtOnce() || !HasFreeLane() || !lane.Empty()) return false;
  // The next ones are joined, but for what is run sooner than it waits for that.
  const bool brief = task.cost_ > 0 && task.cost_ <= kHandOver;
  if (!lane.alone_ && lane.running_ > (brief ? 1 : 0)) return false;
  for (int c = 0; c < static_cast<int>(task.priority); ++c) {
    if (queued_by_[static_cast<size_t>(c)] > 0) return false;
  }
  return true;
}

std::optional<Scheduler::Batch> Scheduler::StartAtOnce(const TaskRef& task, Time now, bool pass) {
  Lane& lane = *task->lane;
  bool waits = !lane.alone_ && lane.max_delay_ > 0 && task->rows < lane.largest();
  if (waits || task->deadline <= now) return {};
  task->cost_ = lane.Cost(lane.BucketFor(task->rows));
  const bool free = queued_ == 0 && MayStart(task->priority);
  if (!free && !(pass && MayPass(*task))) return {};
  Batch batch{.lane = &lane, .tasks = {task}, .bucket = lane.BucketFor(task->rows)};
  batch.rows = task->rows;
  batch.priority = task->priority;
  batch.started = batch.ripe = now;
  batch.slotless = !free;
  batch.id = next_batch_++;
  Begin(batch);
  return batch;
}

bool Scheduler::IsRipe(const Lane& lane, Time now) const {
  return lane.rows_ >= lane.largest() || lane.arrivals_.begin()->first + lane.max_delay_ <= now;
}

// Whether what waits had better be joined to what comes until a run ends. Where most cores run
// something, more runs of few rows would take the cores from those that receive, and all would
// wait; joined to others a row takes little of one.
bool Scheduler::IsJoined(const Lane& lane, Time now) const {
  if (options_.lanes > 0 || lane.alone_ || lane.rows_ >= lane.largest()) return false;
  if (running() < JoinsFrom() || !lane.GainsByJoining()) return false;
  return now < JoinedUntil(lane);
}

// As long as one of its runs takes, and no request until it would be late.
Time Scheduler::JoinedUntil(const Lane& lane) {
  const Time cost = lane.Cost(lane.buckets_.size() - 1);
  Time until = lane.arrivals_.begin()->first + cost;
  for (const auto& queue : lane.queues_) {
    if (queue.empty() || (*queue.begin())->deadline == kNever) continue;
    until = std::min(until, (*queue.begin())->deadline - kRunsBeforeDeadline * cost);
  }
  return until;
}

// The shortest of what may begin beside the slots, as a lane and a class of it.
std::pair<Lane*, Priority> Scheduler::ToPassRuns(Time now) const {
  std::pair<Lane*, Priority> found(nullptr, Priority::kLow);
  if (slotless_ >= std::max(AtOnce() / 2, 1) || !HasFreeLane() || running_.empty()) return found;
  Time least = kNever;
  for (const auto& [id, run] : running_) least = std::min(least, run.cost);
  for (const auto& [id, lane] : active_) {
    Time cost = lane->Cost(lane->BucketFor(std::min(lane->rows_, lane->largest())));
    if (cost == 0 || cost > least / kMuchShorter || !IsRipe(*lane, now)) continue;
    size_t c = 1;  // the high class has its own
    while (c < kPriorities && lane->queues_[c].empty()) ++c;
    if (c == kPriorities) continue;
    least = cost * kMuchShorter;
    found = {lane, static_cast<Priority>(c)};
  }
  return found;
}

Scheduler::Decision Scheduler::Next(Time now, Takes takes, bool pass) {
  Decision decision;
  const int first = takes == Takes::kOthers ? 1 : 0, end = takes == Takes::kHigh ? 1 : kPriorities;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    decision.expired.push_back(Withdraw(*waiting_.at(deadlines_.begin()->second)));
  }
  Lane* best = nullptr;
  Priority best_class = Priority::kLow;
  Candidate best_key;
  for (const auto& [id, lane] : active_) {
    if (!IsRipe(*lane, now)) {
      decision.wake = std::min(decision.wake, lane->arrivals_.begin()->first + lane->max_delay_);
      continue;
    }
    for (int c = first; c < end; ++c) {
      const auto& queue = lane->queues_[static_cast<size_t>(c)];
      Priority priority = static_cast<Priority>(c);
      if (queue.empty() || !MayStart(priority)) continue;
      if (priority != Priority::kHigh && IsJoined(*lane, now)) {
        decision.wake = std::min(decision.wake, JoinedUntil(*lane));
        continue;
      }
      const Task& task = **queue.begin();
      const int effective = EffectiveClass(task, now);
      // One that rose is there by its age.
      Candidate key({effective, effective < c ? task.arrival : task.order_}, task.sequence_);
      if (best != nullptr && key > best_key) continue;
      best = lane, best_class = priority, best_key = key;
    }
  }
  const bool slotless = best == nullptr && pass;
  if (slotless) std::tie(best, best_class) = ToPassRuns(now);
  if (best != nullptr) {
    Batch batch = Build(*best, best_class, now, slotless ? 1 : first);
    batch.slotless = slotless;
    Begin(batch);
    decision.batch = std::move(batch);
  }
  if (!deadlines_.empty()) decision.wake = std::min(decision.wake, deadlines_.begin()->first);
  return decision;
}

// Down while runs are slowed down more than is bearable, up again by a slot at a time. Each counts
// by its time: a run of some microseconds easily takes several times that. Only what is in use says
// something about the limit.
void Scheduler::Adapt(Time took, Time best) {
  if (options_.least_slots <= 0 || best == 0) return;
  took_ += (static_cast<double>(took) - took_) * kSmoothing;
  best_ += (static_cast<double>(best) - best_) * kSmoothing;
  if (running() * 2 < limit()) return;
  const double bearable = options_.lanes > 0 ? kBearableOnDevice : kBearable;
  double gradient = std::clamp(bearable * best_ / took_, 0.5, 1.0);
  limit_ += (limit_ * gradient + 1 - limit_) * kSmoothing;
  limit_ = std::clamp<double>(limit_, std::max(options_.least_slots, options_.reserved + 1),
                              options_.slots);
}

void Scheduler::Done(const Batch& batch, Time now) {
  Time took = now - batch.started;
  batch.lane->Learn(batch.bucket, took, running_.size() == 1, batch.threads);
  if (batch.threads == 1) Adapt(std::max<Time>(took, 1), batch.lane->Best(batch.bucket));
  running_.erase(batch.id);
  --batch.lane->running_;
  if (batch.slotless) {
    --slotless_;
  } else {
    --running_by_[static_cast<size_t>(batch.priority)];
  }
}

}  // namespace weft::serve
