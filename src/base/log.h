// One-line messages to standard error.
//
//   LOG(warn) << "cache: " << path << " is not ours";   // weft: warning: runtime: cache: ...
//   VLOG("fuse", 2) << "merged " << n << " loops";      // weft: fuse: merged 3 loops
//   NOTE("compile", 1) << "compile " << name << ": ok"; // weft: compile step: ok
//
// error and warn always print; info prints at level 1 of the module (the folder of the source
// file), VLOG and NOTE at their own level of their own tag. Levels are 0 until SetLogFilter; a
// message that is off costs one relaxed load.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/str.h"

namespace weft {

// "2" (everything), "fuse=2,cpu=1", or both: "1,fuse=2". Replaces the filter before it; an error
// leaves that one in place.
Status SetLogFilter(std::string_view filter);

namespace detail {

enum class LogSeverity { error, warn, info, verbose };

// The highest level of any tag. With the filter behind it (log.cc) this is the one piece of
// process-wide mutable state in base.
inline std::atomic<int>& MaxLogLevel() {
  static constinit std::atomic<int> level{0};
  return level;
}
bool LogLevelIsOn(std::string_view tag, int level);
inline bool LogIsOn(std::string_view tag, int level) {
  return MaxLogLevel().load(std::memory_order_relaxed) >= level && LogLevelIsOn(tag, level);
}
// "cpu" for ".../src/cpu/plan.cc".
std::string_view ModuleOf(std::string_view file);
inline bool LogIsOn(LogSeverity severity, std::string_view file) {
  if (severity != LogSeverity::info) return true;
  return MaxLogLevel().load(std::memory_order_relaxed) >= 1 && LogLevelIsOn(ModuleOf(file), 1);
}

// Collects `<< ...` and writes the line at the end of the full expression.
class LogMessage {
 public:
  LogMessage(LogSeverity severity, std::string_view tag);  // no tag: none is printed
  ~LogMessage();
  template <class T>
  LogMessage& operator<<(const T& value) {
    StrAppend(text_, value);
    return *this;
  }

 private:
  std::string text_;
};

}  // namespace detail
}  // namespace weft

#define LOG(severity)                                                            \
  if (!::weft::detail::LogIsOn(::weft::detail::LogSeverity::severity, __FILE__)) \
    ;                                                                            \
  else                                                                           \
    ::weft::detail::LogMessage(::weft::detail::LogSeverity::severity,            \
                               ::weft::detail::ModuleOf(__FILE__))

#define VLOG(tag, level)                        \
  if (!::weft::detail::LogIsOn((tag), (level))) \
    ;                                           \
  else                                          \
    ::weft::detail::LogMessage(::weft::detail::LogSeverity::verbose, (tag))

// As VLOG, for lines that begin with words of their own instead of the tag.
#define NOTE(tag, level)                        \
  if (!::weft::detail::LogIsOn((tag), (level))) \
    ;                                           \
  else                                          \
    ::weft::detail::LogMessage(::weft::detail::LogSeverity::verbose, "")
