// The search for an order: rule sets of list scheduling, local search over priorities, branch and
// bound of the whole and of windows.
#include "compiler/schedule/search.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <numeric>

#include "base/log.h"
#include "compiler/schedule/priorities.h"
#include "program/work_bounds.h"

namespace weft::compiler::schedule {
namespace {

constexpr size_t kWindow = program::WorkBounds::kPath;  // jobs
constexpr size_t kMostWindows = 12;                     // a round
// Jobs: tabu search has a table of pairs.
constexpr size_t kMostInBranch = program::WorkBounds::kBlock;  // jobs
constexpr size_t kMostInBlocks = 2 * program::WorkBounds::kBlock;
constexpr double kForever = std::numeric_limits<double>::infinity();

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
    FillBest(options_.work * 3 / 5);
    Branch({16, 128});
    Perturb(options_.work * 4 / 5);
    FillBest(options_.work);
    if (p_.size() > kMostInBlocks) ImproveWindows();
    Move();
    Disjunctions();
    CriticalBlocks();
    Branch({512, 2048});
    ImproveWindows();
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
    VLOG("schedule", 3) << o.rule << ": " << o.value.length * 1e3 << " ms, " << o.value.peak
                        << " bytes";
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

  // Every combination of priorities, horizons and ways with memory. Where there is not enough work
  // for all of them, those that are tried are spread over all.
  void RuleSets() {
    double longest = 0;
    for (const Job& j : p_.jobs) {
      if (j.is_async) longest = std::max(longest, j.seconds);
    }
    std::vector<int32_t> natural(p_.size());
    for (size_t n = 0; n < p_.size(); ++n) natural[n] = static_cast<int32_t>(n);
    std::vector<double> need = NeedTimes(p_, natural);
    std::vector<PriorityChoice> choices = PriorityChoices(p_, base_, need);
    std::vector<ListRules> sets;
    if (options_.memory_limit > 0) RulesUnderLimit(choices, longest, sets);
    for (double limit : {1.0, 0.97, 0.93, 0.88}) {  // reruns under a tighter limit
      if (limit < 1 && options_.memory_limit == 0) break;
      for (size_t c = 0; c < choices.size(); ++c) {
        for (double horizon : {kForever, 1.5, 3.0, 6.0, 12.0}) {
          for (bool waits : {false, true}) {
            ListRules rules;
            rules.name = choices[c].name;
            rules.choice = c;
            rules.horizon = horizon * longest;
            rules.waits = waits;
            rules.memory_limit =
                static_cast<int64_t>(limit * static_cast<double>(options_.memory_limit));
            sets.push_back(std::move(rules));
          }
        }
      }
    }
    std::vector<ListRules> of_parts;
    std::vector<PriorityChoice> staggered = StaggeredParts(p_);
    RulesOfParts(choices.size(), staggered.size(), longest, options_.memory_limit, of_parts);
    std::ranges::move(staggered, std::back_inserter(choices));
    TryRules(of_parts, choices, need);
    TryRules(sets, choices, need);
  }

  void TryRules(const std::vector<ListRules>& sets, const std::vector<PriorityChoice>& choices,
                const std::vector<double>& need) {
    if (sets.empty()) return;
    std::vector<std::pair<double, int64_t>> base;
    if (options_.memory_limit > 0) base = LiveBytes(p_);
    size_t stride = sets.size() * 3 / 8;
    while (std::gcd(stride, sets.size()) != 1) ++stride;
    for (size_t k = 0, at = 0; k < sets.size(); ++k, at = (at + stride) % sets.size()) {
      if (Done() || spent_ > options_.work * 2 / 5) return;
      ListRules rules = sets[at];
      rules.priority = choices[rules.choice].priority;
      rules.need = need;
      if (rules.part > 0) {
        rules.fallback = choices[kModuleOrderChoice].priority;
        rules.allowed = AllowedBytes(base, options_.memory_limit, rules.part);
      }
      Order o = ListSchedule(p_, rules);
      if (Better(o, best_)) rules_ = rules;
      Take(std::move(o));
    }
  }

  // From both ends: which one is the harder depends on where the scarce stream is.
  void Branch(std::initializer_list<size_t> widths) {
    if (p_.size() > kMostInBranch || options_.memory_limit != 0 || p_.HasMoreRules()) return;
    for (size_t width : widths) {
      if (Done() || best_.is_optimal || states_ >= options_.states) return;
      BranchResult found = BranchAndBound(p_, best_.value.length, width, options_.states - states_);
      states_ += found.states;
      TakeJobs(std::move(found.jobs), "branch and bound");
      best_.is_optimal |= found.is_exhaustive;
      if (Done() || best_.is_optimal || p_.metric != Metric::kQueues) continue;
      Problem reverse = Reversed(p_);
      found = BranchAndBound(reverse, best_.value.length, width, options_.states - states_);
      states_ += found.states;
      if (!found.jobs.empty()) {
        TakeJobs(FromReversed(p_, reverse, found.jobs), "branch and bound from the end");
      }
    }
  }

  // Jobs move forward only, and what they leave behind may be a wait of its own: on it goes from
  // there, as long as it helps.
  void FillBest(int64_t until) {
    for (double overshoot : {1.3, 4.0, 1.05, 20.0}) {
      for (double part : {1.0, 0.96}) {
        if (part < 1 && options_.memory_limit == 0) break;
        std::vector<int32_t> jobs = best_.jobs;
        double before = best_.value.length;
        for (int round = 0; round < 12; ++round) {
          if (Done() || best_.is_optimal || spent_ > until) return;
          FillOptions options;
          options.memory_limit =
              static_cast<int64_t>(part * static_cast<double>(options_.memory_limit));
          options.bound = bound_;
          options.overshoot = overshoot;
          std::vector<int32_t> next = FillWaits(p_, jobs, options, &spent_);
          double length = Evaluate(p_, next).length;
          if (round > 1 && length >= before * (1 - 1e-9)) break;
          before = length;
          jobs = next;
          TakeJobs(std::move(next), "filled waits");
        }
      }
    }
  }

  // Where memory is scarce most of what a large threshold lets through is never made good again.
  void Move() {
    for (double threshold : {0.001, options_.memory_limit == 0 ? 0.01 : 0.0003}) {
      if (Done() || best_.is_optimal) return;
      MoveOptions options{options_.moves / 2, options_.moves / 2,
                          InLimit(best_) ? options_.memory_limit : 0, bound_, threshold};
      TakeJobs(ImproveByMoves(p_, best_.jobs, options), "moves of single jobs");
    }
  }

  void CriticalBlocks() {
    if (Done() || best_.is_optimal || options_.memory_limit != 0 || p_.size() > kMostInBlocks) {
      return;
    }
    MoveOptions options{options_.blocks / 2, options_.blocks / 2, 0, bound_, 0};
    // The best may be what everything leads to that is not the optimum: the module's order first.
    std::vector<int32_t> from(p_.size());
    std::iota(from.begin(), from.end(), 0);
    for (int run = 0; run < 2 && !Done(); ++run, from = best_.jobs) {
      TakeJobs(ImproveByCriticalBlocks(p_, from, options), "tabu search of critical blocks");
    }
  }

  // Local optima that windows of 64 jobs do not get out of are where few decisions, far apart, have
  // to be other ones: targets below the best known length find those.
  void Disjunctions() {
    if (Done() || best_.is_optimal || options_.memory_limit != 0 || p_.size() > kMostInBranch ||
        !HasDisjunctions(p_)) {
      return;
    }
    DisjunctiveResult found = SearchDisjunctions(p_, bound_, best_.value.length, options_.pairs);
    TakeJobs(std::move(found.jobs), "branch and bound over pairs");
    best_.is_optimal |= best_.value.length <= found.bound * (1 + 1e-9);
  }

  void TakeJobs(std::vector<int32_t> jobs, std::string_view rule) {
    if (jobs.empty()) return;
    Order o;
    o.jobs = std::move(jobs);
    o.rule = rule;
    o.value = Evaluate(p_, o.jobs);
    Take(std::move(o));
  }

  void ImproveWindows() {
    for (int round = 0; round < 3 && Windows(); ++round) {
    }
  }

  // Branch and bound of windows around the longest waits, what is before and behind them as it is.
  // True: something became shorter.
  bool Windows() {
    if (Done() || best_.is_optimal || p_.size() <= kWindow || p_.HasMoreRules()) return false;
    std::vector<std::pair<double, size_t>> waits;
    Walker walker(p_);
    for (size_t k = 0; k < best_.jobs.size(); ++k) {
      double wait = walker.SlotTime(best_.jobs[k]) - walker.now();
      if (wait > 0) waits.emplace_back(-wait, k);
      walker.Place(best_.jobs[k]);
    }
    std::sort(waits.begin(), waits.end());
    if (waits.size() > kMostWindows) waits.resize(kMostWindows);
    double before = best_.value.length;
    for (const auto& [wait, at] : waits) {
      for (size_t ahead : {kWindow / 2, kWindow * 7 / 8}) {
        if (window_states_ > options_.window_states) return false;
        ImproveWindow(at > ahead ? at - ahead : 0);
      }
    }
    return best_.value.length < before * (1 - 1e-9);
  }

  void ImproveWindow(size_t first) {
    size_t last = std::min(first + kWindow, best_.jobs.size());
    Walker walker(p_);
    for (size_t k = 0; k < first; ++k) walker.Place(best_.jobs[k]);
    BranchStart start;
    start.streams = walker.streams();
    Problem window;
    window.overlap = p_.overlap;
    window.metric = p_.metric;
    std::vector<int32_t> inside(best_.jobs.begin() + static_cast<int64_t>(first),
                                best_.jobs.begin() + static_cast<int64_t>(last));
    std::sort(inside.begin(), inside.end());
    double compute = 0, wire = 0;  // behind the window
    for (size_t k = last; k < best_.jobs.size(); ++k) {
      const Job& j = p_.jobs[static_cast<size_t>(best_.jobs[k])];
      (j.stream == Stream::kCompute ? compute : wire) += j.stream == Stream::kCopy ? 0 : j.seconds;
    }
    for (int32_t job : inside) {
      const Job& j = p_.jobs[static_cast<size_t>(job)];
      Job own;
      own.stream = j.stream, own.is_async = j.is_async, own.seconds = j.seconds;
      double release = 0;
      for (int32_t q : j.preds) {
        auto it = std::lower_bound(inside.begin(), inside.end(), q);
        if (it != inside.end() && *it == q) {
          own.preds.push_back(static_cast<int32_t>(it - inside.begin()));
        } else {
          release = std::max(release, walker.end(q));
        }
      }
      for (int32_t q : j.succs) {
        auto it = std::lower_bound(inside.begin(), inside.end(), q);
        if (it != inside.end() && *it == q) {
          own.succs.push_back(static_cast<int32_t>(it - inside.begin()));
        }
      }
      start.release.push_back(release);
      double rest = j.stream == Stream::kCompute ? compute
                    : j.stream == Stream::kWire  ? wire / static_cast<double>(p_.overlap)
                                                 : 0;
      window.tail.push_back(std::max(p_.tail[static_cast<size_t>(job)], rest));
      window.jobs.push_back(std::move(own));
    }
    BranchResult found = BranchAndBound(window, best_.value.length, 24, 4000, start);
    window_states_ += found.states;
    if (found.jobs.empty()) return;
    Order o;
    o.jobs = best_.jobs;
    for (size_t k = 0; k < found.jobs.size(); ++k) {
      o.jobs[first + k] = inside[static_cast<size_t>(found.jobs[k])];
    }
    o.value = Evaluate(p_, o.jobs);
    o.rule = "branch and bound of windows";
    Take(std::move(o));
  }

  // Local search over the priorities of the best rule set.
  void Perturb(int64_t until) {
    if (rules_.priority.empty() || best_.is_optimal) return;
    Random random;
    double scales[2] = {0, 0};  // of compute, of transfers
    for (size_t n = 0; n < p_.size(); ++n) {
      double x = std::abs(rules_.priority[n]);
      if (x < 1e8) scales[p_.jobs[n].is_async] = std::max(scales[p_.jobs[n].is_async], x);
    }
    Order kept = ListSchedule(p_, rules_);
    ListRules current = rules_;
    for (int round = 0; !Done() && spent_ < until && round < 4000; ++round) {
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
  int64_t spent_ = 0, states_ = 0, window_states_ = 0;
};

}  // namespace

Order FindOrder(const Problem& problem, const SearchOptions& options) {
  if (problem.size() == 0) return {};
  return OrderSearch(problem, options).Run();
}

}  // namespace weft::compiler::schedule
