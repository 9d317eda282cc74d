// Tabu search over critical blocks, as of job shops. One order a stream makes a graph; its longest
// path is the length, and only moves within a run of jobs of one stream on that path can shorten
// it. The best such move is made even if it lengthens, and may not be undone for a while. Where
// that leads nowhere it goes on from a changed order, and then from another one altogether.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "compiler/schedule/search.h"
#include "program/work_bounds.h"

namespace weft::compiler::schedule {
namespace {

// Iterations that a move may not be undone. Together with ties at random and starts near the
// module's order, 5 to 15 leave one run of hard graphs in 70 more than 1 % off; 2 to 7, without
// these, a fifth of them; 10 to 30, where blocks are stirred and not put in order, one in 20.
constexpr uint64_t kLeastTenure = 5, kMostTenure = 15;
// Iterations without anything shorter; kicks that did not help, then from somewhere else.
constexpr int64_t kPatience = program::WorkBounds::kBlock;
constexpr int64_t kMostKicks = program::WorkBounds::kAlternatives;
constexpr uint64_t kKick = 12;  // moves at random, or up to twice as many
// Places of a stream within which a cycle is looked for.
constexpr int64_t kNear = program::WorkBounds::kCandidates;
constexpr int32_t kNoJob = -1;

class CriticalBlocks {
 public:
  CriticalBlocks(const Problem& p, const MoveOptions& options)
      : p_(p),
        options_(options),
        n_(p.size()),
        place_(n_),
        head_(n_),
        tail_(n_),
        forbidden_(n_ * n_, 0),
        waiting_(n_),
        seen_(n_, 0) {}

  // Begins of jobs of the shortest that was found.
  std::vector<double> Run(const std::vector<int32_t>& order) {
    for (int32_t job : order) streams_[Of(job)].push_back(job);
    Number();
    double shortest = Time(), here = shortest;
    std::vector<double> best = head_;
    std::array<std::vector<int32_t>, 3> kept = streams_;  // the shortest since the last start
    int64_t since = 0, kicks = 0;
    while (work_ < options_.work && shortest > options_.bound * (1 + 1e-9)) {
      ++iteration_;
      const bool moved = Step();
      const double length = Time();
      ++since;
      if (length < here * (1 - 1e-12)) here = length, kept = streams_, since = kicks = 0;
      if (length < shortest * (1 - 1e-12)) shortest = length, best = head_;
      if (moved && since < kPatience) continue;
      since = 0;
      if (++kicks <= kMostKicks) {
        streams_ = kept;
        Number();
        Kick();
      } else {
        kicks = 0;
        StartElsewhere();
        here = Time();
        kept = streams_;
      }
    }
    return best;
  }

 private:
  struct Shift {
    int32_t stream = 0;
    int64_t from = 0, to = 0;
    double length = 0;  // an estimate
  };

  size_t Of(int32_t job) const { return static_cast<size_t>(At(job).stream); }
  const Job& At(int32_t job) const { return p_.jobs[static_cast<size_t>(job)]; }
  double Seconds(int32_t job) const { return At(job).seconds; }
  double Head(int32_t job) const { return job < 0 ? 0 : head_[static_cast<size_t>(job)]; }
  double End(int32_t job) const { return job < 0 ? 0 : Head(job) + Seconds(job); }
  // The longest way from its begin, and from its end.
  double From(int32_t job) const { return job < 0 ? 0 : Tail(job) + Seconds(job); }
  double Tail(int32_t job) const { return tail_[static_cast<size_t>(job)]; }
  int64_t& Forbidden(int32_t a, int32_t b) {
    return forbidden_[static_cast<size_t>(a) * n_ + static_cast<size_t>(b)];
  }
  int32_t Before(int32_t job) const { return Neighbour(job, -1); }
  int32_t Behind(int32_t job) const { return Neighbour(job, 1); }
  int32_t Neighbour(int32_t job, int64_t by) const {
    const std::vector<int32_t>& s = streams_[Of(job)];
    int64_t k = place_[static_cast<size_t>(job)] + by;
    return k < 0 || k >= std::ssize(s) ? kNoJob : s[static_cast<size_t>(k)];
  }
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

  void Number() {
    for (const std::vector<int32_t>& s : streams_) {
      for (size_t k = 0; k < s.size(); ++k) {
        place_[static_cast<size_t>(s[k])] = static_cast<int64_t>(k);
      }
    }
  }

  // Heads and tails of all jobs; the length. Negative: the orders contradict each other.
  double Time() {
    topological_.clear();
    for (size_t n = 0; n < n_; ++n) {
      auto job = static_cast<int32_t>(n);
      waiting_[n] = static_cast<int32_t>(At(job).preds.size()) + (Before(job) != kNoJob);
      if (waiting_[n] == 0) topological_.push_back(job);
    }
    for (size_t k = 0; k < topological_.size(); ++k) {
      int32_t job = topological_[k];
      double at = End(Before(job));
      for (int32_t q : At(job).preds) at = std::max(at, End(q));
      head_[static_cast<size_t>(job)] = at;
      auto arrive = [&](int32_t s) {
        if (--waiting_[static_cast<size_t>(s)] == 0) topological_.push_back(s);
      };
      for (int32_t s : At(job).succs) arrive(s);
      if (int32_t next = Behind(job); next != kNoJob) arrive(next);
    }
    work_ += static_cast<int64_t>(n_) * 2;
    if (topological_.size() < n_) return -1;
    double length = 0;
    for (size_t k = n_; k-- > 0;) {
      int32_t job = topological_[k];
      double tail = From(Behind(job));
      for (int32_t s : At(job).succs) tail = std::max(tail, From(s));
      tail_[static_cast<size_t>(job)] = tail;
      length = std::max(length, End(job) + tail);
    }
    return length;
  }

  // One longest path, at random where there are several.
  std::vector<int32_t> CriticalPath(double length) {
    double eps = 1e-9 * length;
    std::vector<int32_t> path, from;
    for (size_t n = 0; n < n_; ++n) {
      auto job = static_cast<int32_t>(n);
      if (Head(job) <= eps && From(job) >= length - eps) from.push_back(job);
    }
    while (!from.empty()) {
      int32_t job = from[Next() % from.size()];
      path.push_back(job);
      from.clear();
      auto consider = [&](int32_t s) {
        if (std::abs(Head(s) - End(job)) <= eps && Head(s) + From(s) >= length - eps) {
          from.push_back(s);
        }
      };
      for (int32_t s : At(job).succs) consider(s);
      if (int32_t next = Behind(job); next != kNoJob) consider(next);
    }
    return path;
  }

  // False: nothing can be moved.
  bool Step() {
    double length = 0;
    for (size_t n = 0; n < n_; ++n) {
      length = std::max(length, Head(static_cast<int32_t>(n)) + From(static_cast<int32_t>(n)));
    }
    moves_.clear();
    std::vector<int32_t> path = CriticalPath(length);
    for (size_t begin = 0, end = 0; begin < path.size(); begin = end) {
      end = begin + 1;
      while (end < path.size() && Behind(path[end - 1]) == path[end]) ++end;
      if (end - begin > 1) Propose(std::span(path).subspan(begin, end - begin));
    }
    if (moves_.empty()) return false;
    const Shift* best = nullptr;
    uint64_t ties = 1;  // on a plateau any of them, so that it does not go in circles
    for (const Shift& m : moves_) {
      if (IsForbidden(m)) continue;
      if (best == nullptr || m.length < best->length * (1 - 1e-12)) {
        best = &m, ties = 1;
      } else if (m.length <= best->length * (1 + 1e-12) && Next() % ++ties == 0) {
        best = &m;
      }
    }
    Make(best != nullptr ? *best : moves_[Next() % moves_.size()]);
    return true;
  }

  // Jobs to the ends of a block, and its ends into it: what stays inside shortens nothing.
  void Propose(std::span<const int32_t> block) {
    int64_t first = place_[static_cast<size_t>(block.front())];
    int64_t last = first + std::ssize(block) - 1;
    auto stream = static_cast<int32_t>(Of(block.front()));
    for (int64_t k = first; k < last; ++k) {
      Consider({stream, k, last});
      if (k + 1 < last) Consider({stream, first, k + 1});
    }
    for (int64_t k = first + 1; k <= last; ++k) {
      Consider({stream, k, first});
      if (k - 1 > first) Consider({stream, last, k - 1});
    }
  }

  // Only moves that close no cycle. Most are seen to by times: what begins a longer way to the end
  // is not behind what begins a shorter one. Of the others those near by are looked at.
  void Consider(Shift m) {
    const std::vector<int32_t>& s = streams_[static_cast<size_t>(m.stream)];
    int32_t moved = s[static_cast<size_t>(m.from)], other = s[static_cast<size_t>(m.to)];
    const bool is_near = std::abs(m.from - m.to) <= kNear;
    if (m.from < m.to) {
      for (int32_t q : At(moved).succs) {
        if (From(q) >= From(other) && (!is_near || Reaches(q, other))) return;
      }
    } else {
      for (int32_t q : At(moved).preds) {
        if (End(q) >= End(other) && (!is_near || Reaches(other, q))) return;
      }
    }
    m.length = Estimate(m);
    moves_.push_back(m);
  }

  bool Reaches(int32_t from, int32_t to) {
    ++stamp_;
    reached_.assign(1, from);
    while (!reached_.empty()) {
      int32_t job = reached_.back();
      reached_.pop_back();
      if (job == to) return true;
      // What stands before it ends before it begins, and has a longer way to the end.
      if (End(job) > Head(to) * (1 + 1e-12) || From(job) < From(to) ||
          seen_[static_cast<size_t>(job)] == stamp_) {
        continue;
      }
      seen_[static_cast<size_t>(job)] = stamp_;
      ++work_;
      reached_.insert(reached_.end(), At(job).succs.begin(), At(job).succs.end());
      if (int32_t next = Behind(job); next != kNoJob) reached_.push_back(next);
    }
    return false;
  }

  // The longest path through what is moved, heads before it and tails behind it as they are.
  double Estimate(const Shift& m) {
    const std::vector<int32_t>& s = streams_[static_cast<size_t>(m.stream)];
    int64_t low = std::min(m.from, m.to), high = std::max(m.from, m.to);
    moved_.assign(s.begin() + low, s.begin() + high + 1);
    if (m.from < m.to) {
      std::rotate(moved_.begin(), moved_.begin() + 1, moved_.end());
    } else {
      std::rotate(moved_.begin(), moved_.end() - 1, moved_.end());
    }
    begins_.clear();
    double at = low > 0 ? End(s[static_cast<size_t>(low) - 1]) : 0;
    for (int32_t job : moved_) {
      for (int32_t q : At(job).preds) at = std::max(at, End(q));
      begins_.push_back(at);
      at += Seconds(job);
    }
    double rest = high + 1 < std::ssize(s) ? From(s[static_cast<size_t>(high) + 1]) : 0, length = 0;
    for (size_t k = moved_.size(); k-- > 0;) {
      for (int32_t q : At(moved_[k]).succs) rest = std::max(rest, From(q));
      rest += Seconds(moved_[k]);
      length = std::max(length, begins_[k] + rest);
    }
    work_ += std::ssize(moved_);
    return length;
  }

  bool IsForbidden(const Shift& m) {
    const std::vector<int32_t>& s = streams_[static_cast<size_t>(m.stream)];
    int32_t moved = s[static_cast<size_t>(m.from)];
    for (int64_t k = m.from; k != m.to; k += m.from < m.to ? 1 : -1) {
      int32_t other = s[static_cast<size_t>(k + (m.from < m.to ? 1 : -1))];
      if ((m.from < m.to ? Forbidden(other, moved) : Forbidden(moved, other)) > iteration_) {
        return true;
      }
    }
    return false;
  }

  void Make(const Shift& m) {
    std::vector<int32_t>& s = streams_[static_cast<size_t>(m.stream)];
    int32_t moved = s[static_cast<size_t>(m.from)];
    auto until =
        iteration_ + static_cast<int64_t>(kLeastTenure + Next() % (kMostTenure - kLeastTenure + 1));
    auto begin = s.begin();
    if (m.from < m.to) {
      for (int64_t k = m.from + 1; k <= m.to; ++k) {
        Forbidden(moved, s[static_cast<size_t>(k)]) = until;
      }
      std::rotate(begin + m.from, begin + m.from + 1, begin + m.to + 1);
    } else {
      for (int64_t k = m.to; k < m.from; ++k) Forbidden(s[static_cast<size_t>(k)], moved) = until;
      std::rotate(begin + m.to, begin + m.from, begin + m.from + 1);
    }
    for (int64_t k = std::min(m.from, m.to); k <= std::max(m.from, m.to); ++k) {
      place_[static_cast<size_t>(s[static_cast<size_t>(k)])] = k;
    }
  }

  // A few moves at random, so that it goes another way this time.
  void Kick() {
    std::fill(forbidden_.begin(), forbidden_.end(), 0);
    Time();
    for (uint64_t left = kKick + Next() % kKick; left > 0; --left) {
      auto job = static_cast<int32_t>(Next() % n_);
      int32_t next = Behind(job);
      if (next == kNoJob) continue;
      Shift swap{static_cast<int32_t>(Of(job)), place_[static_cast<size_t>(job)],
                 place_[static_cast<size_t>(next)]};
      moves_.clear();
      Consider(swap);
      if (moves_.empty()) continue;
      Make(swap);
      Time();
    }
  }

  // The module's order, then orders near it: people and partitioners write programs that nearly
  // work, and from random orders the search ends in worse places.
  void StartElsewhere() {
    std::fill(forbidden_.begin(), forbidden_.end(), 0);
    const auto odds = static_cast<uint64_t>(starts_ % 4 == 3 ? kNear / 8 : kNear);
    for (std::vector<int32_t>& s : streams_) s.clear();
    std::vector<int32_t> ready;
    for (size_t n = 0; n < n_; ++n) {
      waiting_[n] = static_cast<int32_t>(p_.jobs[n].preds.size());
      if (waiting_[n] == 0) ready.push_back(static_cast<int32_t>(n));
    }
    while (!ready.empty()) {
      const bool strays = starts_ > 0 && Next() % odds == 0;
      auto next = strays ? ready.begin() + static_cast<int64_t>(Next() % ready.size())
                         : std::min_element(ready.begin(), ready.end());
      std::iter_swap(next, ready.end() - 1);
      int32_t job = ready.back();
      ready.pop_back();
      streams_[Of(job)].push_back(job);
      for (int32_t s : At(job).succs) {
        if (--waiting_[static_cast<size_t>(s)] == 0) ready.push_back(s);
      }
    }
    Number();
    ++starts_;
  }

  const Problem& p_;
  const MoveOptions& options_;
  const size_t n_;
  std::array<std::vector<int32_t>, 3> streams_;  // the jobs of each, in order
  std::vector<int64_t> place_;                   // in its stream
  std::vector<double> head_, tail_, begins_;
  std::vector<int64_t> forbidden_;  // of pairs: the iteration until which a may not go before b
  std::vector<int32_t> waiting_, topological_, moved_, reached_;
  std::vector<Shift> moves_;
  std::vector<int64_t> seen_;  // by job: the last search that came by
  int64_t iteration_ = 0, work_ = 0, stamp_ = 0, starts_ = 0;
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace

bool HasDisjunctions(const Problem& problem) {
  return problem.overlap == 1 && problem.metric == Metric::kQueues && !problem.HasMoreRules() &&
         std::all_of(problem.jobs.begin(), problem.jobs.end(), [](const Job& job) {
           return job.is_async == (job.stream != Stream::kCompute);
         });
}

std::vector<int32_t> ImproveByCriticalBlocks(const Problem& problem,
                                             const std::vector<int32_t>& order,
                                             const MoveOptions& options) {
  if (!HasDisjunctions(problem)) return {};
  return OrderOfBegins(problem, CriticalBlocks(problem, options).Run(order));
}

}  // namespace weft::compiler::schedule
