// What stands before every protocol: who may call (bearer tokens), and a line of the access log for
// each call that ended.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "serve/scheduler.h"
#include "serve/trace_context.h"

namespace weft::serve {

struct AccessEntry {
  std::string_view protocol;   // "http", "grpc"
  std::string method, target;  // "POST", "/v2/models/m/infer"
  std::string peer = {};
  int status = 0;  // of HTTP, or gRPC's code
  Time took = 0;
  size_t request_bytes = 0, response_bytes = 0;
  std::optional<TraceContext> trace = std::nullopt;
};

// Lines of JSON, written by a thread of its own: a slow disk makes no request wait. What it cannot
// keep up with is counted and left out, and the log says so.
class AccessLog {
 public:
  static Result<std::unique_ptr<AccessLog>> Open(const std::string& path);  // "-": standard output
  ~AccessLog();  // what was handed over is written
  AccessLog(const AccessLog&) = delete;
  void Write(const AccessEntry& entry) WEFT_EXCLUDES(mutex_);
  // Again from its name, for those who rotate logs.
  void Reopen() { reopen_ = true; }

 private:
  AccessLog(std::string path, std::FILE* file);
  void Run() WEFT_EXCLUDES(mutex_);

  const std::string path_;
  std::FILE* file_;  // of the thread
  std::atomic<bool> reopen_ = false;
  Mutex mutex_;
  std::condition_variable wake_;
  std::string pending_ WEFT_GUARDED_BY(mutex_);
  int64_t dropped_ WEFT_GUARDED_BY(mutex_) = 0;
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class Gate {
 public:
  Gate() = default;
  // One token a line; `#` begins a comment. An empty file is an error: it would shut out everybody.
  Status ReadTokens(const std::string& path);
  void SetTokens(std::vector<std::string> tokens) { tokens_ = std::move(tokens); }
  void SetLog(std::unique_ptr<AccessLog> log) { log_ = std::move(log); }

  bool asks() const { return !tokens_.empty(); }
  // `authorization`: "Bearer TOKEN". UNAUTHENTICATED where it is none of ours.
  Status Check(std::string_view authorization) const;
  AccessLog* log() const { return log_.get(); }

 private:
  std::vector<std::string> tokens_;
  std::unique_ptr<AccessLog> log_;
};

}  // namespace weft::serve
