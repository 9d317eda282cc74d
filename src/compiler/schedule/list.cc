// List scheduling, and the search over its priorities.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/log.h"
#include "compiler/schedule/search.h"

namespace weft::compiler::schedule {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

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
  double Priority(int32_t job) const { return rules_.priority[static_cast<size_t>(job)]; }
  bool Fits(int32_t job) const {
    return rules_.memory_limit == 0 ||
           walker_.live() + walker_.Increase(job) <= rules_.memory_limit;
  }

  // A transfer that is due: its operands are there, it fits, and its result is needed soon, or
  // issuing it takes no memory.
  int32_t PickTransfer() const {
    int32_t best = -1;
    for (int32_t job : walker_.ready()) {
      const Job& j = problem_.jobs[static_cast<size_t>(job)];
      if (!j.is_async || walker_.SlotTime(job) > walker_.now()) continue;
      bool is_due = rules_.need[static_cast<size_t>(job)] - progress_ <= rules_.horizon ||
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

  // Lexicographic: fits in memory; does not wait (by the rules); priority; list order.
  int32_t PickCompute() const {
    int32_t best = -1;
    double best_wait = 0;
    bool best_fits = false;
    const char* why = "the only one ready";
    for (int32_t job : walker_.ready()) {
      const Job& j = problem_.jobs[static_cast<size_t>(job)];
      double wait = walker_.SlotTime(job) - walker_.now();
      if (j.is_async && wait <= 0 && problem_.metric == Metric::kQueues && HasCompute()) continue;
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

// A generator of its own, the same everywhere.
struct Random {
  uint64_t state = 0x9e3779b97f4a7c15;
  double Uniform() {  // -1 to 1
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<double>(state >> 11) * 0x1p-52 - 1;
  }
};

// Of transfers: the compute that the list has before the first job that reads the result.
std::vector<double> NeedTimes(const Problem& p, const std::vector<int32_t>& order) {
  std::vector<double> at(p.size(), 0), need(p.size(), kForever);
  double done = 0;
  for (int32_t job : order) {
    auto n = static_cast<size_t>(job);
    at[n] = done;
    if (p.jobs[n].stream == Stream::kCompute) done += p.jobs[n].seconds;
  }
  for (size_t n = p.size(); n-- > 0;) {
    for (int32_t s : p.jobs[n].succs) {
      auto k = static_cast<size_t>(s);
      need[n] = std::min(need[n], p.jobs[k].is_async ? need[k] - p.jobs[k].seconds : at[k]);
    }
  }
  return need;
}

class OrderSearch {
 public:
  OrderSearch(const Problem& problem, const SearchOptions& options)
      : p_(problem), options_(options), bound_(LowerBound(problem)) {}

  Order Run() {
    for (size_t n = 0; n < p_.size(); ++n) {
      best_.jobs.push_back(static_cast<int32_t>(n));
      position_.push_back(-static_cast<double>(n));
    }
    best_.value = Evaluate(p_, best_.jobs);
    best_.rule = "order of the module";
    bool has_transfers = std::any_of(p_.jobs.begin(), p_.jobs.end(),
                                     [](const Job& j) { return j.stream != Stream::kCompute; });
    if (!has_transfers && InLimit(best_)) {
      best_.is_optimal = true;
      return best_;
    }
    LeastMemory();
    RuleSets();
    Branch();
    Perturb();
    best_.is_optimal |= best_.value.length <= bound_ * (1 + 1e-9);
    return std::move(best_);
  }

 private:
  bool InLimit(const Order& o) const {
    return options_.memory_limit == 0 || o.value.peak <= options_.memory_limit;
  }
  bool Better(const Order& a, const Order& b) const {
    if (InLimit(a) != InLimit(b)) return InLimit(a);
    if (!InLimit(a) && a.value.peak != b.value.peak) return a.value.peak < b.value.peak;
    double eps = 1e-12 * bound_;
    if (std::abs(a.value.length - b.value.length) > eps) return a.value.length < b.value.length;
    return a.value.peak < b.value.peak;
  }
  bool Done() const { return InLimit(best_) && best_.value.length <= bound_ * (1 + 1e-9); }
  void Take(Order o) {
    spent_ += static_cast<int64_t>(p_.size());
    if (Better(o, best_)) best_ = std::move(o);
  }

  // The base: always what frees most or takes least.
  void LeastMemory() {
    ListRules rules;
    rules.name = "least memory";
    rules.priority = position_;
    rules.need = NeedTimes(p_, best_.jobs);
    rules.memory_limit = 1;  // nothing fits, so that memory alone decides
    Order o = ListSchedule(p_, rules);
    base_ = o.value.peak < best_.value.peak ? o.jobs : best_.jobs;
    Take(std::move(o));
  }

  void RuleSets() {
    double longest = 0;
    for (const Job& j : p_.jobs) {
      if (j.is_async) longest = std::max(longest, j.seconds);
    }
    std::vector<double> by_base(p_.size());
    for (size_t k = 0; k < base_.size(); ++k) {
      by_base[static_cast<size_t>(base_[k])] = -static_cast<double>(k);
    }
    std::vector<double> listed = position_, tails = p_.tail;
    for (size_t n = 0; n < p_.size(); ++n) tails[n] += p_.jobs[n].seconds;
    struct Choice {
      std::string_view name;
      const std::vector<double>* priority;
    };
    std::vector<int32_t> natural(p_.size());
    for (size_t n = 0; n < p_.size(); ++n) natural[n] = static_cast<int32_t>(n);
    std::vector<double> need = NeedTimes(p_, natural), needed = tails;
    // Transfers compete among themselves: what is needed first goes first.
    for (size_t n = 0; n < p_.size(); ++n) {
      if (p_.jobs[n].is_async) needed[n] = listed[n] = by_base[n] = -std::min(need[n], 1e9);
    }
    const Choice choices[] = {{"critical path", &tails},
                              {"critical path, transfers by need", &needed},
                              {"module order", &listed},
                              {"memory order", &by_base}};
    for (double limit : {1.0, 0.97, 0.93, 0.88}) {  // reruns under a tighter limit
      if (limit < 1 && (options_.memory_limit == 0 || Done())) break;
      for (const Choice& c : choices) {
        for (double horizon : {kForever, 1.5, 3.0, 6.0, 12.0}) {
          for (bool waits : {false, true}) {
            if (Done() || spent_ > options_.work) return;
            ListRules rules;
            rules.name = c.name;
            rules.priority = *c.priority;
            rules.need = need;
            rules.horizon = horizon * longest;
            rules.waits = waits;
            rules.memory_limit =
                static_cast<int64_t>(limit * static_cast<double>(options_.memory_limit));
            Order o = ListSchedule(p_, rules);
            if (Better(o, best_)) rules_ = rules;
            Take(std::move(o));
          }
        }
      }
    }
  }

  void Branch() {
    if (Done() || p_.size() > 200 || options_.memory_limit != 0) return;
    int64_t left = options_.states;
    for (size_t width : {size_t{16}, size_t{128}, size_t{1024}, size_t{8192}}) {
      if (Done() || left <= 0) return;
      BranchResult found = BranchAndBound(p_, best_.value.length, width, left);
      left -= found.states;
      if (!found.jobs.empty()) {
        Order o;
        o.jobs = std::move(found.jobs);
        o.rule = "branch and bound";
        o.value = Evaluate(p_, o.jobs);
        Take(std::move(o));
      }
      if (found.is_exhaustive) {
        best_.is_optimal = true;
        return;
      }
    }
  }

  // Local search over the priorities of the best rule set.
  void Perturb() {
    if (rules_.priority.empty() || best_.is_optimal) return;
    Random random;
    double scales[2] = {0, 0};  // of compute, of transfers
    for (size_t n = 0; n < p_.size(); ++n) {
      double x = std::abs(rules_.priority[n]);
      if (x < 1e8) scales[p_.jobs[n].is_async] = std::max(scales[p_.jobs[n].is_async], x);
    }
    Order kept = ListSchedule(p_, rules_);
    ListRules current = rules_;
    for (int round = 0; !Done() && spent_ < options_.work && round < 4000; ++round) {
      ListRules next = current;
      next.name = "perturbed priorities";
      double strength = round % 3 == 0 ? 0.02 : round % 3 == 1 ? 0.1 : 0.4;
      size_t count = std::max<size_t>(1, p_.size() / 20);
      for (size_t k = 0; k < count; ++k) {
        auto n = static_cast<size_t>((random.Uniform() + 1) / 2 * static_cast<double>(p_.size()));
        n = std::min(n, p_.size() - 1);
        next.priority[n] += strength * scales[p_.jobs[n].is_async] * random.Uniform();
      }
      Order o = ListSchedule(p_, next);
      if (!Better(kept, o)) {
        kept = o;
        current.priority = next.priority;
      }
      Take(std::move(o));
    }
  }

  const Problem& p_;
  const SearchOptions& options_;
  const double bound_;
  Order best_;
  ListRules rules_;
  std::vector<int32_t> base_;
  std::vector<double> position_;
  int64_t spent_ = 0;
};

}  // namespace

Order ListSchedule(const Problem& problem, const ListRules& rules) {
  return ListScheduler(problem, rules).Run();
}

Order FindOrder(const Problem& problem, const SearchOptions& options) {
  if (problem.size() == 0) return {};
  return OrderSearch(problem, options).Run();
}

}  // namespace weft::compiler::schedule
