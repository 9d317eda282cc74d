// Local search: one job after the other is moved elsewhere in the order. Slightly longer orders are
// accepted at first, fewer and fewer towards the end, so that it does not stay where it began. A
// move is run from where it changes something to where everything is as before.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "compiler/schedule/search.h"
#include "program/work_bounds.h"

namespace weft::compiler::schedule {
namespace {

// Places that a job is moved, but for one in four.
constexpr int64_t kFarthest = program::WorkBounds::kAlternatives;
constexpr int64_t kWalkWork = 10;    // a walk takes so many times as long as a move, a job
constexpr double kSameTime = 1e-14;  // seconds

// Of a job what a move looks at, side by side in memory: most of the time goes into looking.
struct LeanJob {
  double seconds;
  uint32_t preds, succs;  // where they begin in the list of all
  bool is_async, is_compute, is_copy, is_group;
};
struct LeanJobs {
  explicit LeanJobs(const Problem& p) {
    for (const Job& job : p.jobs) {
      jobs.push_back({job.seconds, static_cast<uint32_t>(preds.size()),
                      static_cast<uint32_t>(succs.size()), job.is_async,
                      job.stream == Stream::kCompute, job.stream == Stream::kCopy,
                      !job.transfers.empty()});
      preds.insert(preds.end(), job.preds.begin(), job.preds.end());
      succs.insert(succs.end(), job.succs.begin(), job.succs.end());
    }
    jobs.push_back({0, static_cast<uint32_t>(preds.size()), static_cast<uint32_t>(succs.size()),
                    false, false, false, false});  // where the last one's end
  }
  const LeanJob& operator[](int32_t n) const { return jobs[static_cast<size_t>(n)]; }
  std::span<const int32_t> PredsOf(int32_t n) const {
    return std::span(preds).subspan((*this)[n].preds, (*this)[n + 1].preds - (*this)[n].preds);
  }
  std::span<const int32_t> SuccsOf(int32_t n) const {
    return std::span(succs).subspan((*this)[n].succs, (*this)[n + 1].succs - (*this)[n].succs);
  }

  std::vector<LeanJob> jobs;
  std::vector<int32_t> preds, succs;
};

// The most bytes live at once, from places and times that are known already: what Walker finds by
// placing each job, in a thirtieth of its time.
class PeakOfPlaces {
 public:
  PeakOfPlaces(const Problem& p, const LeanJobs& jobs)
      : jobs_(jobs), delta_(p.size() + 1), close_(p.size()), over_(p.size()) {
    for (size_t n = 0; n < p.size(); ++n) {
      if (p.jobs[n].is_async) asyncs_.push_back(static_cast<int32_t>(n));
    }
    std::vector<std::vector<int32_t>> readers(p.bytes.size());
    for (size_t n = 0; n < p.size(); ++n) {
      for (int32_t b : p.jobs[n].reads) {
        readers[static_cast<size_t>(b)].push_back(static_cast<int32_t>(n));
      }
    }
    for (size_t n = 0; n < p.size(); ++n) {
      for (int32_t made : p.jobs[n].makes) {
        auto b = static_cast<size_t>(made);
        if (p.bytes[b] == 0) continue;
        bool is_kept = p.readers[b] > std::ssize(readers[b]);
        buffers_.push_back({p.bytes[b], static_cast<int32_t>(n), is_kept, readers_.size(), 0});
        readers_.insert(readers_.end(), readers[b].begin(), readers[b].end());
        buffers_.back().end = readers_.size();
      }
    }
  }

  // `place` by job; `ready` by place: when the job there has what it reads.
  int64_t Peak(const std::vector<int32_t>& order, const std::vector<int64_t>& place,
               const std::vector<double>& end, const std::vector<double>& ready) {
    for (int32_t job : asyncs_) FindClose(job, order, place, end, ready);
    std::fill(delta_.begin(), delta_.end(), 0);
    const auto size = static_cast<int64_t>(order.size());
    for (const Buffer& b : buffers_) {
      int64_t first = place[static_cast<size_t>(b.maker)], last = b.is_kept ? size - 1 : first;
      for (size_t k = b.begin; k < b.end && !b.is_kept; ++k) {
        auto reader = static_cast<size_t>(readers_[k]);
        last = std::max(last, jobs_[readers_[k]].is_async ? close_[reader] - 1 : place[reader]);
      }
      delta_[static_cast<size_t>(first)] += b.bytes;
      delta_[static_cast<size_t>(last) + 1] -= b.bytes;
    }
    int64_t live = 0, peak = 0;
    for (int64_t change : delta_) peak = std::max(peak, live += change);
    return peak;
  }

 private:
  struct Buffer {
    int64_t bytes;
    int32_t maker;
    bool is_kept;
    size_t begin, end;  // readers
  };

  // At the first job that waits for it, or where compute goes on when it has surely ended.
  void FindClose(int32_t job, const std::vector<int32_t>& order, const std::vector<int64_t>& place,
                 const std::vector<double>& end, const std::vector<double>& ready) {
    auto n = static_cast<size_t>(job);
    auto last = static_cast<int64_t>(order.size());
    for (int32_t s : jobs_.SuccsOf(job)) last = std::min(last, place[static_cast<size_t>(s)]);
    double over = end[n] + kDoneSlack * jobs_[job].seconds;
    int64_t low = FirstAt(over, place[n] + 1, last, over_[n], ready);
    over_[n] = low;
    while (low < last && !jobs_[order[static_cast<size_t>(low)]].is_compute) ++low;
    close_[n] = low;
  }

  // The first place from `low` on at which things are ready at `time`; `high`: none before it.
  // Found from `guess` on, in steps that double: a move leaves nearly all of them where they were.
  static int64_t FirstAt(double time, int64_t low, int64_t high, int64_t guess,
                         const std::vector<double>& ready) {
    auto is_late = [&](int64_t k) { return ready[static_cast<size_t>(k)] >= time; };
    guess = std::clamp(guess, low, std::max(low, high));
    for (int64_t step = 1; guess < high && !is_late(guess); step *= 2) {
      low = guess + 1;
      guess = std::min(high, guess + step);
    }
    high = std::min(high, guess);
    for (int64_t step = 1; low < high; step *= 2) {
      int64_t k = std::max(low, high - step);
      if (!is_late(k)) {
        low = k + 1;
        break;
      }
      high = k;
    }
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (is_late(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  const LeanJobs& jobs_;
  std::vector<Buffer> buffers_;
  std::vector<int32_t> readers_, asyncs_;
  std::vector<int64_t> delta_, close_;
  std::vector<int64_t> over_;  // by job: where it had surely ended when last looked at
};

class Moves {
 public:
  Moves(const Problem& p, std::vector<int32_t> order, const MoveOptions& options)
      : p_(p),
        options_(options),
        stride_(4 + static_cast<size_t>(p.overlap)),
        order_(std::move(order)),
        end_(p.size()),
        ready_(p.size()),
        place_(p.size()),
        states_((p.size() + 1) * stride_, 0.0),
        saved_states_(states_.size()) {
    for (size_t k = 0; k < order_.size(); ++k) {
      place_[static_cast<size_t>(order_[k])] = static_cast<int64_t>(k);
    }
  }

  std::vector<int32_t> Run() {
    std::vector<int32_t> best = order_;
    auto n = static_cast<int64_t>(p_.size());
    Rerun(0, n);
    double length = Length(), shortest = length;
    int64_t since = 0;  // work since something became shorter
    while (spent_ < options_.work && since < options_.patience &&
           shortest > options_.bound * (1 + 1e-9)) {
      double left = 1 - static_cast<double>(spent_) / static_cast<double>(options_.work);
      int64_t before = spent_++;
      auto [from, to] = Propose();
      if (from != to) {
        Shift(from, to);
        Rerun(std::min(from, to), std::max(from, to) + 1);
        double next = Length();
        bool accept = next <= length + options_.threshold * left * left * shortest;
        if (accept && options_.memory_limit > 0) accept = Peak() <= options_.memory_limit;
        if (accept) {
          length = next;
          if (length < shortest * (1 - 1e-12)) shortest = length, best = order_, since = 0;
        } else {
          Shift(to, from);
          Restore();
        }
      }
      since += spent_ - before;
    }
    return best;
  }

 private:
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

  // A job and where it may go: behind what it needs, before what needs it.
  std::pair<int64_t, int64_t> Propose() {
    auto n = static_cast<int64_t>(order_.size());
    auto from = static_cast<int64_t>(Next() % static_cast<uint64_t>(n));
    const int32_t job = order_[static_cast<size_t>(from)];
    // Near by mostly; what fills a wait may come from far behind.
    int64_t reach = Next() % 4 == 0 ? n : kFarthest;
    int64_t low = std::max<int64_t>(0, from - reach), high = std::min(n - 1, from + reach);
    for (int32_t q : jobs_.PredsOf(job)) low = std::max(low, place_[static_cast<size_t>(q)] + 1);
    for (int32_t q : jobs_.SuccsOf(job)) high = std::min(high, place_[static_cast<size_t>(q)] - 1);
    if (high <= low) return {from, from};
    int64_t to = low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
    return {from, to};
  }

  void Shift(int64_t from, int64_t to) {
    auto begin = order_.begin();
    if (from < to) {
      std::rotate(begin + from, begin + from + 1, begin + to + 1);
    } else {
      std::rotate(begin + to, begin + from, begin + from + 1);
    }
    for (int64_t k = std::min(from, to); k <= std::max(from, to); ++k) {
      place_[static_cast<size_t>(order_[static_cast<size_t>(k)])] = k;
    }
  }

  int64_t Peak() {
    auto n = static_cast<int64_t>(p_.size());
    if (p_.metric != Metric::kQueues) {
      spent_ += kWalkWork * n;
      return Evaluate(p_, order_).peak;
    }
    spent_ += n / 2;
    return peak_.Peak(order_, place_, end_, ready_);
  }
  // When the job at place k has what it reads.
  void NoteReady(int64_t k) {
    const LeanJob& job = jobs_[order_[static_cast<size_t>(k)]];
    ready_[static_cast<size_t>(k)] = State(k + 1)[0] - (job.is_async ? 0 : job.seconds);
  }

  // The streams before place k: now, begin of the last transfer and copy, end of copies, lanes.
  double* State(int64_t k) { return states_.data() + static_cast<size_t>(k) * stride_; }
  double Length() {
    const double* s = State(static_cast<int64_t>(order_.size()));
    double length = std::max(s[0], s[3]);
    for (size_t lane = 4; lane < stride_; ++lane) length = std::max(length, s[lane]);
    return length;
  }

  bool IsNow(int64_t k) {
    const double* state = State(k);
    bool is_same = true;
    for (size_t i = 0; i < stride_; ++i) is_same &= std::abs(state[i] - now_[i]) <= kSameTime;
    return is_same;
  }
  void SaveAndSet(int64_t k) {
    double *state = State(k), *saved = saved_states_.data() + saved_;
    for (size_t i = 0; i < stride_; ++i) {  // a few: no calls
      saved[i] = state[i];
      state[i] = now_[i];
    }
    saved_ += stride_;
  }

  // Runs the order from place `from` on, at least to `until`, until the streams are as they were.
  // What it overwrites is kept for Restore.
  void Rerun(int64_t from, int64_t until) {
    auto n = static_cast<int64_t>(order_.size());
    saved_ = 0;
    saved_ends_.clear();
    saved_from_ = from;
    now_.assign(State(from), State(from) + stride_);
    for (int64_t k = from; k < n; ++k) {
      int32_t number = order_[static_cast<size_t>(k)];
      double& old = end_[static_cast<size_t>(number)];
      double end = Step(number);
      saved_ends_.emplace_back(number, old);
      if (jobs_[number].is_async && std::abs(end - old) > kSameTime) {
        // Whoever reads it later may wait for another time.
        for (int32_t s : jobs_.SuccsOf(number)) {
          until = std::max(until, place_[static_cast<size_t>(s)] + 1);
        }
      }
      old = end;
      const bool is_over = k + 1 >= until && IsNow(k + 1);
      if (!is_over) SaveAndSet(k + 1);
      NoteReady(k);
      if (is_over) break;
    }
    spent_ += static_cast<int64_t>(saved_ends_.size());
  }
  void Restore() {
    for (auto it = saved_ends_.rbegin(); it != saved_ends_.rend(); ++it) {
      end_[static_cast<size_t>(it->first)] = it->second;
    }
    std::copy_n(saved_states_.begin(), saved_, State(saved_from_ + 1));
    for (int64_t k = 0; k < std::ssize(saved_ends_); ++k) NoteReady(saved_from_ + k);
  }

  double Group(const Job& job, double now) {
    double end = now + job.beside;
    for (double seconds : job.transfers) {
      double& free = *std::min_element(now_.begin() + 4, now_.end());
      now_[1] = std::max({now, now_[1], free});
      free = now_[1] + seconds;
      end = std::max(end, free);
    }
    return end;
  }

  // As Walker, but for memory and dones.
  double Step(int32_t number) {
    const LeanJob& job = jobs_[number];
    double &now = now_[0], &last = now_[1], &last_copy = now_[2], &copy = now_[3];
    for (int32_t q : jobs_.PredsOf(number)) now = std::max(now, end_[static_cast<size_t>(q)]);
    if (job.is_group) return now = Group(p_.jobs[static_cast<size_t>(number)], now);
    if (job.is_compute) return now += job.seconds;
    const bool is_copy = job.is_copy;
    double& free = is_copy ? copy : *std::min_element(now_.begin() + 4, now_.end());
    double& before = is_copy ? last_copy : last;
    double begin = std::max({now, before, free});
    if (p_.metric == Metric::kInFlight) begin = now = is_copy ? now : std::max(now, free);
    before = begin;
    double end = begin + job.seconds;
    free = std::max(free, end);
    if (!job.is_async) now = end;
    return end;
  }

  const Problem& p_;
  const MoveOptions& options_;
  const size_t stride_;
  const LeanJobs jobs_{p_};
  PeakOfPlaces peak_{p_, jobs_};
  std::vector<int32_t> order_;
  std::vector<double> end_, ready_, now_;
  std::vector<int64_t> place_;
  std::vector<double> states_, saved_states_;
  std::vector<std::pair<int32_t, double>> saved_ends_;
  int64_t saved_from_ = 0, spent_ = 0;
  size_t saved_ = 0;  // numbers of `saved_states_`
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace

std::vector<int32_t> ImproveByMoves(const Problem& problem, std::vector<int32_t> order,
                                    const MoveOptions& options) {
  return Moves(problem, std::move(order), options).Run();
}

}  // namespace weft::compiler::schedule
