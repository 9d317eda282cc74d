// What a lane knows of its runs.
#include <algorithm>

#include "base/check.h"
#include "serve/scheduler.h"

namespace weft::serve {
namespace {

// Part of the best run with several threads that is forgotten by each run with one.
constexpr Time kForget = 2048;

}  // namespace

Lane::Lane(std::vector<int64_t> buckets, bool alone, Time max_delay)
    : buckets_(std::move(buckets)),
      alone_(alone),
      max_delay_(max_delay),
      costs_(buckets_.size()),
      deviations_(buckets_.size(), 0),
      best_(buckets_.size(), 0),
      best_spread_(buckets_.size(), 0) {
  CHECK(!buckets_.empty() && std::ranges::is_sorted(buckets_));
}

size_t Lane::BucketFor(int64_t rows) const {
  auto found = std::ranges::lower_bound(buckets_, rows);
  CHECK(found != buckets_.end()) << rows;
  return static_cast<size_t>(found - buckets_.begin());
}

// Quick to rise, slow to fall: an estimate that is too low lets in what cannot be done.
void Lane::Learn(size_t bucket, Time took, bool alone, int threads) {
  Time cost = Cost(bucket);
  took = std::max<Time>(took, 1);
  if (cost != 0) {
    Time off = took > cost ? took - cost : cost - took;
    deviations_[bucket] += (off - deviations_[bucket]) / 8;
  }
  cost = cost == 0 ? took : cost + (took - cost) / (took > cost ? 4 : 8);
  costs_[bucket].store(cost, std::memory_order_relaxed);
  Time &best = best_[bucket], &spread = best_spread_[bucket];
  if (threads > 1) {
    spread = spread == 0 || took < spread ? took : spread + (took - spread) / 2;
    return;
  }
  spread -= spread / kForget;
  if (best == 0 || took < best) {
    best = took;
  } else if (alone) {
    best += (took - best) / 16;  // the machine may have become slower
  }
}

bool Lane::GainsByThreads(size_t bucket) const {
  const Time best = best_[bucket], spread = best_spread_[bucket];
  return best == 0 || spread == 0 || spread < best - best / 4;
}

double Lane::Slowdown(size_t bucket, Time took) const {
  if (best_[bucket] == 0) return 1;
  return static_cast<double>(std::max<Time>(took, 1)) / static_cast<double>(best_[bucket]);
}

bool Lane::GainsByJoining() const {
  const size_t own = BucketFor(std::min(rows_, largest()));
  const Time cost = Cost(own), more = Cost(BucketFor(std::min(2 * rows_, largest())));
  return cost == 0 || more == 0 || more < cost + cost / 2;
}

// A request's share of the runs to come: of full batches, where it shares them.
Time Lane::CostOfRows(int64_t rows) const {
  size_t own = BucketFor(rows);
  Time alone = Cost(own), full = Cost(costs_.size() - 1);
  if (alone_ || full == 0) return alone;
  Time share = full / std::max<int64_t>(largest() / std::max<int64_t>(rows, 1), 1);
  return alone == 0 ? share : std::min(alone, share);
}

}  // namespace weft::serve
