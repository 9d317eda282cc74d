// Timelines as Chrome's trace event JSON, which Perfetto and chrome://tracing show.
#pragma once

#include <string>

#include "base/error.h"
#include "base/trace.h"

namespace weft::inspect {

// In pieces: a long one would take several times the memory of what was recorded.
Status WriteTraceJson(const trace::Capture& capture, const std::string& path);

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
