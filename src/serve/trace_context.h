// W3C trace context: the header `traceparent`, which follows a request from one service to the
// next. What comes in is handed out again with a span of our own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::serve {

struct TraceContext {
  uint64_t trace_high = 0, trace_low = 0;  // not both 0
  uint64_t span = 0;                       // not 0
  uint8_t flags = 0;                       // 1: sampled

  std::string TraceId() const;   // 32 hex digits
  std::string ToString() const;  // "00-<trace>-<span>-<flags>"
  TraceContext Child() const;    // the same trace, a new span
};

// Nothing where the text is not as the standard says: such a header counts as absent.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

}  // namespace weft::serve
