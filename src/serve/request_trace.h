// Phases of single requests while somebody looks (GET /v2/debug/trace): spans that belong to no
// thread, beside what threads record (base/trace.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "inspect/trace_json.h"
#include "serve/scheduler.h"

namespace weft::serve {

class RequestTrace {
 public:
  bool on() const { return on_.load(std::memory_order_relaxed); }
  void Start() WEFT_EXCLUDES(mutex_);
  std::vector<inspect::AsyncSpan> Stop() WEFT_EXCLUDES(mutex_);
  // The spans of one request; those beyond a limit are left out.
  void Add(std::vector<inspect::AsyncSpan> spans) WEFT_EXCLUDES(mutex_);

 private:
  static constexpr size_t kMostSpans = 1 << 19;
  std::atomic<bool> on_ = false;
  Mutex mutex_;
  uint64_t next_ WEFT_GUARDED_BY(mutex_) = 1;
  std::vector<inspect::AsyncSpan> spans_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::serve
