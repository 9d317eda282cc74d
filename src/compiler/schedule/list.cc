// List scheduling: what is ready, by rules, one job after the other. What is ready is kept sorted
// by everything that a rule may ask for, so that a choice costs the logarithm of its size.
#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <utility>

#include "base/log.h"
#include "compiler/schedule/rank_set.h"
#include "compiler/schedule/search.h"
#include "program/work_bounds.h"

namespace weft::compiler::schedule {
namespace {

// Candidates of the best priority that are asked whether they fit in memory.
constexpr int kMostTried = program::WorkBounds::kAlternatives;

using Rank = std::pair<double, int32_t>;  // the least first
using Ranking = std::set<Rank>;

// Jobs by priority, the highest first; equal ones as the list has them.
struct ByPriority {
  ByPriority(size_t size, const std::vector<double>& priority) : job(size), rank(size) {
    for (size_t n = 0; n < size; ++n) job[n] = static_cast<int32_t>(n);
    std::sort(job.begin(), job.end(), [&](int32_t a, int32_t b) {
      double x = priority[static_cast<size_t>(a)], y = priority[static_cast<size_t>(b)];
      return x != y ? x > y : a < b;
    });
    for (size_t r = 0; r < size; ++r) rank[static_cast<size_t>(job[r])] = static_cast<int32_t>(r);
  }
  std::vector<int32_t> job, rank;
};

// What is ready, in the order of one set of priorities.
struct ReadyJobs {
  ReadyJobs(size_t size, const std::vector<double>& priority)
      : order(size, priority), sync(size), due(size), transfers(size), later(size), all(size) {}
  int32_t Rank(int32_t job) const { return order.rank[static_cast<size_t>(job)]; }
  void Erase(int32_t job) {
    for (RankSet* set : {&sync, &due, &transfers, &later, &all}) set->Erase(Rank(job));
  }
  ByPriority order;
  RankSet sync;       // arrived, no transfers
  RankSet due;        // transfers that may be issued
  RankSet transfers;  // arrived
  RankSet later;      // no transfers, pending ones too
  RankSet all;        // pending ones too
  // Transfers that are not due yet, by compute done when they are needed.
  std::priority_queue<std::pair<double, int32_t>, std::vector<std::pair<double, int32_t>>,
                      std::greater<>>
      by_need;
};

class ListScheduler {
 public:
  ListScheduler(const Problem& problem, const ListRules& rules)
      : problem_(problem),
        rules_(rules),
        walker_(problem, true),
        arrival_(problem.size(), 0),
        where_(problem.size(), Where::kNowhere),
        noted_(problem.size(), 0) {
    ready_.emplace_back(problem.size(), rules.priority);
    if (!rules.allowed.empty()) ready_.emplace_back(problem.size(), rules.fallback);
  }

  Order Run() {
    Order order;
    order.rule = rules_.name;
    order.jobs.reserve(problem_.size());
    TakeNews();
    while (order.jobs.size() < problem_.size()) {
      Arrive();
      is_tight_ = IsTight();
      int32_t job = PickTransfer();
      if (job < 0 && rules_.thrifty) job = PickFiller();
      if (job < 0) job = PickCompute();
      const Job& j = problem_.jobs[static_cast<size_t>(job)];
      if (j.stream == Stream::kCompute) progress_ += j.seconds;
      Remove(job);
      walker_.Place(job);
      TakeNews();
      order.jobs.push_back(job);
    }
    order.value = {walker_.length(), walker_.peak()};
    return order;
  }

 private:
  enum class Where : uint8_t { kNowhere, kPending, kSync, kTransfers };

  bool IsTight() {
    if (rules_.allowed.empty()) return false;
    while (allowed_at_ + 1 < rules_.allowed.size() &&
           rules_.allowed[allowed_at_ + 1].first <= progress_) {
      ++allowed_at_;
    }
    return walker_.live() > rules_.allowed[allowed_at_].second;
  }
  const ReadyJobs& Ready() const { return ready_[is_tight_]; }
  bool Fits(int32_t job) const {
    return rules_.memory_limit == 0 ||
           walker_.live() + walker_.Increase(job) <= rules_.memory_limit;
  }
  int64_t Net(int32_t job) const { return walker_.Increase(job) - walker_.Release(job); }

  // --- what is ready

  // Jobs that became ready, and jobs that would let go of more than before.
  void TakeNews() {
    for (int32_t job : walker_.fresh()) {
      auto n = static_cast<size_t>(job);
      for (int32_t p : problem_.jobs[n].preds) arrival_[n] = std::max(arrival_[n], walker_.end(p));
      where_[n] = Where::kPending;
      pending_.insert({arrival_[n], ready_[0].Rank(job)});
      if (!problem_.jobs[n].is_async) ++syncs_;
      noted_[n] = Net(job);
      if (FollowsMemory()) by_memory_.insert({static_cast<double>(noted_[n]), job});
      for (ReadyJobs& r : ready_) {
        r.all.Insert(r.Rank(job));
        if (!problem_.jobs[n].is_async) r.later.Insert(r.Rank(job));
      }
    }
    for (int32_t job : walker_.released()) {
      Where where = where_[static_cast<size_t>(job)];
      if (where == Where::kNowhere) continue;
      int64_t& noted = noted_[static_cast<size_t>(job)];
      bool has_rate = where == Where::kSync && rules_.thrifty;
      if (FollowsMemory()) by_memory_.erase({static_cast<double>(noted), job});
      if (has_rate) by_rate_.erase(Rate(job));
      noted = Net(job);
      if (FollowsMemory()) by_memory_.insert({static_cast<double>(noted), job});
      if (has_rate) by_rate_.insert(Rate(job));
      if (where != Where::kTransfers || noted > 0) continue;
      for (ReadyJobs& r : ready_) r.due.Insert(r.Rank(job));
    }
  }
  bool FollowsMemory() const { return rules_.memory_limit > 0; }
  Rank Rate(int32_t job) const {
    double seconds = problem_.jobs[static_cast<size_t>(job)].seconds;
    return {static_cast<double>(noted_[static_cast<size_t>(job)]) / std::max(seconds, 1e-15), job};
  }

  // What has arrived by now is pending no more; transfers become due as compute goes on.
  void Arrive() {
    while (!pending_.empty() && pending_.begin()->first <= walker_.now()) {
      int32_t job = ready_[0].order.job[static_cast<size_t>(pending_.begin()->second)];
      auto n = static_cast<size_t>(job);
      pending_.erase(pending_.begin());
      bool is_async = problem_.jobs[n].is_async;
      where_[n] = is_async ? Where::kTransfers : Where::kSync;
      if (!is_async && rules_.thrifty) by_rate_.insert(Rate(job));
      for (ReadyJobs& r : ready_) {
        (is_async ? r.transfers : r.sync).Insert(r.Rank(job));
        if (!is_async) continue;
        if (noted_[n] <= 0) r.due.Insert(r.Rank(job));  // takes no memory
        if (noted_[n] > 0) r.by_need.emplace(rules_.need[n], job);
      }
    }
    for (size_t tight = 0; tight < ready_.size(); ++tight) {
      double horizon = tight ? rules_.tight_horizon : rules_.horizon;
      ReadyJobs& r = ready_[tight];
      while (!r.by_need.empty() && r.by_need.top().first - progress_ <= horizon) {
        int32_t job = r.by_need.top().second;
        r.by_need.pop();
        if (where_[static_cast<size_t>(job)] == Where::kTransfers) r.due.Insert(r.Rank(job));
      }
    }
  }

  void Remove(int32_t job) {
    auto n = static_cast<size_t>(job);
    if (where_[n] == Where::kPending) pending_.erase({arrival_[n], ready_[0].Rank(job)});
    for (ReadyJobs& r : ready_) r.Erase(job);
    if (where_[n] == Where::kSync && rules_.thrifty) by_rate_.erase(Rate(job));
    if (FollowsMemory()) by_memory_.erase({static_cast<double>(noted_[n]), job});
    if (!problem_.jobs[n].is_async) --syncs_;
    where_[n] = Where::kNowhere;
  }

  // --- choices

  bool HasSlot(int32_t job) const {
    return problem_.metric == Metric::kQueues ||
           problem_.jobs[static_cast<size_t>(job)].stream != Stream::kWire ||
           walker_.FreeWire() <= walker_.now();
  }
  // The first that fits and pleases; -1: none of the first few.
  template <class Pleases>
  int32_t First(const RankSet& set, const Pleases& pleases) const {
    int32_t rank = set.From(0);
    for (int tried = 0; rank >= 0 && tried < kMostTried; ++tried, rank = set.From(rank + 1)) {
      int32_t job = Ready().order.job[static_cast<size_t>(rank)];
      if (pleases(job) && Fits(job)) return job;
    }
    return -1;
  }
  int32_t First(const RankSet& set) const {
    return First(set, [](int32_t) { return true; });
  }
  // By when they arrive.
  int32_t FirstPending() const {
    int tried = 0;
    for (auto it = pending_.begin(); it != pending_.end() && tried < kMostTried; ++it, ++tried) {
      int32_t job = ready_[0].order.job[static_cast<size_t>(it->second)];
      if (Fits(job)) return job;
    }
    return -1;
  }

  // A transfer that is due: its operands are there, it fits, and its result is needed soon, or
  // issuing it takes no memory.
  int32_t PickTransfer() const {
    int32_t best = First(Ready().due, [&](int32_t job) { return HasSlot(job); });
    if (best >= 0) Explain(best, "transfer is due");
    return best;
  }

  // What runs while the first by priority waits: the least bytes a second. -1: it does not wait.
  int32_t PickFiller() const {
    if (by_rate_.empty()) return -1;
    int32_t rank = Ready().later.From(0);
    int32_t first = Ready().order.job[static_cast<size_t>(rank)];
    if (arrival_[static_cast<size_t>(first)] <= walker_.now()) return -1;
    // Where memory is scarce it is better to wait than to take more.
    if (is_tight_ && by_rate_.begin()->first > 0) return first;
    int32_t best = by_rate_.begin()->second;
    Explain(best, "fills a wait with the least memory", first);
    return best;
  }

  // Lexicographic: fits in memory; does not wait (by the rules); priority; list order.
  int32_t PickCompute() const {
    int32_t best = rules_.waits ? PickByPriority() : PickByWait();
    if (best >= 0) return best;
    if (FollowsMemory()) {
      best = by_memory_.begin()->second;
      Explain(best, "memory", Other(best));
      return best;
    }
    return Ready().order.job[static_cast<size_t>(Ready().all.From(0))];
  }

  int32_t PickByPriority() const {
    bool may_issue = problem_.metric != Metric::kQueues || syncs_ == 0;
    int32_t best = First(Ready().all, [&](int32_t job) {
      return may_issue || where_[static_cast<size_t>(job)] != Where::kTransfers;
    });
    if (best >= 0) Explain(best, "priority", Other(best));
    return best;
  }

  int32_t PickByWait() const {
    int32_t sync = First(Ready().sync);
    if (problem_.metric == Metric::kQueues) {
      int32_t best = sync;
      if (best < 0 && syncs_ == 0) best = First(Ready().transfers);
      if (best < 0) best = FirstPending();
      if (best >= 0) Explain(best, best == sync ? "priority" : "less waiting", Other(best));
      return best;
    }
    // Transfers wait for a place in flight too.
    int32_t transfer = First(Ready().transfers), later = FirstPending();
    double wait = transfer < 0 ? 0 : std::max(0.0, walker_.SlotTime(transfer) - walker_.now());
    if (sync >= 0 && transfer >= 0 && wait <= 0 && Ready().Rank(transfer) < Ready().Rank(sync)) {
      return transfer;
    }
    if (sync >= 0) return sync;
    if (transfer < 0 || later < 0) return std::max(transfer, later);
    return walker_.SlotTime(later) - walker_.now() < wait ? later : transfer;
  }

  // Another one that was ready, for whoever asks why.
  int32_t Other(int32_t job) const {
    if (!rules_.explain) return -1;
    int32_t rank = Ready().all.From(0);
    if (rank == Ready().Rank(job)) rank = Ready().all.From(rank + 1);
    return rank < 0 ? -1 : Ready().order.job[static_cast<size_t>(rank)];
  }

  void Explain(int32_t chosen, const char* why, int32_t refused = -1) const {
    if (!rules_.explain) return;
    auto name = [&](int32_t job) {
      return std::string_view(problem_.jobs[static_cast<size_t>(job)].op->name());
    };
    if (refused < 0) {
      VLOG("schedule", 2) << "at " << walker_.now() * 1e6 << " us: " << name(chosen) << ": " << why;
    } else {
      VLOG("schedule", 2) << "at " << walker_.now() * 1e6 << " us: " << name(chosen) << " before "
                          << name(refused) << ": " << why;
    }
  }

  const Problem& problem_;
  const ListRules& rules_;
  Walker walker_;
  double progress_ = 0;  // compute done
  bool is_tight_ = false;
  size_t allowed_at_ = 0;
  int64_t syncs_ = 0;  // ready jobs that are no transfers
  std::vector<double> arrival_;
  std::vector<Where> where_;
  std::vector<int64_t> noted_;    // bytes that a ready job takes, less those that it lets go of
  std::vector<ReadyJobs> ready_;  // where there is memory; where it is scarce
  std::set<std::pair<double, int32_t>> pending_;  // not arrived yet: when, rank
  Ranking by_memory_, by_rate_;
};

}  // namespace

Order ListSchedule(const Problem& problem, const ListRules& rules) {
  return ListScheduler(problem, rules).Run();
}

}  // namespace weft::compiler::schedule
