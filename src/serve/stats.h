// What happened to requests, by model and class: histograms of the phases, counters of the ends.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "serve/scheduler.h"

namespace weft::serve {

// kQueue: for a slot; kBatchWait: for others, before that.
enum class Phase : uint8_t { kAdmission, kBatchWait, kQueue, kToDevice, kRun, kToHost, kTotal };
inline constexpr int kPhases = 7;
std::string_view NameOf(Phase phase);

enum class Outcome : uint8_t { kOk, kFailed, kShed, kExpired, kCancelled };
inline constexpr int kOutcomes = 5;
std::string_view NameOf(Outcome outcome);

// Times by powers of two from 4 us to 67 s. Writing is a few relaxed additions.
class Histogram {
 public:
  static constexpr int kBuckets = 25;
  static double BucketEnd(int bucket);  // seconds
  void Observe(Time time);
  int64_t count() const;
  Time sum() const { return sum_.load(std::memory_order_relaxed); }
  int64_t bucket_count(int bucket) const {  // kBuckets: what is longer than all
    return counts_[static_cast<size_t>(bucket)].load(std::memory_order_relaxed);
  }
  Time Quantile(double q) const;  // the upper end of the bucket that it falls into
  void AppendTo(std::string& out, std::string_view family, std::string_view labels) const;

 private:
  std::array<std::atomic<int64_t>, kBuckets + 1> counts_{};
  std::atomic<Time> sum_ = 0;
};

class ModelStats {
 public:
  void Observe(Priority priority, Phase phase, Time time) {
    phases_[static_cast<size_t>(priority)][static_cast<size_t>(phase)].Observe(time);
  }
  void Count(Priority priority, Outcome outcome) {
    outcomes_[static_cast<size_t>(priority)][static_cast<size_t>(outcome)].fetch_add(
        1, std::memory_order_relaxed);
  }
  // One run of a program for so many requests.
  void CountBatch(int64_t requests, int64_t rows, int64_t padded);
  const Histogram& histogram(Priority priority, Phase phase) const {
    return phases_[static_cast<size_t>(priority)][static_cast<size_t>(phase)];
  }
  int64_t count(Priority priority, Outcome outcome) const {
    return outcomes_[static_cast<size_t>(priority)][static_cast<size_t>(outcome)];
  }
  int64_t batches() const { return batches_; }
  int64_t batched_requests() const { return batched_requests_; }
  int64_t rows() const { return rows_; }
  int64_t padded_rows() const { return padded_; }

 private:
  std::array<std::array<Histogram, kPhases>, kPriorities> phases_;
  std::array<std::array<std::atomic<int64_t>, kOutcomes>, kPriorities> outcomes_{};
  std::atomic<int64_t> batches_ = 0, batched_requests_ = 0, rows_ = 0, padded_ = 0;
};

// By model; what was counted stays when a version goes.
class ServerStats {
 public:
  std::shared_ptr<ModelStats> Of(const std::string& model) WEFT_EXCLUDES(mutex_);
  std::map<std::string, std::shared_ptr<ModelStats>, std::less<>> All() const WEFT_EXCLUDES(mutex_);
  // Prometheus' text format, without what the process counts beside.
  std::string PrometheusText() const WEFT_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<ModelStats>, std::less<>> models_ WEFT_GUARDED_BY(mutex_);
};

// A value of a Prometheus label: quotes, backslashes and line ends escaped.
std::string LabelValue(std::string_view text);

}  // namespace weft::serve
