// Waits of an order are filled with jobs from behind them, within a memory limit. A job that is
// pulled forward holds what it makes for longer: the bytes live at each place of the order are kept
// in a tree of ranges, so that a pull is refused before it is tried.
#include <algorithm>
#include <limits>

#include "compiler/schedule/search.h"
#include "program/work_bounds.h"

namespace weft::compiler::schedule {
namespace {

constexpr size_t kMostPulled = program::WorkBounds::kAlternatives;  // jobs that one fill may need
// Fills of a wait that are tried against memory.
constexpr size_t kMostRefused = program::WorkBounds::kAlternatives / 2;
constexpr double kPrefetch = 2;  // transfers are issued so many times their length ahead
// Looked at, in all and of a small problem.
constexpr int64_t kScannedPerJob = program::WorkBounds::kCandidates;
constexpr int64_t kLeastScanned = 5 * program::WorkBounds::kVisits;

// Bytes by place; adding to a range and asking for the most of one take O(log n).
class LiveTree {
 public:
  explicit LiveTree(const std::vector<int64_t>& values) : size_(values.size()) {
    most_.resize(2 * size_ + 2, 0);
    add_.resize(2 * size_ + 2, 0);
    for (size_t k = 0; k < size_; ++k) most_[size_ + k] = values[k];
    for (size_t k = size_; k-- > 1;) most_[k] = std::max(most_[2 * k], most_[2 * k + 1]);
  }
  void Add(int64_t begin, int64_t end, int64_t bytes) {
    if (begin >= end || bytes == 0) return;
    size_t l = static_cast<size_t>(begin) + size_, r = static_cast<size_t>(end) + size_;
    size_t first = l, last = r - 1;
    for (; l < r; l /= 2, r /= 2) {
      if (l % 2) Apply(l++, bytes);
      if (r % 2) Apply(--r, bytes);
    }
    Rebuild(first);
    Rebuild(last);
  }
  int64_t Most() const { return size_ == 0 ? 0 : size_ == 1 ? most_[1] : most_[1]; }

 private:
  void Apply(size_t at, int64_t bytes) {
    most_[at] += bytes;
    if (at < size_) add_[at] += bytes;
  }
  void Rebuild(size_t at) {
    for (at /= 2; at >= 1; at /= 2) {
      most_[at] = std::max(most_[2 * at], most_[2 * at + 1]) + add_[at];
    }
  }
  size_t size_;
  std::vector<int64_t> most_, add_;
};

class Filler {
 public:
  Filler(const Problem& p, const std::vector<int32_t>& order, const FillOptions& options)
      : p_(p),
        options_(options),
        order_(order),
        place_(p.size()),
        begin_(p.size() + 1),
        end_(p.size()),
        pulled_(p.size(), -1),
        mark_(p.size(), 0),
        live_(Run()),
        before_(p.size() + 1) {
    readers_.resize(p.bytes.size());
    for (size_t n = 0; n < p.size(); ++n) {
      for (int32_t b : p.jobs[n].reads) readers_[static_cast<size_t>(b)].push_back(Number(n));
    }
  }

  std::vector<int32_t> Fill() {
    std::sort(waits_.begin(), waits_.end());
    int64_t budget = kLeastScanned + kScannedPerJob * static_cast<int64_t>(p_.size());
    scan_ = waits_.empty() ? 0 : budget / static_cast<int64_t>(waits_.size());
    for (const auto& [wait, at] : waits_) FillWait(at, -wait);
    std::vector<int32_t> result;
    result.reserve(order_.size());
    for (size_t k = 0; k <= order_.size(); ++k) {
      for (int32_t job : before_[k]) result.push_back(job);
      if (k < order_.size() && pulled_[static_cast<size_t>(order_[k])] < 0) {
        result.push_back(order_[k]);
      }
    }
    return result;
  }

  int64_t work() const { return collected_; }

 private:
  static int32_t Number(size_t n) { return static_cast<int32_t>(n); }
  const Job& At(int32_t job) const { return p_.jobs[static_cast<size_t>(job)]; }
  int64_t Place(int32_t job) const { return place_[static_cast<size_t>(job)]; }

  // The order as it is: begins, waits, bytes at each place.
  std::vector<int64_t> Run() {
    Walker walker(p_);
    std::vector<int64_t> live(order_.size());
    double most = 0;
    for (size_t k = 0; k < order_.size(); ++k) {
      int32_t job = order_[k];
      place_[static_cast<size_t>(job)] = static_cast<int64_t>(k);
      double wait = walker.SlotTime(job) - walker.now();
      if (wait > options_.bound * 1e-6) waits_.emplace_back(-wait, static_cast<int64_t>(k));
      most = std::max(most, wait);
      live[k] = walker.live() + walker.Increase(job);
      walker.Place(job);
      begin_[k] = walker.now() - (At(job).is_async ? 0 : At(job).seconds);
      end_[static_cast<size_t>(job)] = walker.end(job);
    }
    begin_.back() = walker.length();
    return live;
  }

  struct Pull {
    std::vector<int32_t> jobs;  // in the order in which they are to run; transfers are prefetched
    double seconds = 0;         // of compute
    double rate = 0;            // bytes a second
    int64_t span = 0;
  };

  void FillWait(int64_t at, double wait) {
    Advance(at);
    double left = wait;
    std::vector<Pull> found = Candidates(at, wait);
    std::sort(found.begin(), found.end(), [](const Pull& a, const Pull& b) {
      if (a.rate != b.rate) return a.rate < b.rate;
      return a.span != b.span ? a.span < b.span : a.jobs < b.jobs;
    });
    size_t refused = 0;
    for (Pull& pull : found) {
      if (left < 0.05 * wait || refused >= kMostRefused) return;
      // An earlier one may have had some of its jobs.
      std::erase_if(pull.jobs, [&](int32_t job) { return pulled_[static_cast<size_t>(job)] >= 0; });
      double seconds = 0;
      for (int32_t job : pull.jobs) seconds += At(job).is_async ? 0 : At(job).seconds;
      if (seconds > left * options_.overshoot || pull.jobs.empty()) continue;
      if (Apply(pull, at)) {
        left -= seconds;
      } else {
        ++refused;
      }
    }
  }

  // The transfer that is waited for is issued as soon as its operands are there.
  void Advance(int64_t at) {
    int32_t late = -1;
    for (int32_t q : At(order_[static_cast<size_t>(at)]).preds) {
      if (late < 0 || end_[static_cast<size_t>(q)] > end_[static_cast<size_t>(late)]) late = q;
    }
    if (late < 0 || !At(late).is_async || pulled_[static_cast<size_t>(late)] >= 0) return;
    int64_t to = 0;
    for (int32_t q : At(late).preds) to = std::max(to, Now(q) + 1);
    double ready = 0;
    for (int32_t q : At(late).preds) ready = std::max(ready, end_[static_cast<size_t>(q)]);
    double due = begin_[static_cast<size_t>(at)] - kPrefetch * At(late).seconds;
    auto from = std::lower_bound(begin_.begin(), begin_.end() - 1, std::max(ready, due));
    to = std::max(to, static_cast<int64_t>(from - begin_.begin()));
    if (to < Place(late)) Move({late}, {to});
  }

  // Where a job stands by now.
  int64_t Now(int32_t job) const {
    int64_t pulled = pulled_[static_cast<size_t>(job)];
    return pulled >= 0 ? pulled : Place(job);
  }

  std::vector<Pull> Candidates(int64_t at, double wait) {
    std::vector<Pull> found;
    auto last = std::min(static_cast<int64_t>(order_.size()), at + scan_);
    for (int64_t k = at + 1; k < last; ++k) {
      int32_t job = order_[static_cast<size_t>(k)];
      const Job& j = At(job);
      if (j.stream != Stream::kCompute || pulled_[static_cast<size_t>(job)] >= 0) continue;
      if (j.seconds < 0.02 * wait || j.seconds > wait * options_.overshoot) continue;
      Pull pull;
      ++stamp_;
      if (!Collect(job, at, pull)) continue;
      std::sort(pull.jobs.begin(), pull.jobs.end(),
                [&](int32_t a, int32_t b) { return Place(a) < Place(b); });
      int64_t bytes = 0;
      for (int32_t member : pull.jobs) {
        for (int32_t b : At(member).makes) bytes += p_.bytes[static_cast<size_t>(b)];
        if (!At(member).is_async) pull.seconds += At(member).seconds;
      }
      for (int32_t b : j.reads) {
        if (LastReader(b) == Place(job)) bytes -= p_.bytes[static_cast<size_t>(b)];
      }
      pull.rate = static_cast<double>(bytes) / pull.seconds;
      pull.span = k - at;
      found.push_back(std::move(pull));
    }
    return found;
  }

  // A job with everything it needs that does not stand before `at`.
  bool Collect(int32_t job, int64_t at, Pull& pull) {
    ++collected_;
    if (mark_[static_cast<size_t>(job)] == stamp_) return true;
    mark_[static_cast<size_t>(job)] = stamp_;
    if (pulled_[static_cast<size_t>(job)] >= 0 || pull.jobs.size() >= kMostPulled) return false;
    if (At(job).stream != Stream::kCompute && !At(job).is_async) return false;
    pull.jobs.push_back(job);
    bool is_transfer = At(job).is_async;
    int64_t here = is_transfer ? PrefetchPlace(job, at) : at;
    for (int32_t q : At(job).preds) {
      if (Now(q) < here || (!is_transfer && pulled_[static_cast<size_t>(q)] == here)) {
        // It has run; a transfer has to have ended, too.
        if (At(q).is_async && pulled_[static_cast<size_t>(q)] < 0 &&
            end_[static_cast<size_t>(q)] > begin_[static_cast<size_t>(here)]) {
          return false;
        }
        continue;
      }
      if (is_transfer || !Collect(q, at, pull)) return false;
    }
    return true;
  }
  int64_t PrefetchPlace(int32_t job, int64_t at) const {
    double due = begin_[static_cast<size_t>(at)] - kPrefetch * At(job).seconds;
    auto place = std::lower_bound(begin_.begin(), begin_.end() - 1, due);
    return std::min(static_cast<int64_t>(place - begin_.begin()), at);
  }

  int64_t LastReader(int32_t buffer) const {
    auto b = static_cast<size_t>(buffer);
    if (p_.readers[b] > static_cast<int32_t>(readers_[b].size())) {  // it is kept
      return static_cast<int64_t>(order_.size());
    }
    int64_t last = -1;
    for (int32_t reader : readers_[b]) last = std::max(last, Now(reader));
    return last;
  }

  bool Apply(const Pull& pull, int64_t at) {
    std::vector<int64_t> to;
    for (int32_t job : pull.jobs) to.push_back(At(job).is_async ? PrefetchPlace(job, at) : at);
    return Move(pull.jobs, to);
  }

  // False: it would take too much memory, and nothing is changed.
  bool Move(const std::vector<int32_t>& jobs, const std::vector<int64_t>& to) {
    std::vector<Change> changes;
    for (size_t k = 0; k < jobs.size(); ++k) {
      int32_t job = jobs[k];
      std::vector<int64_t> last;
      for (int32_t b : At(job).reads) last.push_back(LastReader(b));
      for (int32_t b : At(job).makes) {
        changes.push_back({to[k], Place(job), p_.bytes[static_cast<size_t>(b)]});
      }
      pulled_[static_cast<size_t>(job)] = to[k];
      for (size_t i = 0; i < last.size(); ++i) {
        int32_t b = At(job).reads[i];
        int64_t now = std::max(LastReader(b), to[k]);
        auto size = static_cast<int64_t>(order_.size());
        changes.push_back(
            {now + 1, std::min(last[i] + 1, size), -p_.bytes[static_cast<size_t>(b)]});
      }
    }
    for (const Change& c : changes) live_.Add(c.begin, c.end, c.bytes);
    if (options_.memory_limit > 0 && live_.Most() > options_.memory_limit) {
      for (const Change& c : changes) live_.Add(c.begin, c.end, -c.bytes);
      for (int32_t job : jobs) pulled_[static_cast<size_t>(job)] = -1;
      return false;
    }
    for (size_t k = 0; k < jobs.size(); ++k) {
      before_[static_cast<size_t>(to[k])].push_back(jobs[k]);
    }
    return true;
  }

  struct Change {
    int64_t begin, end, bytes;
  };
  const Problem& p_;
  const FillOptions& options_;
  const std::vector<int32_t>& order_;
  std::vector<int64_t> place_;
  std::vector<double> begin_, end_;                // by place; by job
  std::vector<std::pair<double, int64_t>> waits_;  // the longest first, negative; where
  std::vector<int64_t> pulled_;                    // by job: to where; -1: not
  std::vector<int64_t> mark_;
  LiveTree live_;
  std::vector<std::vector<int32_t>> before_;  // by place: what was pulled there
  std::vector<std::vector<int32_t>> readers_;
  int64_t scan_ = 0, stamp_ = 0, collected_ = 0;
};

}  // namespace

std::vector<int32_t> FillWaits(const Problem& problem, const std::vector<int32_t>& order,
                               const FillOptions& options, int64_t* work) {
  Filler filler(problem, order, options);
  std::vector<int32_t> filled = filler.Fill();
  *work += filler.work() + 2 * static_cast<int64_t>(problem.size());
  return filled;
}

}  // namespace weft::compiler::schedule
