// Branch and bound over disjunctions, as of job shops: which of two jobs of one stream is the
// earlier one. A target length leaves each job a time window; windows, pairs that fit one way only
// and edge finding decide most of the rest. Targets between the lower bound and the best known
// length, the hardest of those not ruled out in turn; restarts with ties at random where a target
// is neither met nor refuted within its share of the work.
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/schedule/search.h"
#include "program/work_bounds.h"

namespace weft::compiler::schedule {
namespace {

// Of a run before it is restarted, times Luby's sequence.
constexpr int64_t kFailures = program::WorkBounds::kCandidates;

using Bits = std::vector<uint64_t>;

struct Node {
  std::vector<double> head, tail;  // by job: least time before its begin and behind its end
  Bits before;                     // by job a set: jobs of its stream known to be earlier
  int32_t first = 0, second = 0;   // the decision that is still to be tried the other way
};

class Disjunctions {
 public:
  Disjunctions(const Problem& p, double bound, double best, int64_t work)
      : p_(p),
        n_(p.size()),
        words_((n_ + 63) / 64),
        low_(bound),
        high_(best),
        work_(work),
        weight_(n_, 1.0) {
    for (size_t n = 0; n < n_; ++n) {
      streams_[static_cast<size_t>(p.jobs[n].stream)].push_back(static_cast<int32_t>(n));
      seconds_.push_back(p.jobs[n].seconds);
    }
    MakeRoot();
  }

  DisjunctiveResult Run() {
    std::vector<double> begin;
    constexpr std::array kParts{0.0, 0.5, 0.25, 0.75};  // of the way down to the bound
    for (int64_t run = 0; work_ > 0 && !IsMet(); ++run) {
      double part = kParts[static_cast<size_t>(run) % kParts.size()];
      target_ = std::min(high_ - part * (high_ - low_), high_ * (1 - 2e-9));
      runs_ = run;
      switch (Search(kFailures * Luby(run / std::ssize(kParts) + 1))) {
        case Outcome::kFound:
          begin = found_;
          high_ = length_;
          break;
        case Outcome::kRefuted: low_ = std::max(low_, target_); break;
        case Outcome::kUnknown: break;
      }
    }
    DisjunctiveResult result;
    result.bound = IsMet() ? high_ : low_;
    if (!begin.empty()) result.jobs = OrderOfBegins(p_, begin);
    return result;
  }

 private:
  enum class Outcome : uint8_t { kFound, kRefuted, kUnknown };

  bool IsMet() const { return high_ - low_ <= 4e-9 * high_; }
  static int64_t Luby(int64_t k) {
    for (int64_t size = 1;; size = 2 * size + 1) {
      if (k == size) return (size + 1) / 2;
      if (k < size) return Luby(k - (size - 1) / 2);
    }
  }
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  bool Has(const Bits& sets, int32_t job, int32_t member) const {
    auto m = static_cast<size_t>(member);
    return sets[static_cast<size_t>(job) * words_ + m / 64] >> (m % 64) & 1;
  }
  // Adds the members of `other`'s set, and `other`.
  void Join(Bits& sets, int32_t job, int32_t other) const {
    auto *to = &sets[static_cast<size_t>(job) * words_],
         *from = &sets[static_cast<size_t>(other) * words_];
    for (size_t w = 0; w < words_; ++w) to[w] |= from[w];
    to[static_cast<size_t>(other) / 64] |= uint64_t{1} << (other % 64);
  }
  double Seconds(int32_t job) const { return seconds_[static_cast<size_t>(job)]; }

  void MakeRoot() {
    root_.head.assign(n_, 0);
    root_.tail = p_.tail;
    root_.before.assign(n_ * words_, 0);
    for (size_t n = 0; n < n_; ++n) {
      for (int32_t q : p_.jobs[n].preds) Join(root_.before, static_cast<int32_t>(n), q);
    }
    Bits own(words_ * 3, 0);
    for (size_t n = 0; n < n_; ++n) {
      own[static_cast<size_t>(p_.jobs[n].stream) * words_ + n / 64] |= uint64_t{1} << (n % 64);
    }
    for (size_t n = 0; n < n_; ++n) {
      for (size_t w = 0; w < words_; ++w) {
        root_.before[n * words_ + w] &= own[static_cast<size_t>(p_.jobs[n].stream) * words_ + w];
      }
    }
  }

  Outcome Search(int64_t failures) {
    stack_.assign(1, root_);
    if (!Propagate(stack_.back())) return Outcome::kRefuted;
    while (true) {
      if (work_ <= 0) return Outcome::kUnknown;
      Node& node = stack_.back();
      auto [first, second] = Choose(node);
      if (first < 0) {
        Keep(node);
        return Outcome::kFound;
      }
      Node next = node;
      node.first = second, node.second = first;
      Order(next, first, second);
      bool fits = Propagate(next);
      if (fits) stack_.push_back(std::move(next));
      while (!fits) {  // what is left of the node on top: the other way
        if (--failures < 0) return Outcome::kUnknown;
        Node& top = stack_.back();
        weight_[static_cast<size_t>(top.first)] += 1;
        weight_[static_cast<size_t>(top.second)] += 1;
        Order(top, top.first, top.second);
        fits = Propagate(top);
        if (!fits) stack_.pop_back();
        if (stack_.empty()) return Outcome::kRefuted;
      }
    }
  }

  void Keep(const Node& node) {
    found_ = node.head;
    length_ = 0;
    for (size_t n = 0; n < n_; ++n) length_ = std::max(length_, node.head[n] + seconds_[n]);
  }

  // The pair that leaves least room both ways; the way first that leaves more. Negative: all are
  // in order.
  std::pair<int32_t, int32_t> Choose(const Node& node) {
    double least = -1;
    std::pair<int32_t, int32_t> chosen{-1, -1};
    for (const std::vector<int32_t>& s : streams_) {
      for (size_t x = 0; x < s.size(); ++x) {
        for (size_t y = x + 1; y < s.size(); ++y) {
          int32_t a = s[x], b = s[y];
          if (Has(node.before, a, b) || Has(node.before, b, a)) continue;
          double ab = Room(node, a, b), ba = Room(node, b, a);
          double value = std::max(ab, 0.0) * std::max(ba, 0.0);
          if (runs_ > 0) value *= 1 + 0.5 * static_cast<double>(Next() >> 11) * 0x1p-53;
          value /= weight_[static_cast<size_t>(a)] + weight_[static_cast<size_t>(b)];
          if (least >= 0 && value >= least) continue;
          least = value;
          chosen = ab >= ba ? std::pair{a, b} : std::pair{b, a};
        }
      }
    }
    return chosen;
  }
  double Room(const Node& node, int32_t a, int32_t b) const {
    return target_ - node.head[static_cast<size_t>(a)] - Seconds(a) - Seconds(b) -
           node.tail[static_cast<size_t>(b)];
  }

  void Order(Node& node, int32_t first, int32_t second) const {
    if (Has(node.before, second, first)) return;
    Join(node.before, second, first);
    for (int32_t other :
         streams_[static_cast<size_t>(p_.jobs[static_cast<size_t>(first)].stream)]) {
      if (Has(node.before, other, second)) Join(node.before, other, second);
    }
  }

  // False: the target cannot be met.
  bool Propagate(Node& node) {
    const double limit = target_ * (1 + 1e-9);
    for (bool changed = true; changed;) {
      changed = false;
      if (work_ <= 0) return true;
      Paths(node, changed);
      for (size_t n = 0; n < n_; ++n) {
        if (node.head[n] + seconds_[n] + node.tail[n] > limit) return false;
      }
      for (const std::vector<int32_t>& s : streams_) {
        if (!Pairs(node, s, limit, changed)) return false;
      }
      if (changed) continue;
      for (const std::vector<int32_t>& s : streams_) {
        if (!EdgeFinding(s, node.head, node.tail, limit, changed) ||
            !EdgeFinding(s, node.tail, node.head, limit, changed)) {
          return false;
        }
      }
    }
    return true;
  }

  static void Raise(double& value, double least, bool& changed) {
    if (value >= least - 1e-12 * std::abs(least)) return;
    value = least;
    changed = true;
  }

  // Longest paths; what is known to be earlier in a stream takes its time one after the other.
  void Paths(Node& node, bool& changed) {
    for (size_t n = 0; n < n_; ++n) {
      for (int32_t q : p_.jobs[n].preds) {
        auto k = static_cast<size_t>(q);
        Raise(node.head[n], node.head[k] + seconds_[k], changed);
      }
    }
    for (size_t n = n_; n-- > 0;) {
      for (int32_t q : p_.jobs[n].succs) {
        auto k = static_cast<size_t>(q);
        Raise(node.tail[n], node.tail[k] + seconds_[k], changed);
      }
    }
    for (const std::vector<int32_t>& s : streams_) {
      Chains(s, node.head, changed, [&](int32_t a, int32_t b) { return Has(node.before, a, b); });
      Chains(s, node.tail, changed, [&](int32_t a, int32_t b) { return Has(node.before, b, a); });
    }
  }
  // `has(a, b)`: b is done before a, in the direction of these times.
  template <class Relation>
  void Chains(const std::vector<int32_t>& s, std::vector<double>& head, bool& changed,
              const Relation& has) {
    SortBy(s, head);
    raised_.assign(s.size(), 0);  // the order is that of the times before any of them is raised
    for (size_t k = 0; k < s.size(); ++k) {
      double& end = raised_[k];
      for (int32_t other : sorted_) {
        if (!has(sorted_[k], other)) continue;
        end = std::max(end, head[static_cast<size_t>(other)]) + Seconds(other);
      }
    }
    for (size_t k = 0; k < s.size(); ++k) {
      Raise(head[static_cast<size_t>(sorted_[k])], raised_[k], changed);
    }
    work_ -= std::ssize(s) * std::ssize(s);
  }
  void SortBy(const std::vector<int32_t>& s, const std::vector<double>& key) {
    sorted_ = s;
    std::sort(sorted_.begin(), sorted_.end(), [&](int32_t a, int32_t b) {
      double x = key[static_cast<size_t>(a)], y = key[static_cast<size_t>(b)];
      return x != y ? x < y : a < b;
    });
  }

  bool Pairs(Node& node, const std::vector<int32_t>& s, double limit, bool& changed) {
    const double slack = limit - target_;
    for (size_t x = 0; x < s.size(); ++x) {
      for (size_t y = x + 1; y < s.size(); ++y) {
        if (Has(node.before, s[x], s[y]) || Has(node.before, s[y], s[x])) continue;
        bool forward = Room(node, s[x], s[y]) >= -slack, back = Room(node, s[y], s[x]) >= -slack;
        if (forward && back) continue;
        if (!forward && !back) return false;
        forward ? Order(node, s[x], s[y]) : Order(node, s[y], s[x]);
        changed = true;
      }
    }
    work_ -= std::ssize(s) * std::ssize(s) / 2;
    return true;
  }

  // Jobs that cannot stand among or before others, which have to end by a deadline, come after
  // them: O(n^2), for all deadlines (Nuijten). With heads and tails swapped it raises tails.
  bool EdgeFinding(const std::vector<int32_t>& s, std::vector<double>& head,
                   const std::vector<double>& tail, double limit, bool& changed) {
    SortBy(s, head);
    raised_.assign(s.size(), 0);
    latest_.resize(s.size());
    const double slack = limit - target_;
    for (int32_t key : s) {
      const double rest = tail[static_cast<size_t>(key)], deadline = target_ - rest + slack;
      double sum = 0, end = 0, highest = 0;
      for (size_t k = sorted_.size(); k-- > 0;) {
        auto job = static_cast<size_t>(sorted_[k]);
        if (tail[job] >= rest) {
          sum += seconds_[job];
          end = std::max(end, head[job] + sum);
          if (end > deadline) return false;
        }
        latest_[k] = end;
      }
      for (size_t k = 0; k < sorted_.size(); ++k) {
        auto job = static_cast<size_t>(sorted_[k]);
        if (tail[job] >= rest) {
          highest = std::max(highest, head[job] + sum);
          sum -= seconds_[job];
          continue;
        }
        if (head[job] + sum + seconds_[job] > deadline)
          raised_[k] = std::max(raised_[k], latest_[k]);
        if (highest + seconds_[job] > deadline) raised_[k] = std::max(raised_[k], end);
      }
    }
    for (size_t k = 0; k < sorted_.size(); ++k) {
      Raise(head[static_cast<size_t>(sorted_[k])], raised_[k], changed);
    }
    work_ -= 2 * std::ssize(s) * std::ssize(s);
    return true;
  }

  const Problem& p_;
  const size_t n_, words_;
  double low_, high_, target_ = 0, length_ = 0;
  int64_t work_, runs_ = 0;
  std::vector<double> weight_;  // by job: failures that it took part in
  std::array<std::vector<int32_t>, 3> streams_;
  std::vector<double> seconds_, found_, raised_, latest_;
  std::vector<int32_t> sorted_;
  std::vector<Node> stack_;
  Node root_;
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace

DisjunctiveResult SearchDisjunctions(const Problem& problem, double bound, double best,
                                     int64_t work) {
  return Disjunctions(problem, bound, best, work).Run();
}

}  // namespace weft::compiler::schedule
