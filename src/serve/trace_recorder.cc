#include "serve/trace_recorder.h"

#include <chrono>
#include <utility>

#include "base/trace.h"
#include "inspect/trace_json.h"

namespace weft::serve {

TraceRecorder::~TraceRecorder() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  wake_.notify_all();
  if (thread.joinable()) thread.join();
}

Status TraceRecorder::Start(Time length, Done done) {
  MutexLock lock(mutex_);
  if (busy_ || stopping_) return MakeError(Code::kAborted, "trace: another one is being recorded");
  busy_ = true;
  if (thread_.joinable()) thread_.join();  // it has answered
  thread_ = std::thread([this, length, done = std::move(done)] { Record(length, done); });
  return {};
}

void TraceRecorder::Record(Time length, const Done& done) {
  trace::NameThread("serve trace");
  trace::Session session;
  server_.request_trace().Start();
  {
    auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(length);
    MutexLock lock(mutex_);
    while (!stopping_ && std::chrono::steady_clock::now() < until) mutex_.WaitUntil(wake_, until);
  }
  std::vector<inspect::AsyncSpan> requests = server_.request_trace().Stop();
  Result<std::string> text = inspect::TraceJson(session.Take(), requests);
  {
    // From here on it touches nothing of this.
    MutexLock lock(mutex_);
    busy_ = false;
  }
  done(std::move(text));
}

}  // namespace weft::serve
