#include "base/metrics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/mutex.h"
#include "base/str.h"

namespace weft::metrics {

struct Registry {
  static Registry& Get() {
    static Registry& registry = *new Registry;  // counted in until the very end
    return registry;
  }
  // Counters use the first alone.
  struct alignas(64) Cell {
    std::atomic<int64_t> count = 0, nanoseconds = 0;
    std::array<std::atomic<int64_t>, kBuckets> buckets = {};
  };
  std::array<Cell, kMetrics> cells;
  Mutex mutex;
  std::vector<const Source*> sources WEFT_GUARDED_BY(mutex);  // in the order of their making

  // Of all sources; what several say of one gauge is added up.
  std::vector<Sample> Gauges() {
    std::vector<Sample> all, sums;
    {
      MutexLock lock(mutex);
      for (const Source* source : sources) source->read_(all);
    }
    for (Sample& sample : all) {
      auto same = std::find_if(sums.begin(), sums.end(), [&](const Sample& s) {
        return s.metric == sample.metric && s.labels == sample.labels;
      });
      if (same == sums.end()) {
        sums.push_back(std::move(sample));
      } else {
        same->value += sample.value;
      }
    }
    return sums;
  }
};

namespace {

constexpr Info kInfos[] = {
#define METRIC(id, type, family, labels, help) {Type::type, family, labels, help},
#include "base/metrics.def"
#undef METRIC
};

std::string Number(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[40];
  std::snprintf(text, sizeof(text),
                value == std::floor(value) && std::abs(value) < 1e15 ? "%.0f" : "%.9g", value);
  return text;
}

std::string Braced(std::string_view labels, std::string_view more = "") {
  if (labels.empty() && more.empty()) return "";
  return StrCat("{", labels, labels.empty() || more.empty() ? "" : ",", more, "}");
}

void AppendHistogram(const Info& info, const Registry::Cell& cell, std::string& out) {
  int64_t sum = 0;
  for (int b = 0; b < kBuckets; ++b) {
    sum += cell.buckets[static_cast<size_t>(b)].load(std::memory_order_relaxed);
    StrAppend(out, info.family, "_bucket",
              Braced(info.labels, StrCat("le=\"", Number(BucketEnd(b)), "\"")), " ", sum, "\n");
  }
  StrAppend(out, info.family, "_sum", Braced(info.labels), " ",
            Number(static_cast<double>(cell.nanoseconds.load(std::memory_order_relaxed)) / 1e9),
            "\n", info.family, "_count", Braced(info.labels), " ", sum, "\n");
}

// {"phase=\"import\""} as it stands between the quotes of a JSON string.
std::string JsonKey(std::string_view family, std::string_view labels) {
  std::string key = "\"";
  for (char c : StrCat(family, Braced(labels))) {
    if (c == '"' || c == '\\') key.push_back('\\');
    key.push_back(c);
  }
  return key + "\": ";
}

std::string JsonHistogram(const Registry::Cell& cell) {
  int64_t sum = 0;
  std::string buckets;
  for (int b = 0; b < kBuckets; ++b) {
    sum += cell.buckets[static_cast<size_t>(b)].load(std::memory_order_relaxed);
    bool last = b == kBuckets - 1;
    StrAppend(buckets, b ? ", [" : "[", last ? "null" : Number(BucketEnd(b)), ", ", sum, "]");
  }
  double seconds = static_cast<double>(cell.nanoseconds.load(std::memory_order_relaxed)) / 1e9;
  return StrCat("{\"count\": ", sum, ", \"sum\": ", Number(seconds), ", \"buckets\": [", buckets,
                "]}");
}

}  // namespace

const Info& InfoOf(Metric metric) {
  return kInfos[metric];
}

void Add(Metric counter, int64_t n) {
  Registry::Get().cells[counter].count.fetch_add(n, std::memory_order_relaxed);
}

int64_t ValueOf(Metric counter) {
  return Registry::Get().cells[counter].count.load(std::memory_order_relaxed);
}

double BucketEnd(int bucket) {
  if (bucket == kBuckets - 1) return std::numeric_limits<double>::infinity();
  return std::ldexp(1e-6, 2 * bucket);
}

void Observe(Metric histogram, double seconds) {
  Registry::Cell& cell = Registry::Get().cells[histogram];
  auto ns = static_cast<uint64_t>(std::max(seconds, 0.0) * 1e9), us = (ns + 999) / 1000;
  // The smallest b with 4^b >= us.
  int bucket = us <= 1 ? 0 : (std::bit_width(us - 1) + 1) / 2;
  bucket = std::min(bucket, kBuckets - 1);
  cell.buckets[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  cell.nanoseconds.fetch_add(static_cast<int64_t>(ns), std::memory_order_relaxed);
}

Source::Source(std::function<void(std::vector<Sample>&)> read) : read_(std::move(read)) {
  MutexLock lock(Registry::Get().mutex);
  Registry::Get().sources.push_back(this);
}

Source::~Source() {
  MutexLock lock(Registry::Get().mutex);
  std::erase(Registry::Get().sources, this);
}

std::string PrometheusText() {
  Registry& registry = Registry::Get();
  std::vector<Sample> gauges = registry.Gauges();
  std::string out;
  std::string_view family;
  for (int i = 0; i < kMetrics; ++i) {
    const Info& info = kInfos[i];
    if (info.family != family) {
      constexpr std::string_view kTypes[] = {"counter", "gauge", "histogram"};
      StrAppend(out, "# HELP ", info.family, " ", info.help, "\n# TYPE ", info.family, " ",
                kTypes[static_cast<size_t>(info.type)], "\n");
      family = info.family;
    }
    const Registry::Cell& cell = registry.cells[static_cast<size_t>(i)];
    if (info.type == Type::kHistogram) {
      AppendHistogram(info, cell, out);
    } else if (info.type == Type::kCounter) {
      StrAppend(out, info.family, Braced(info.labels), " ", cell.count.load(), "\n");
    }
    for (const Sample& sample : gauges) {
      if (sample.metric != i) continue;
      StrAppend(out, info.family, Braced(sample.labels), " ", Number(sample.value), "\n");
    }
  }
  return out;
}

std::string JsonText() {
  Registry& registry = Registry::Get();
  std::string out = "{";
  auto add = [&](const std::string& key, const std::string& value) {
    StrAppend(out, out.size() > 1 ? ",\n " : "", key, value);
  };
  std::vector<Sample> gauges = registry.Gauges();
  for (int i = 0; i < kMetrics; ++i) {
    const Info& info = kInfos[i];
    const Registry::Cell& cell = registry.cells[static_cast<size_t>(i)];
    if (info.type == Type::kHistogram) {
      add(JsonKey(info.family, info.labels), JsonHistogram(cell));
    } else if (info.type == Type::kCounter) {
      add(JsonKey(info.family, info.labels), StrCat(cell.count.load()));
    }
    for (const Sample& sample : gauges) {
      if (sample.metric == i) add(JsonKey(info.family, sample.labels), Number(sample.value));
    }
  }
  return out + "}\n";
}

}  // namespace weft::metrics
