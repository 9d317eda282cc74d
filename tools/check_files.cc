#include "check_files.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>

#include "args.h"
#include "base/progress.h"
#include "base/thread_pool.h"

namespace weft::tools {

CheckSummary CheckAll(int64_t n, const std::function<std::string(int64_t)>& check) {
  Progress progress("check", {.lines = true});
  std::mutex mutex;
  std::vector<std::optional<std::string>> reports(static_cast<size_t>(n));
  size_t printed = 0;
  int64_t done = 0;
  CheckSummary summary;

  auto finish = [&](int64_t i, std::string report) {
    std::lock_guard lock(mutex);
    ++done;
    ++(report.empty() ? summary.passed : summary.failed);
    reports[static_cast<size_t>(i)] = std::move(report);
    for (; printed < reports.size() && reports[printed]; ++printed) {
      std::string& text = *reports[printed];
      if (text.empty()) continue;
      progress.Clear();
      text += "\n";
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
      text = {};
    }
    progress.Say(done, n);
  };
  // One task per thread takes the next index each, so that one slow file holds nobody up.
  std::atomic<int64_t> next = 0;
  ThreadPool& pool = DefaultPool();
  pool.ParallelFor(pool.threads(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i; (i = next.fetch_add(1)) < n;) finish(i, check(i));
    }
  });
  return summary;
}

int PrintSummary(const CheckSummary& summary) {
  std::printf("%lld passed, %lld failed\n", static_cast<long long>(summary.passed),
              static_cast<long long>(summary.failed));
  return summary.failed == 0 ? kOk : kFailed;
}

}  // namespace weft::tools
