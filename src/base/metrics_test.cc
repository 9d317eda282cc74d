#include "base/metrics.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "base/progress.h"
#include "base/str.h"

namespace weft::metrics {
namespace {

TEST(Metrics, RowsOfAFamilyStandTogether) {
  std::set<std::string_view> seen, series;
  std::string_view family;
  for (int i = 0; i < kMetrics; ++i) {
    const Info& info = InfoOf(static_cast<Metric>(i));
    if (info.family != family) {
      EXPECT_TRUE(seen.insert(info.family).second) << info.family;
    } else {
      EXPECT_EQ(info.help, InfoOf(static_cast<Metric>(i - 1)).help);
      EXPECT_EQ(info.type, InfoOf(static_cast<Metric>(i - 1)).type);
    }
    family = info.family;
    EXPECT_EQ(info.type == Type::kCounter, family.ends_with("_total")) << family;
    EXPECT_FALSE(info.help.ends_with(".")) << info.help;
  }
}

TEST(Metrics, ThreadsCountTogether) {
  int64_t before = ValueOf(kWaits);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 10'000; ++i) Add(kWaits);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ValueOf(kWaits) - before, 40'000);
}

// The number behind the name of a series.
int64_t Read(std::string_view series) {
  std::string text = PrometheusText(), line = StrCat(series, " ");
  size_t at = text.find(line);
  EXPECT_NE(at, text.npos) << series << " in\n" << text;
  return at == text.npos ? -1 : std::atoll(text.c_str() + at + line.size());
}

TEST(Metrics, HistogramsAreCumulative) {
  constexpr std::string_view kSeries[] = {
      "weft_compile_phase_seconds_bucket{phase=\"import\",le=\"1e-06\"}",
      "weft_compile_phase_seconds_bucket{phase=\"import\",le=\"4e-06\"}",
      "weft_compile_phase_seconds_bucket{phase=\"import\",le=\"1.6e-05\"}",
      "weft_compile_phase_seconds_bucket{phase=\"import\",le=\"268.435456\"}",
      "weft_compile_phase_seconds_bucket{phase=\"import\",le=\"+Inf\"}",
      "weft_compile_phase_seconds_count{phase=\"import\"}"};
  constexpr int64_t kMore[] = {2, 4, 5, 6, 7, 7};
  std::vector<int64_t> before;
  for (std::string_view series : kSeries) before.push_back(Read(series));
  for (double seconds : {0.0, 1e-6, 3e-6, 4e-6, 4.5e-6, 268.4, 1e9}) {
    Observe(kImportSeconds, seconds);
  }
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(Read(kSeries[i]) - before[i], kMore[i]) << kSeries[i];
  }
}

TEST(Metrics, GaugesComeFromThoseWhoLive) {
  auto has = [](std::string_view line) { return PrometheusText().find(line) != std::string::npos; };
  {
    auto read = [](std::vector<Sample>& samples) {
      samples.push_back({kMemoryInUse, "device=\"0\"", 21});
    };
    Source one(read), other(read);
    EXPECT_TRUE(has("weft_memory_bytes{device=\"0\"} 42\n"));  // both clients
    EXPECT_NE(JsonText().find("\"weft_memory_bytes{device=\\\"0\\\"}\": 42"), std::string::npos);
  }
  EXPECT_FALSE(has("weft_memory_bytes{device"));
  EXPECT_TRUE(has("# TYPE weft_memory_bytes gauge\n"));
}

TEST(Progress, IsSilentWithoutATerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress("compile", {.after = 0, .ticks = true});
    EXPECT_FALSE(progress.shows());
    progress.Say("fuse");
    progress.Say(1, 2, "kernels");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, EndsAtOnce) {
  auto start = std::chrono::steady_clock::now();
  {
    Progress progress("test", {.after = 100, .lines = true, .ticks = true});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace weft::metrics
