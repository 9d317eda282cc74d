// Local search: one job after the other is moved elsewhere in the order. Slightly longer orders are
// accepted at first, fewer and fewer towards the end, so that it does not stay where it began.
#include <algorithm>
#include <cmath>

#include "compiler/schedule/search.h"

namespace weft::compiler::schedule {
namespace {

constexpr double kFirstThreshold = 0.01;  // of the length
constexpr int64_t kFarthest = 16;         // places that a job is moved, but for one in four

class Moves {
 public:
  Moves(const Problem& p, std::vector<int32_t> order, const MoveOptions& options)
      : p_(p), options_(options), order_(std::move(order)), end_(p.size()), place_(p.size()) {
    for (size_t k = 0; k < order_.size(); ++k) {
      place_[static_cast<size_t>(order_[k])] = static_cast<int64_t>(k);
    }
  }

  std::vector<int32_t> Run() {
    std::vector<int32_t> best = order_;
    double length = Length(), shortest = length;
    auto n = static_cast<int64_t>(p_.size());
    int64_t rounds = options_.work / std::max<int64_t>(n, 1);
    for (int64_t round = 0; round < rounds && shortest > options_.bound * (1 + 1e-9); ++round) {
      double left = 1 - static_cast<double>(round) / static_cast<double>(rounds);
      auto [from, to] = Propose();
      if (from == to) continue;
      Shift(from, to);
      double next = Length();
      bool accept = next <= length + kFirstThreshold * left * left * shortest;
      if (accept && options_.memory_limit > 0) {
        accept = Evaluate(p_, order_).peak <= options_.memory_limit;
        round += 3;
      }
      if (!accept) {
        Shift(to, from);
        continue;
      }
      length = next;
      if (length < shortest * (1 - 1e-12)) shortest = length, best = order_;
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
    const Job& job = p_.jobs[static_cast<size_t>(order_[static_cast<size_t>(from)])];
    // Near by mostly; what fills a wait may come from far behind.
    int64_t reach = Next() % 4 == 0 ? n : kFarthest;
    int64_t low = std::max<int64_t>(0, from - reach), high = std::min(n - 1, from + reach);
    for (int32_t q : job.preds) low = std::max(low, place_[static_cast<size_t>(q)] + 1);
    for (int32_t q : job.succs) high = std::min(high, place_[static_cast<size_t>(q)] - 1);
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

  // As Walker, but for memory and dones.
  double Length() {
    double now = 0, length = 0, last = 0, last_copy = 0, copy = 0;
    lanes_.assign(static_cast<size_t>(p_.overlap), 0);
    for (int32_t number : order_) {
      const Job& job = p_.jobs[static_cast<size_t>(number)];
      for (int32_t q : job.preds) now = std::max(now, end_[static_cast<size_t>(q)]);
      double end = 0;
      if (job.stream == Stream::kCompute) {
        end = now += job.seconds;
      } else {
        bool is_copy = job.stream == Stream::kCopy;
        double& free = is_copy ? copy : *std::min_element(lanes_.begin(), lanes_.end());
        double& before = is_copy ? last_copy : last;
        double begin = std::max({now, before, free});
        if (p_.metric == Metric::kInFlight) begin = now = is_copy ? now : std::max(now, free);
        before = begin;
        end = begin + job.seconds;
        free = std::max(free, end);
        if (!job.is_async) now = end;
      }
      end_[static_cast<size_t>(number)] = end;
      length = std::max(length, end);
    }
    return length;
  }

  const Problem& p_;
  const MoveOptions& options_;
  std::vector<int32_t> order_;
  std::vector<double> end_, lanes_;
  std::vector<int64_t> place_;
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace

std::vector<int32_t> ImproveByMoves(const Problem& problem, std::vector<int32_t> order,
                                    const MoveOptions& options) {
  return Moves(problem, std::move(order), options).Run();
}

}  // namespace weft::compiler::schedule
