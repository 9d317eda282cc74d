// List scheduling: what is ready, by rules, one job after the other. What is ready is kept sorted
// by everything that a rule may ask for, so that a choice costs the logarithm of its size.
#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

#include "base/log.h"
#include "compiler/schedule/search.h"

namespace weft::compiler::schedule {
namespace {

// Candidates of the best priority that are asked whether they fit in memory.
constexpr int kMostTried = 32;

using Rank = std::tuple<double, double, int32_t>;  // the least first
using Ranking = std::set<Rank>;

class ListScheduler {
 public:
  ListScheduler(const Problem& problem, const ListRules& rules)
      : problem_(problem),
        rules_(rules),
        walker_(problem, true),
        arrival_(problem.size(), 0),
        where_(problem.size(), Where::kNowhere) {}

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

  bool HasTightMode() const { return !rules_.allowed.empty(); }
  bool IsTight() {
    if (!HasTightMode()) return false;
    while (allowed_at_ + 1 < rules_.allowed.size() &&
           rules_.allowed[allowed_at_ + 1].first <= progress_) {
      ++allowed_at_;
    }
    return walker_.live() > rules_.allowed[allowed_at_].second;
  }
  double Priority(int32_t job, bool tight) const {
    return (tight ? rules_.fallback : rules_.priority)[static_cast<size_t>(job)];
  }
  Rank ByPriority(int32_t job, bool tight) const { return {-Priority(job, tight), 0, job}; }
  bool Fits(int32_t job) const {
    return rules_.memory_limit == 0 ||
           walker_.live() + walker_.Increase(job) <= rules_.memory_limit;
  }
  int64_t Net(int32_t job) const { return walker_.Increase(job) - walker_.Release(job); }

  // --- what is ready

  // Jobs that became ready, and jobs that would let go of more than before.
  void TakeNews() {
    for (int32_t job : walker_.fresh()) {
      double at = 0;
      for (int32_t p : problem_.jobs[static_cast<size_t>(job)].preds) {
        at = std::max(at, walker_.end(p));
      }
      arrival_[static_cast<size_t>(job)] = at;
      where_[static_cast<size_t>(job)] = Where::kPending;
      pending_.insert({at, -Priority(job, false), job});
      if (!problem_.jobs[static_cast<size_t>(job)].is_async) ++syncs_;
      if (FollowsMemory()) by_memory_.insert(Rank(static_cast<double>(Net(job)), 0, job));
      noted_.resize(problem_.size());
      noted_[static_cast<size_t>(job)] = Net(job);
      bool counts = rules_.waits || rules_.thrifty;
      if (counts) {
        for (bool tight : Modes()) all_[tight].insert(ByPriority(job, tight));
      }
    }
    for (int32_t job : walker_.released()) {
      Where where = where_[static_cast<size_t>(job)];
      if (where == Where::kNowhere) continue;
      int64_t& noted = noted_[static_cast<size_t>(job)];
      if (FollowsMemory()) {
        by_memory_.erase(Rank(static_cast<double>(noted), 0, job));
        by_memory_.insert(Rank(static_cast<double>(Net(job)), 0, job));
      }
      if (where == Where::kSync && rules_.thrifty) by_rate_.erase(Rate(job));
      noted = Net(job);
      if (where == Where::kSync && rules_.thrifty) by_rate_.insert(Rate(job));
      if (where == Where::kTransfers && noted <= 0) {
        for (bool tight : Modes()) due_[tight].insert(ByPriority(job, tight));
      }
    }
  }
  bool FollowsMemory() const { return rules_.memory_limit > 0; }
  std::vector<bool> Modes() const {
    return HasTightMode() ? std::vector<bool>{false, true} : std::vector<bool>{false};
  }
  Rank Rate(int32_t job) const {
    double seconds = problem_.jobs[static_cast<size_t>(job)].seconds;
    return {static_cast<double>(noted_[static_cast<size_t>(job)]) / std::max(seconds, 1e-15), 0,
            job};
  }

  // What has arrived by now is pending no more; transfers become due as compute goes on.
  void Arrive() {
    while (!pending_.empty() && std::get<0>(*pending_.begin()) <= walker_.now()) {
      int32_t job = std::get<2>(*pending_.begin());
      pending_.erase(pending_.begin());
      bool is_async = problem_.jobs[static_cast<size_t>(job)].is_async;
      where_[static_cast<size_t>(job)] = is_async ? Where::kTransfers : Where::kSync;
      for (bool tight : Modes()) {
        if (!is_async) {
          sync_[tight].insert(ByPriority(job, tight));
        } else if (noted_[static_cast<size_t>(job)] <= 0) {  // takes no memory
          due_[tight].insert(ByPriority(job, tight));
        } else {
          by_need_[tight].emplace(rules_.need[static_cast<size_t>(job)], job);
        }
      }
      if (is_async) transfers_.insert(ByPriority(job, false));
      if (!is_async && rules_.thrifty) by_rate_.insert(Rate(job));
    }
    for (bool tight : Modes()) {
      double horizon = tight ? rules_.tight_horizon : rules_.horizon;
      auto& waiting = by_need_[tight];
      while (!waiting.empty() && waiting.top().first - progress_ <= horizon) {
        int32_t job = waiting.top().second;
        waiting.pop();
        if (where_[static_cast<size_t>(job)] == Where::kTransfers) {
          due_[tight].insert(ByPriority(job, tight));
        }
      }
    }
  }

  void Remove(int32_t job) {
    auto n = static_cast<size_t>(job);
    pending_.erase({arrival_[n], -Priority(job, false), job});
    for (bool tight : Modes()) {
      sync_[tight].erase(ByPriority(job, tight));
      due_[tight].erase(ByPriority(job, tight));
      all_[tight].erase(ByPriority(job, tight));
    }
    transfers_.erase(ByPriority(job, false));
    if (where_[n] == Where::kSync && rules_.thrifty) by_rate_.erase(Rate(job));
    if (FollowsMemory()) by_memory_.erase(Rank(static_cast<double>(noted_[n]), 0, job));
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
  int32_t First(const Ranking& ranking, const Pleases& pleases) const {
    int tried = 0;
    for (const Rank& rank : ranking) {
      int32_t job = std::get<2>(rank);
      if (pleases(job) && Fits(job)) return job;
      if (++tried >= kMostTried) break;
    }
    return -1;
  }
  int32_t First(const Ranking& ranking) const {
    return First(ranking, [](int32_t) { return true; });
  }

  // A transfer that is due: its operands are there, it fits, and its result is needed soon, or
  // issuing it takes no memory.
  int32_t PickTransfer() const {
    int32_t best = First(due_[is_tight_], [&](int32_t job) { return HasSlot(job); });
    if (best >= 0) Explain(best, "transfer is due");
    return best;
  }

  // What runs while the first by priority waits: the least bytes a second. -1: it does not wait.
  int32_t PickFiller() const {
    int32_t first = -1;
    for (const Rank& rank : all_[is_tight_]) {
      if (problem_.jobs[static_cast<size_t>(std::get<2>(rank))].is_async) continue;
      first = std::get<2>(rank);
      break;
    }
    if (first < 0 || arrival_[static_cast<size_t>(first)] <= walker_.now()) return -1;
    if (by_rate_.empty()) return -1;
    int32_t best = std::get<2>(*by_rate_.begin());
    // Where memory is scarce it is better to wait than to take more.
    if (is_tight_ && std::get<0>(*by_rate_.begin()) > 0) return first;
    Explain(best, "fills a wait with the least memory", first);
    return best;
  }

  // Lexicographic: fits in memory; does not wait (by the rules); priority; list order.
  int32_t PickCompute() const {
    int32_t best = rules_.waits ? PickByPriority() : PickByWait();
    if (best >= 0) return best;
    if (FollowsMemory() && !by_memory_.empty()) {
      best = std::get<2>(*by_memory_.begin());
      Explain(best, "memory");
      return best;
    }
    for (const Ranking* ranking : {&sync_[is_tight_], &pending_, &transfers_}) {
      if (!ranking->empty()) return std::get<2>(*ranking->begin());
    }
    return -1;
  }

  int32_t PickByPriority() const {
    bool may_issue = problem_.metric != Metric::kQueues || syncs_ == 0;
    int32_t best = First(all_[is_tight_], [&](int32_t job) {
      return may_issue || where_[static_cast<size_t>(job)] != Where::kTransfers;
    });
    if (best >= 0) Explain(best, "priority", Other(best));
    return best;
  }

  int32_t PickByWait() const {
    int32_t sync = First(sync_[is_tight_]);
    if (problem_.metric == Metric::kQueues) {
      int32_t best = sync;
      if (best < 0 && syncs_ == 0) best = First(transfers_);
      if (best < 0) best = First(pending_);
      if (best >= 0) Explain(best, best == sync ? "priority" : "less waiting", Other(best));
      return best;
    }
    // Transfers wait for a place in flight too.
    int32_t transfer = First(transfers_), later = First(pending_);
    double wait = transfer < 0 ? 0 : std::max(0.0, walker_.SlotTime(transfer) - walker_.now());
    if (sync >= 0 && transfer >= 0 && wait <= 0 &&
        Priority(transfer, is_tight_) > Priority(sync, is_tight_)) {
      return transfer;
    }
    if (sync >= 0) return sync;
    if (transfer < 0 || later < 0) return std::max(transfer, later);
    return walker_.SlotTime(later) - walker_.now() < wait ? later : transfer;
  }

  // Another one that was ready, for whoever asks why.
  int32_t Other(int32_t job) const {
    if (!rules_.explain) return -1;
    for (const Ranking* ranking : {&sync_[0], &pending_, &transfers_}) {
      for (const Rank& rank : *ranking) {
        if (std::get<2>(rank) != job) return std::get<2>(rank);
      }
    }
    return -1;
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

  using Heap = std::priority_queue<std::pair<double, int32_t>,
                                   std::vector<std::pair<double, int32_t>>, std::greater<>>;
  const Problem& problem_;
  const ListRules& rules_;
  Walker walker_;
  double progress_ = 0;  // compute done
  bool is_tight_ = false;
  size_t allowed_at_ = 0;
  int64_t syncs_ = 0;  // ready jobs that are no transfers
  std::vector<double> arrival_;
  std::vector<Where> where_;
  std::vector<int64_t> noted_;  // bytes that a ready job takes, less those that it lets go of
  Ranking pending_;             // not arrived yet, by when
  Ranking transfers_;           // arrived
  Ranking by_memory_, by_rate_;
  // Where there is memory, and where it is scarce.
  Ranking sync_[2], due_[2], all_[2];
  Heap by_need_[2];  // transfers that are not due yet
};

}  // namespace

Order ListSchedule(const Problem& problem, const ListRules& rules) {
  return ListScheduler(problem, rules).Run();
}

}  // namespace weft::compiler::schedule
