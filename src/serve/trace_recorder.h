// GET /v2/debug/trace: everything for some seconds, as a file for Perfetto. Requests by phase, and
// what threads do: batches, programs, their steps.
#pragma once

#include <condition_variable>
#include <functional>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/mutex.h"
#include "serve/server.h"

namespace weft::serve {

class TraceRecorder {
 public:
  explicit TraceRecorder(Server& server) : server_(server) {}
  ~TraceRecorder();  // one under way is cut short and answered
  TraceRecorder(const TraceRecorder&) = delete;

  using Done = std::function<void(Result<std::string>)>;
  // `done` gets the JSON when the time is over, on another thread. One at a time.
  Status Start(Time length, Done done) WEFT_EXCLUDES(mutex_);

 private:
  void Record(Time length, const Done& done) WEFT_EXCLUDES(mutex_);

  Server& server_;
  Mutex mutex_;
  std::condition_variable wake_;
  bool busy_ WEFT_GUARDED_BY(mutex_) = false, stopping_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::serve
