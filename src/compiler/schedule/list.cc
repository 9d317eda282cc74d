// List scheduling: what is ready, by rules, one job after the other.
#include <algorithm>

#include "base/log.h"
#include "compiler/schedule/search.h"

namespace weft::compiler::schedule {
namespace {

class ListScheduler {
 public:
  ListScheduler(const Problem& problem, const ListRules& rules)
      : problem_(problem), rules_(rules), walker_(problem) {}

  Order Run() {
    Order order;
    order.rule = rules_.name;
    order.jobs.reserve(problem_.size());
    while (order.jobs.size() < problem_.size()) {
      int32_t job = PickTransfer();
      if (job < 0 && rules_.thrifty) job = PickFiller();
      if (job < 0) job = PickCompute();
      if (job < 0) job = walker_.ready()[0];
      const Job& j = problem_.jobs[static_cast<size_t>(job)];
      if (j.stream == Stream::kCompute) progress_ += j.seconds;
      walker_.Place(job);
      order.jobs.push_back(job);
    }
    order.value = {walker_.length(), walker_.peak()};
    return order;
  }

 private:
  bool IsTight() const {
    if (rules_.allowed.empty()) return false;
    auto at = std::upper_bound(rules_.allowed.begin(), rules_.allowed.end(), progress_,
                               [](double t, const auto& entry) { return t < entry.first; });
    return walker_.live() > (at == rules_.allowed.begin() ? at : at - 1)->second;
  }
  double Priority(int32_t job) const {
    return (IsTight() ? rules_.fallback : rules_.priority)[static_cast<size_t>(job)];
  }
  bool Fits(int32_t job) const {
    return rules_.memory_limit == 0 ||
           walker_.live() + walker_.Increase(job) <= rules_.memory_limit;
  }

  // A transfer that is due: its operands are there, it fits, and its result is needed soon, or
  // issuing it takes no memory.
  int32_t PickTransfer() const {
    int32_t best = -1;
    double horizon = IsTight() ? rules_.tight_horizon : rules_.horizon;
    for (int32_t job : walker_.ready()) {
      const Job& j = problem_.jobs[static_cast<size_t>(job)];
      if (!j.is_async || walker_.SlotTime(job) > walker_.now()) continue;
      bool is_due = rules_.need[static_cast<size_t>(job)] - progress_ <= horizon ||
                    walker_.Increase(job) <= walker_.Release(job);
      if (!is_due || !Fits(job)) continue;
      if (best < 0 || Priority(job) > Priority(best) ||
          (Priority(job) == Priority(best) && job < best)) {
        best = job;
      }
    }
    if (best >= 0) Explain(best, "transfer is due");
    return best;
  }

  // What runs while the first by priority waits: the least bytes a second. -1: it does not wait.
  int32_t PickFiller() const {
    int32_t first = -1, best = -1;
    double best_rate = 0;
    for (int32_t job : walker_.ready()) {
      const Job& j = problem_.jobs[static_cast<size_t>(job)];
      if (j.is_async) continue;
      bool leads = first < 0 || Priority(job) > Priority(first) ||
                   (Priority(job) == Priority(first) && job < first);
      if (leads) first = job;
      if (walker_.SlotTime(job) > walker_.now() || j.seconds <= 0) continue;
      auto bytes = static_cast<double>(walker_.Increase(job) - walker_.Release(job));
      double rate = bytes / j.seconds;
      if (best < 0 || rate < best_rate || (rate == best_rate && job < best)) {
        best = job, best_rate = rate;
      }
    }
    if (first < 0 || walker_.SlotTime(first) <= walker_.now()) return -1;
    // Where memory is scarce it is better to wait than to take more.
    if (best >= 0 && IsTight() && best_rate > 0) return first;
    if (best >= 0) Explain(best, "fills a wait with the least memory", first);
    return best;
  }

  // Lexicographic: fits in memory; does not wait (by the rules); priority; list order.
  int32_t PickCompute() const {
    int32_t best = -1;
    double best_wait = 0;
    bool best_fits = false;
    const char* why = "the only one ready";
    bool has_compute = HasCompute();
    for (int32_t job : walker_.ready()) {
      const Job& j = problem_.jobs[static_cast<size_t>(job)];
      double wait = walker_.SlotTime(job) - walker_.now();
      if (j.is_async && wait <= 0 && problem_.metric == Metric::kQueues && has_compute) continue;
      bool fits = Fits(job);
      bool wins = best < 0;
      if (!wins && fits != best_fits) {
        wins = fits;
        why = "memory";
      } else if (!wins && !fits) {
        int64_t a = walker_.Increase(job) - walker_.Release(job);
        int64_t b = walker_.Increase(best) - walker_.Release(best);
        wins = a != b ? a < b : job < best;
        why = "least memory";
      } else if (!wins && !rules_.waits && wait != best_wait) {
        wins = wait < best_wait;
        why = "less waiting";
      } else if (!wins) {
        wins = Priority(job) != Priority(best) ? Priority(job) > Priority(best) : job < best;
        why = "priority";
      }
      if (wins) {
        if (best >= 0) Explain(job, why, best);
        best = job, best_wait = wait, best_fits = fits;
      } else {
        Explain(best, why, job);
      }
    }
    return best;
  }

  bool HasCompute() const {
    return std::any_of(walker_.ready().begin(), walker_.ready().end(), [&](int32_t job) {
      return !problem_.jobs[static_cast<size_t>(job)].is_async;
    });
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
};

}  // namespace

Order ListSchedule(const Problem& problem, const ListRules& rules) {
  return ListScheduler(problem, rules).Run();
}

}  // namespace weft::compiler::schedule
