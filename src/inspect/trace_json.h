// Timelines as Chrome's trace event JSON, which Perfetto and chrome://tracing show.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/trace.h"

namespace weft::inspect {

// A span that belongs to no thread; neighbours with the same `id` are drawn together, the first
// around the others.
struct AsyncSpan {
  uint64_t id = 0;
  std::string name;
  int64_t begin = 0, end = 0;  // nanoseconds of a steady clock
  std::string note = {};
};

// In pieces: a long one would take several times the memory of what was recorded.
Status WriteTraceJson(const trace::Capture& capture, const std::string& path);
// The same in memory, with spans beside.
Result<std::string> TraceJson(const trace::Capture& capture, std::span<const AsyncSpan> spans);

// Records while it lives; writes what was recorded when asked to.
class TraceFile {
 public:
  explicit TraceFile(std::string path);
  // Once, by the process that began it: a forked one leaves the file alone.
  Status Write();

 private:
  const std::string path_;
  const int64_t process_;
  bool written_ = false;
  trace::Session session_;
};

}  // namespace weft::inspect
