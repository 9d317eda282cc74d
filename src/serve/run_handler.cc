#include "serve/run_handler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/thread_limit.h"
#include "base/trace.h"
#include "serve/thread_class.h"

namespace weft::serve {
namespace {

std::chrono::steady_clock::time_point ToClock(Time time) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time));
}

// How long after a request was turned away the server counts as crowded.
constexpr Time kCrowded = kSecond;
// Runs on leftover cores that take so much longer than at their best: somebody else has the cores.
constexpr double kStarved = 8, kStarvedSmoothing = 1.0 / 16;
constexpr Time kStarvedPause = 10 * kSecond;

// Tasks that this thread may run, until all that came with them was looked at.
struct HeldRuns {
  struct Run {
    std::pair<Time, size_t> order;  // what it costs, when it came
    RunHandler* handler;
    TaskRef task;
  };
  bool on = false;
  std::vector<Run> runs;
};
thread_local HeldRuns held_runs;

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

bool Starvation::Add(double slowdown) {
  slowdown_ += (slowdown - slowdown_) * kStarvedSmoothing;
  if (slowdown_ < kStarved) return false;
  slowdown_ = 1;
  return true;
}

RunHandler::RunHandler(SchedulerOptions options, TaskRunner& runner)
    : runner_(runner),
      scheduler_(options),
      cores_(options.cores),
      own_cores_(options.own_cores && options.lanes == 0),
      runs_on_cores_(options.lanes == 0),
      placement_(own_cores_ ? options.placement : SchedulerOptions::Placement::kFree),
      others_only_(options.reserved > 0 && options.high_slots > 0) {
  auto start = [&](int count, std::string_view name, Crew crew) {
    threads_of_[static_cast<size_t>(crew)] = count;
    for (int i = 0; i < count; ++i) {
      const int core = IsPinned(crew) ? i % cores_ : -1;
      threads_.emplace_back([this, label = StrCat(name, i), crew, core] {
        trace::NameThread(label);
        Work(crew, core);
      });
    }
  };
  {
    MutexLock lock(mutex_);  // no thread asks how many there are before all have been counted
    const int others = options.slots - options.reserved;
    if (options.reserved > 0) StartHigh(std::max(options.reserved, options.high_slots));
    start(others, "serve ", Crew::kOthers);
    if (others_only_ && runs_on_cores_) start(others, "serve leftover ", Crew::kLeftover);
    if (runs_on_cores_) {
      VLOG("serve", 1) << "rows that are cheaper together wait for a run to end where "
                       << scheduler_.JoinsFrom() << " are under way";
    }
  }
  for (const CrewFacts& crew : Crews()) {
    VLOG("serve", 1) << crew.threads << " threads for runs, " << crew.name << ": " << crew.rank
                     << ", " << crew.cores;
  }
}

// Those that stand behind are many on busy cores, where the system would move them to and fro.
bool RunHandler::IsPinned(Crew crew) const {
  return placement_ != SchedulerOptions::Placement::kFree ||
         (own_cores_ && crew == Crew::kLeftover);
}

// One for each core, where the cores are the server's own: first those that receivers leave.
void RunHandler::StartHigh(int count) {
  const int kept = own_cores_ ? CoresForReceivers(cores_) : 0;
  for (int i = 0; i < count; ++i) {
    const int core = kept > 0 ? (kept + i) % cores_ : -1;
    const Crew crew = kept > 0 && i >= cores_ - kept ? Crew::kHighToo : Crew::kHigh;
    ++threads_of_[static_cast<size_t>(crew)];
    threads_.emplace_back([this, i, crew, core] {
      trace::NameThread(StrCat("serve high ", i));
      Work(crew, core);
    });
  }
}

RunHandler::~RunHandler() {
  Drain(0);
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  for (std::condition_variable& wake : wake_) wake.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RunHandler::Submit(TaskRef task) {
  Scheduler::Admission admission;
  bool draining = false;
  TaskRef kept = task;
  {
    MutexLock lock(mutex_);
    draining = draining_;
    Time now = Now();
    bool crowded = kept->priority == Priority::kHigh &&
                   scheduler_.queued() > scheduler_.queued(Priority::kHigh);
    if (!draining) admission = scheduler_.Admit(std::move(task), now);
    crowded = crowded || admission.verdict != Scheduler::Verdict::kAdmitted ||
              admission.displaced != nullptr;
    if (crowded) SetCrowded(now);
  }
  if (own_cores_ && admission.verdict != Scheduler::Verdict::kAdmitted)
    KeepToReceiverCores(cores_, Now() + kCrowded);
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

void RunHandler::SetCrowded(Time now) {
  if (now >= crowded_until_) {
    starvation_.Reset();
    VLOG("serve", 1) << "crowded: runs that are not of the high class stand behind";
  }
  crowded_until_ = now + kCrowded;
}

bool RunHandler::RunHere(const TaskRef& task) {
  if (!held_runs.on) return RunNow(task);
  const Lane& lane = *task->lane;
  const Time cost = lane.Cost(lane.BucketFor(task->rows));
  held_runs.runs.push_back({{cost, held_runs.runs.size()}, this, task});
  return true;
}

void RunHandler::HoldRuns() {
  held_runs.on = true;
}

bool RunHandler::HoldsRuns() {
  return held_runs.on;
}

size_t RunHandler::ReleaseRuns(Time most) {
  held_runs.on = false;
  std::vector<HeldRuns::Run>& runs = held_runs.runs;
  std::ranges::sort(runs, {}, &HeldRuns::Run::order);
  Time wait = 0;
  auto late = std::ranges::find_if(runs, [&](const HeldRuns::Run& run) {
    return std::exchange(wait, wait + run.order.first) > most;
  });
  for (auto run = late; run != runs.end(); ++run) run->handler->Submit(std::move(run->task));
  runs.erase(late, runs.end());
  std::ranges::reverse(runs);  // the next one is the last
  return runs.size();
}

void RunHandler::RunNext() {
  HeldRuns::Run run = std::move(held_runs.runs.back());
  held_runs.runs.pop_back();
  if (!run.handler->RunNow(run.task)) run.handler->Submit(std::move(run.task));
}

bool RunHandler::RunNow(const TaskRef& task) {
  std::optional<Scheduler::Batch> batch;
  {
    MutexLock lock(mutex_);
    Time now = Now();
    if (!draining_) batch = scheduler_.StartAtOnce(task, now, MayPass(now));
  }
  if (!batch) return false;
  if (RunBatch(*batch)) WakeOne();  // its slot is free for what came meanwhile
  return true;
}

RunHandler::Crew RunHandler::CrewOfOthers(Time now) const {
  const bool always = placement_ == SchedulerOptions::Placement::kBehind;
  const bool may = threads_of_[static_cast<size_t>(Crew::kLeftover)] > 0;
  const bool behind = may && (always || now < crowded_until_);
  return behind && now >= leftover_from_ ? Crew::kLeftover : Crew::kOthers;
}

void RunHandler::WakeOne() {
  bool high = false, other = false;
  size_t crew = 0, high_crew = static_cast<size_t>(Crew::kHigh);
  {
    MutexLock lock(mutex_);
    if (scheduler_.queued() == 0) return;
    Time now = Now();
    crew = static_cast<size_t>(CrewOfOthers(now));
    const bool free = scheduler_.MayTake(Scheduler::Takes::kOthers, now);
    if (waiting_[high_crew] == 0) high_crew = static_cast<size_t>(Crew::kHighToo);
    high = waiting_[high_crew] > 0 && (scheduler_.MayTake(Scheduler::Takes::kHigh, now) ||
                                       (!free && MayPass(now) && scheduler_.MayPassRuns(now)));
    other = waiting_[crew] > 0 &&
            (free || (!high && !others_only_ && scheduler_.MayTake(Scheduler::Takes::kHigh, now)));
  }
  if (high) wake_[high_crew].notify_one();
  if (other) wake_[crew].notify_one();
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
  if (runs_on_cores_) under_way_.fetch_add(1, std::memory_order_relaxed);
  {
    ThreadLimit limit(batch.threads);
    runner_.Run(batch);
  }
  if (runs_on_cores_) under_way_.fetch_sub(1, std::memory_order_relaxed);
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

// Its runs hardly get on: the others go on, for a while.
void RunHandler::JudgeLeftover(const Scheduler::Batch& batch) {
  Time now = Now();
  MutexLock lock(mutex_);
  const double slowdown = batch.lane->Slowdown(batch.bucket, now - batch.started);
  if (!starvation_.Add(slowdown)) return;
  leftover_from_ = now + kStarvedPause;
  VLOG("serve", 1) << "runs that stand behind take " << slowdown
                   << " times as long as at their best: the usual threads go on";
}

// What is next for a thread of the crew; nothing: it was waited, or it is to end.
std::optional<Scheduler::Decision> RunHandler::NextFor(Crew crew, bool& ends) {
  using Takes = Scheduler::Takes;
  const size_t index = static_cast<size_t>(crew);
  Takes takes = IsHigh(crew) ? Takes::kHigh : others_only_ ? Takes::kOthers : Takes::kAll;
  MutexLock lock(mutex_);
  Time now = Now(), until = kNever;
  Crew turn = IsHigh(crew) ? crew : CrewOfOthers(now);
  if (turn == crew) {
    bool pass = IsHigh(crew) && MayPass(now);
    Scheduler::Decision decision = scheduler_.Next(now, takes, pass);
    if (decision.batch || !decision.expired.empty()) return decision;
    until = decision.wake;
  } else if (scheduler_.queued() > 0) {
    wake_[static_cast<size_t>(turn)].notify_one();
  }
  ends = stopping_;
  if (ends) return std::nullopt;
  ++waiting_[index];
  if (until == kNever) {
    mutex_.Wait(wake_[index]);
  } else {
    mutex_.WaitUntil(wake_[index], ToClock(until));
  }
  --waiting_[index];
  return std::nullopt;
}

void RunHandler::Work(Crew crew, int core) {
  const Slices slices = SlicesFor(own_cores_);
  if (crew == Crew::kLeftover) StandBehind(own_cores_);
  UseSlices(IsHigh(crew) ? slices.high : slices.run);
  bool home = false;  // on its core
  for (bool ends = false; !ends;) {
    if (core >= 0 && !std::exchange(home, true)) UseCores(core, 1);
    std::optional<Scheduler::Decision> decision = NextFor(crew, ends);
    if (!decision) continue;
    // Loops of several threads are on all of them.
    const bool spreads = decision->batch && decision->batch->threads > 1;
    if (spreads && std::exchange(home, false)) UseCores(0, 0);
    WakeOne();  // another slot may be free for what is left
    for (const TaskRef& task : decision->expired) {
      runner_.Refuse(*task, TurnedAway(Scheduler::Verdict::kExpired, 0));
    }
    if (!decision->batch) continue;
    bool more = RunBatch(*decision->batch);
    if (crew == Crew::kLeftover) JudgeLeftover(*decision->batch);
    if (more) WakeOne();
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

std::vector<RunHandler::CrewFacts> RunHandler::Crews() const {
  constexpr std::string_view kNames[kCrews] = {"high", "high, when those are busy", "others",
                                               "others, while requests are turned away"};
  const Slices slices = SlicesFor(own_cores_);
  const int kept = own_cores_ ? CoresForReceivers(cores_) : 0;
  const std::string high_cores =
      kept > 0 ? StrCat("begin on the last ", cores_ - kept) : "any core";
  MutexLock lock(mutex_);
  const Crew turn = CrewOfOthers(Now());
  std::vector<CrewFacts> facts;
  for (size_t c = 0; c < kCrews; ++c) {
    if (threads_of_[c] == 0) continue;
    const Crew crew = static_cast<Crew>(c);
    CrewFacts& fact = facts.emplace_back(kNames[c], threads_of_[c], waiting_[c]);
    fact.rank = IsHigh(crew)              ? RankWithSlices(slices.high)
                : crew == Crew::kLeftover ? RankBehind(own_cores_)
                                          : RankWithSlices(slices.run);
    fact.cores = crew == Crew::kHigh      ? high_cores
                 : crew == Crew::kHighToo ? StrCat("begin on the first ", kept)
                 : IsPinned(crew)         ? "one each"
                                          : "any core";
    fact.turn = IsHigh(crew) || crew == turn;
  }
  return facts;
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
