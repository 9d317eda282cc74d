// Branch and bound over orders, level by level: a level holds states of equally many placed jobs.
// States that a lower bound rules out, or that another state of the same set dominates, go; what
// is beyond the width goes too, and then the result is not proven.
#include <algorithm>
#include <map>

#include "compiler/schedule/search.h"
#include "compiler/schedule/timeline.h"

namespace weft::compiler::schedule {
namespace {

struct BranchState {
  std::vector<uint64_t> placed, frozen;  // sets of jobs
  double now = 0, last = 0, last_copy = 0, copy = 0, bound = 0;
  std::vector<double> lanes;
  std::vector<double> end;  // of transfers whose readers are not all placed; else 0
  int32_t parent = -1, job = -1;
};

bool Has(const std::vector<uint64_t>& set, size_t n) {
  return set[n / 64] >> (n % 64) & 1;
}
void Insert(std::vector<uint64_t>& set, size_t n) {
  set[n / 64] |= uint64_t{1} << (n % 64);
}

class BranchSearch {
 public:
  BranchSearch(const Problem& p, double best, size_t width, int64_t states,
               const BranchStart& start)
      : p_(p), start_(start), best_(best * (1 - 1e-9)), width_(width), left_(states) {}

  BranchResult Run() {
    BranchResult result;
    size_t words = (p_.size() + 63) / 64;
    BranchState root;
    root.placed.assign(words, 0);
    root.frozen.assign(words, 0);
    root.lanes.assign(static_cast<size_t>(p_.overlap), 0);
    root.end.assign(p_.size(), 0);
    const Walker::Streams& s = start_.streams;
    if (!s.wire.empty()) {
      root.lanes = s.wire;
      root.copy = s.copy[0];
      root.now = s.now;
      root.last = s.last_wire;
      root.last_copy = s.last_copy;
    }
    levels_.push_back({root});
    bool cut = false;
    for (size_t level = 0; level < p_.size(); ++level) {
      std::vector<BranchState> next;
      for (size_t k = 0; k < levels_[level].size(); ++k) {
        Expand(levels_[level][k], static_cast<int32_t>(k), next);
      }
      result.states += static_cast<int64_t>(next.size());
      left_ -= static_cast<int64_t>(next.size());
      Reduce(next);
      size_t room = left_ < 0 ? 4 : width_;  // when the work is used up, on to an end
      if (next.size() > room) {
        cut = true;
        next.resize(room);
      }
      for (BranchState& s : levels_[level]) {  // the way back is all that is needed of it
        s.end = {};
        s.lanes = {};
        s.placed = {};
      }
      if (next.empty()) break;
      levels_.push_back(std::move(next));
    }
    result.is_exhaustive = !cut;
    if (levels_.size() == p_.size() + 1) result.jobs = WayTo(0);
    return result;
  }

 private:
  std::vector<int32_t> WayTo(size_t k) const {
    std::vector<int32_t> jobs;
    for (size_t level = levels_.size() - 1; level > 0; --level) {
      jobs.push_back(levels_[level][k].job);
      k = static_cast<size_t>(levels_[level][k].parent);
    }
    std::reverse(jobs.begin(), jobs.end());
    return jobs;
  }

  bool IsReady(const BranchState& s, size_t n) const {
    if (Has(s.placed, n)) return false;
    return std::all_of(p_.jobs[n].preds.begin(), p_.jobs[n].preds.end(),
                       [&](int32_t q) { return Has(s.placed, static_cast<size_t>(q)); });
  }

  void Expand(const BranchState& s, int32_t parent, std::vector<BranchState>& next) {
    std::vector<size_t> ready;
    for (size_t n = 0; n < p_.size(); ++n) {
      if (IsReady(s, n)) ready.push_back(n);
    }
    for (size_t n : ready) {
      if (Has(s.frozen, n)) continue;
      BranchState child = After(s, n, ready);
      child.parent = parent;
      child.job = static_cast<int32_t>(n);
      child.bound = Bound(child);
      if (child.bound < best_) next.push_back(std::move(child));
    }
  }

  double Release(size_t n) const { return start_.release.empty() ? 0 : start_.release[n]; }
  double ReadyTime(const BranchState& s, size_t n) const {
    double at = std::max(s.now, Release(n));
    for (int32_t q : p_.jobs[n].preds) at = std::max(at, s.end[static_cast<size_t>(q)]);
    return at;
  }

  BranchState After(const BranchState& s, size_t n, const std::vector<size_t>& ready) const {
    BranchState c = s;
    const Job& job = p_.jobs[n];
    c.now = ReadyTime(s, n);
    if (job.stream == Stream::kCompute) {
      c.now += job.seconds;
      // A transfer that could be issued before this job is no better right behind it.
      for (size_t r : ready) {
        const Job& other = p_.jobs[r];
        if (r == n || !other.is_async || ReadyTime(s, r) > s.now) continue;
        bool has_slot = p_.metric == Metric::kQueues || other.stream == Stream::kCopy ||
                        *std::min_element(s.lanes.begin(), s.lanes.end()) <= s.now;
        if (has_slot) Insert(c.frozen, r);
      }
    } else {
      bool is_copy = job.stream == Stream::kCopy;
      auto lane = std::min_element(c.lanes.begin(), c.lanes.end());
      double& free = is_copy ? c.copy : *lane;
      double& last = is_copy ? c.last_copy : c.last;
      double begin = std::max({c.now, last, free});
      if (p_.metric == Metric::kInFlight) {
        begin = is_copy ? c.now : std::max(c.now, free);
        c.now = begin;
      }
      last = begin;
      free = std::max(free, begin + job.seconds);
      if (job.is_async) {
        c.end[n] = begin + job.seconds;
      } else {
        c.now = begin + job.seconds;
      }
      std::fill(c.frozen.begin(), c.frozen.end(), 0);
    }
    Insert(c.placed, n);
    for (int32_t q : job.preds) {
      auto k = static_cast<size_t>(q);
      if (c.end[k] > 0 && (c.end[k] <= c.now || AllPlaced(c, p_.jobs[k].succs))) c.end[k] = 0;
    }
    return c;
  }
  static bool AllPlaced(const BranchState& s, const std::vector<int32_t>& jobs) {
    return std::all_of(jobs.begin(), jobs.end(),
                       [&](int32_t q) { return Has(s.placed, static_cast<size_t>(q)); });
  }

  // Longest paths from here, and Jackson's bound for each stream.
  double Bound(const BranchState& s) {
    head_.assign(p_.size(), 0);
    compute_.clear();
    wire_.clear();
    double bound = s.now, wires = 0;
    double lane = *std::min_element(s.lanes.begin(), s.lanes.end());
    for (double l : s.lanes) bound = std::max(bound, l);
    bound = std::max(bound, s.copy);
    for (size_t n = 0; n < p_.size(); ++n) {
      const Job& job = p_.jobs[n];
      if (Has(s.placed, n)) {
        if (s.end[n] > 0) bound = std::max(bound, s.end[n] + p_.tail[n]);
        continue;
      }
      double at = std::max(s.now, Release(n));
      for (int32_t q : job.preds) {
        auto k = static_cast<size_t>(q);
        at = std::max(at, Has(s.placed, k) ? s.end[k] : head_[k] + p_.jobs[k].seconds);
      }
      if (job.stream == Stream::kWire) at = std::max({at, lane, s.last});
      head_[n] = at;
      bound = std::max(bound, at + job.seconds + p_.tail[n]);
      if (job.stream == Stream::kCompute) compute_.push_back({at, job.seconds, p_.tail[n]});
      if (job.stream == Stream::kWire) {
        wires += job.seconds;
        wire_.push_back({at, job.seconds, p_.tail[n]});
      }
    }
    if (bound >= best_) return bound;
    bound = std::max(bound, OneMachineBound(compute_));
    if (p_.overlap == 1) return std::max(bound, OneMachineBound(wire_));
    double sum = wires;
    for (double l : s.lanes) sum += std::max(l, s.now);
    return std::max(bound, sum / static_cast<double>(p_.overlap));
  }

  // No worse in every respect.
  static bool Dominates(const BranchState& a, const BranchState& b) {
    if (a.now > b.now || a.last > b.last || a.copy > b.copy || a.last_copy > b.last_copy) {
      return false;
    }
    for (size_t k = 0; k < a.lanes.size(); ++k) {
      if (a.lanes[k] > b.lanes[k]) return false;
    }
    for (size_t n = 0; n < a.end.size(); ++n) {
      if (a.end[n] > b.end[n] && a.end[n] > b.now) return false;
    }
    // What b may still issue, a may too.
    for (size_t w = 0; w < a.frozen.size(); ++w) {
      if (a.frozen[w] & ~b.frozen[w]) return false;
    }
    return true;
  }

  void Reduce(std::vector<BranchState>& states) const {
    for (BranchState& s : states) std::sort(s.lanes.begin(), s.lanes.end());
    std::sort(states.begin(), states.end(), [](const BranchState& a, const BranchState& b) {
      if (a.bound != b.bound) return a.bound < b.bound;
      if (a.now != b.now) return a.now < b.now;
      if (a.last != b.last) return a.last < b.last;
      return a.parent != b.parent ? a.parent < b.parent : a.job < b.job;
    });
    std::map<std::vector<uint64_t>, std::vector<size_t>> seen;  // ordered: the same in every run
    std::vector<BranchState> kept;
    for (BranchState& s : states) {
      std::vector<size_t>& same = seen[s.placed];
      bool dominated =
          std::any_of(same.begin(), same.end(), [&](size_t k) { return Dominates(kept[k], s); });
      if (dominated) continue;
      same.push_back(kept.size());
      kept.push_back(std::move(s));
      if (kept.size() > width_) break;
    }
    states = std::move(kept);
  }

  const Problem& p_;
  const BranchStart& start_;
  const double best_;
  const size_t width_;
  int64_t left_;
  std::vector<std::vector<BranchState>> levels_;
  std::vector<double> head_;
  std::vector<MachineJob> compute_, wire_;
};

}  // namespace

BranchResult BranchAndBound(const Problem& problem, double best, size_t width, int64_t states,
                            const BranchStart& start) {
  return BranchSearch(problem, best, width, states, start).Run();
}

}  // namespace weft::compiler::schedule
