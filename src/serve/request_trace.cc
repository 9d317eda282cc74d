#include "serve/request_trace.h"

#include <utility>

namespace weft::serve {

void RequestTrace::Start() {
  MutexLock lock(mutex_);
  spans_.clear();
  on_ = true;
}

std::vector<inspect::AsyncSpan> RequestTrace::Stop() {
  on_ = false;
  MutexLock lock(mutex_);
  return std::exchange(spans_, {});
}

void RequestTrace::Add(std::vector<inspect::AsyncSpan> spans) {
  MutexLock lock(mutex_);
  if (!on() || spans_.size() + spans.size() > kMostSpans) return;
  uint64_t id = next_++;
  for (inspect::AsyncSpan& span : spans) {
    span.id = id;
    spans_.push_back(std::move(span));
  }
}

}  // namespace weft::serve
