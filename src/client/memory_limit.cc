#include "client/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/str.h"

namespace weft::client {
namespace {

// The limit in one file of a cgroup; "max" and absent files are none.
int64_t CgroupFileLimit(const std::string& path) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  Result<std::string> text = ReadFile(path, 4096);
  if (!text) return kNone;
  std::string_view number(*text);
  while (!number.empty() && number.back() <= ' ') number.remove_suffix(1);
  int64_t limit = ParseInt(number).value_or(kNone);
  return limit > 0 ? limit : kNone;
}

// Limits of a group and of all groups around it.
int64_t CgroupPathLimit(const std::string& root, std::string path, std::string_view file) {
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (int depth = 0; depth < 64; ++depth) {
    limit = std::min(limit, CgroupFileLimit(StrCat(root, path, "/", file)));
    size_t slash = path.rfind('/');
    if (path.empty() || slash == path.npos) break;
    path.resize(slash);
  }
  return limit;
}

}  // namespace

int64_t AvailableMemory() {
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  int64_t limit = pages > 0 && page > 0 ? pages * page : int64_t{1} << 40;
  Result<std::string> groups = ReadFile("/proc/self/cgroup", 1 << 16);
  std::string_view lines = groups ? std::string_view(*groups) : std::string_view();
  while (!lines.empty()) {
    size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    if (path == "/") path.clear();
    if (controllers.empty()) {
      limit = std::min(limit, CgroupPathLimit("/sys/fs/cgroup", path, "memory.max"));
    } else if (controllers == "memory") {
      limit =
          std::min(limit, CgroupPathLimit("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
    }
  }
  return limit;
}

}  // namespace weft::client
