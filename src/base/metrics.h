// Numbers about the process, for monitoring: counters, gauges and histograms, listed in
// metrics.def.
//
//   metrics::Add(metrics::kExecutions);
//   metrics::Timer timer(metrics::kCompileSeconds);
//
// Counting is one relaxed addition. Gauges are asked for when somebody reads (Source).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::metrics {

enum class Type : uint8_t { kCounter, kGauge, kHistogram };

enum Metric : uint8_t {
#define METRIC(id, type, family, labels, help) id,
#include "base/metrics.def"
#undef METRIC
  kMetrics
};

struct Info {
  Type type;
  std::string_view family, labels, help;
};
const Info& InfoOf(Metric metric);

void Add(Metric counter, int64_t n = 1);
int64_t ValueOf(Metric counter);
void Observe(Metric histogram, double seconds);
// Upper ends of a histogram's buckets in seconds: 1 us, 4 us, ... The last bucket has none.
inline constexpr int kBuckets = 16;
double BucketEnd(int bucket);

// Observes the time of its life.
class Timer {
 public:
  explicit Timer(Metric histogram) : histogram_(histogram), start_(Clock::now()) {}
  ~Timer() { Observe(histogram_, Seconds()); }
  Timer(const Timer&) = delete;
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  const Metric histogram_;
  const Clock::time_point start_;
};

struct Sample {
  Metric metric;
  std::string labels;  // as in metrics.def; of gauges it is the source that knows
  double value = 0;
};
// Somebody who knows gauges, for as long as it lives.
class Source {
 public:
  explicit Source(std::function<void(std::vector<Sample>&)> read);
  ~Source();
  Source(const Source&) = delete;

 private:
  std::function<void(std::vector<Sample>&)> read_;
  friend struct Registry;
};

// Everything, as Prometheus wants it (text format 0.0.4) ...
std::string PrometheusText();
// ... and as JSON: {"weft_compiles_total": 3, "weft_executions_total{runner=\"native\"}": 5,
// "weft_compile_seconds": {"count": 3, "sum": 0.5, "buckets": [[1e-06, 0], ..., [null, 3]]}}.
std::string JsonText();

}  // namespace weft::metrics
