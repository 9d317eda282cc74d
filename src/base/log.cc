#include "base/log.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace weft {
namespace {

struct LogFilter {
  int all = 0;
  std::vector<std::pair<std::string, int>> tags;
};

struct LogState {
  Mutex mutex;
  LogFilter filter WEFT_GUARDED_BY(mutex);
};

// Never destroyed: threads may log until the very end.
LogState& TheLogState() {
  static LogState& state = *new LogState;
  return state;
}

Result<LogFilter> ParseLogFilter(std::string_view text) {
  LogFilter filter;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (item.empty()) continue;
    size_t equals = item.find('=');
    std::string_view number = equals == item.npos ? item : item.substr(equals + 1);
    std::optional<int64_t> level = ParseInt(number);
    if (!level || *level < 0 || *level > 9 || equals == 0) {
      return InvalidArgument(
          "log filter: expected LEVEL or TAG=LEVEL with a level of 0 to 9, not '", item, "'");
    }
    if (equals == item.npos) {
      filter.all = static_cast<int>(*level);
    } else {
      filter.tags.emplace_back(item.substr(0, equals), static_cast<int>(*level));
    }
  }
  return filter;
}

}  // namespace

Status SetLogFilter(std::string_view text) {
  LogFilter filter = TRY(ParseLogFilter(text));
  int highest = filter.all;
  for (const auto& [tag, level] : filter.tags) highest = std::max(highest, level);
  LogState& state = TheLogState();
  MutexLock lock(state.mutex);
  state.filter = std::move(filter);
  detail::MaxLogLevel().store(highest, std::memory_order_relaxed);
  return {};
}

namespace detail {

bool LogLevelIsOn(std::string_view tag, int level) {
  LogState& state = TheLogState();
  MutexLock lock(state.mutex);
  for (const auto& [name, tag_level] : state.filter.tags) {
    if (name == tag) return tag_level >= level;
  }
  return state.filter.all >= level;
}

std::string_view ModuleOf(std::string_view file) {
  size_t slash = file.rfind('/');
  if (slash == file.npos) return "weft";
  file = file.substr(0, slash);
  // The folder right under src/, also for files further down.
  size_t src = file.rfind("src/");
  if (src != file.npos && (src == 0 || file[src - 1] == '/')) {
    file = file.substr(src + 4);
    return file.substr(0, file.find('/'));
  }
  slash = file.rfind('/');
  return slash == file.npos ? file : file.substr(slash + 1);
}

LogMessage::LogMessage(LogSeverity severity, std::string_view tag) {
  text_ = "weft: ";
  if (severity == LogSeverity::error) text_.append("error: ");
  if (severity == LogSeverity::warn) text_.append("warning: ");
  if (!tag.empty()) StrAppend(text_, tag, ": ");
}

LogMessage::~LogMessage() {
  for (char& c : text_) {
    if (c == '\n') c = ' ';
  }
  text_.push_back('\n');
  std::fwrite(text_.data(), 1, text_.size(), stderr);  // one call: lines of threads do not mix
}

}  // namespace detail
}  // namespace weft
