#include "serve/stats.h"

#include <bit>

#include "base/str.h"

namespace weft::serve {
namespace {

constexpr std::string_view kPhaseNames[kPhases] = {"admission", "batch_wait", "queue", "to_device",
                                                   "run",       "to_host",    "total"};
constexpr std::string_view kOutcomeNames[kOutcomes] = {"ok", "failed", "shed", "expired",
                                                       "cancelled"};
constexpr int kFirstBits = 12;  // 4096 ns

void AppendHeader(std::string& out, std::string_view family, std::string_view type,
                  std::string_view help) {
  StrAppend(out, "# HELP ", family, " ", help, "\n# TYPE ", family, " ", type, "\n");
}

// Under the names that dashboards of Triton ask for.
void AppendTritonNames(std::string& out, const std::string& model, const ModelStats& stats) {
  int64_t outcomes[kOutcomes] = {};
  Time sums[kPhases] = {};
  for (int c = 0; c < kPriorities; ++c) {
    Priority priority = static_cast<Priority>(c);
    for (int o = 0; o < kOutcomes; ++o)
      outcomes[o] += stats.count(priority, static_cast<Outcome>(o));
    for (int p = 0; p < kPhases; ++p)
      sums[p] += stats.histogram(priority, static_cast<Phase>(p)).sum();
  }
  int64_t failed = 0;
  for (int o = 1; o < kOutcomes; ++o) failed += outcomes[o];
  auto line = [&](std::string_view family, int64_t value) {
    StrAppend(out, "nv_inference_", family, "{model=\"", LabelValue(model), "\"} ", value, "\n");
  };
  auto micros = [&](Phase phase) { return sums[static_cast<int>(phase)] / kMicrosecond; };
  line("request_success", outcomes[static_cast<int>(Outcome::kOk)]);
  line("request_failure", failed);
  line("count", stats.rows());
  line("exec_count", stats.batches());
  line("request_duration_us", micros(Phase::kTotal));
  line("queue_duration_us", micros(Phase::kQueue) + micros(Phase::kBatchWait));
  line("compute_input_duration_us", micros(Phase::kToDevice));
  line("compute_infer_duration_us", micros(Phase::kRun));
  line("compute_output_duration_us", micros(Phase::kToHost));
}

}  // namespace

std::string_view NameOf(Phase phase) {
  return kPhaseNames[static_cast<int>(phase)];
}
std::string_view NameOf(Outcome outcome) {
  return kOutcomeNames[static_cast<int>(outcome)];
}

double Histogram::BucketEnd(int bucket) {
  return static_cast<double>(int64_t{1} << (kFirstBits + bucket)) * 1e-9;
}

void Histogram::Observe(Time time) {
  uint64_t value = time < 1 ? 0 : static_cast<uint64_t>(time) - 1;
  int bucket = std::max(static_cast<int>(std::bit_width(value)) - kFirstBits, 0);
  counts_[static_cast<size_t>(std::min(bucket, kBuckets))].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(time, std::memory_order_relaxed);
}

int64_t Histogram::count() const {
  int64_t count = 0;
  for (const auto& c : counts_) count += c.load(std::memory_order_relaxed);
  return count;
}

Time Histogram::Quantile(double q) const {
  int64_t wanted = static_cast<int64_t>(q * static_cast<double>(count())), seen = 0;
  for (int b = 0; b < kBuckets; ++b) {
    seen += counts_[static_cast<size_t>(b)].load(std::memory_order_relaxed);
    if (seen > wanted) return int64_t{1} << (kFirstBits + b);
  }
  return kNever;
}

void Histogram::AppendTo(std::string& out, std::string_view family, std::string_view labels) const {
  int64_t total = 0;
  for (int b = 0; b <= kBuckets; ++b) {
    total += counts_[static_cast<size_t>(b)].load(std::memory_order_relaxed);
    StrAppend(out, family, "_bucket{", labels, ",le=\"");
    if (b == kBuckets) {
      out += "+Inf";
    } else {
      AppendDouble(out, BucketEnd(b));
    }
    StrAppend(out, "\"} ", total, "\n");
  }
  StrAppend(out, family, "_sum{", labels, "} ", static_cast<double>(sum()) * 1e-9, "\n");
  StrAppend(out, family, "_count{", labels, "} ", total, "\n");
}

void ModelStats::CountBatch(int64_t requests, int64_t rows, int64_t padded) {
  batches_.fetch_add(1, std::memory_order_relaxed);
  batched_requests_.fetch_add(requests, std::memory_order_relaxed);
  rows_.fetch_add(rows, std::memory_order_relaxed);
  padded_.fetch_add(padded, std::memory_order_relaxed);
}

std::shared_ptr<ModelStats> ServerStats::Of(const std::string& model) {
  MutexLock lock(mutex_);
  std::shared_ptr<ModelStats>& stats = models_[model];
  if (stats == nullptr) stats = std::make_shared<ModelStats>();
  return stats;
}

std::string LabelValue(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\' || c == '"') out.push_back('\\');
    if (c == '\n') {
      out += "\\n";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::map<std::string, std::shared_ptr<ModelStats>, std::less<>> ServerStats::All() const {
  MutexLock lock(mutex_);
  return models_;
}

std::string ServerStats::PrometheusText() const {
  auto models = All();
  std::string out;
  auto each = [&](auto fn) {
    for (const auto& [name, stats] : models) {
      for (int c = 0; c < kPriorities; ++c) {
        Priority priority = static_cast<Priority>(c);
        fn(*stats, priority,
           StrCat("model=\"", LabelValue(name), "\",priority=\"", NameOf(priority), "\""));
      }
    }
  };
  AppendHeader(out, "weft_serve_requests_total", "counter", "requests by how they ended");
  each([&](const ModelStats& stats, Priority priority, const std::string& labels) {
    for (int o = 0; o < kOutcomes; ++o) {
      Outcome outcome = static_cast<Outcome>(o);
      StrAppend(out, "weft_serve_requests_total{", labels, ",outcome=\"", NameOf(outcome), "\"} ",
                stats.count(priority, outcome), "\n");
    }
  });
  AppendHeader(out, "weft_serve_phase_seconds", "histogram", "time of the phases of a request");
  each([&](const ModelStats& stats, Priority priority, const std::string& labels) {
    for (int p = 0; p < kPhases; ++p) {
      Phase phase = static_cast<Phase>(p);
      if (stats.histogram(priority, phase).count() == 0) continue;
      stats.histogram(priority, phase)
          .AppendTo(out, "weft_serve_phase_seconds",
                    StrCat(labels, ",phase=\"", NameOf(phase), "\""));
    }
  });
  auto counter = [&](std::string_view family, std::string_view help, auto value) {
    AppendHeader(out, family, "counter", help);
    for (const auto& [name, stats] : models) {
      StrAppend(out, family, "{model=\"", LabelValue(name), "\"} ", value(*stats), "\n");
    }
  };
  counter("weft_serve_batches_total", "runs of programs", [](auto& s) { return s.batches(); });
  counter("weft_serve_rows_total", "rows of requests that ran", [](auto& s) { return s.rows(); });
  counter("weft_serve_padded_rows_total", "rows added up to the size of a bucket",
          [](auto& s) { return s.padded_rows(); });
  for (const auto& [name, stats] : models) AppendTritonNames(out, name, *stats);
  return out;
}

}  // namespace weft::serve
