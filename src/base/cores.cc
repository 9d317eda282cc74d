#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/file.h"
#include "base/str.h"

namespace weft {
namespace {

constexpr int64_t kMaxCgroupFile = 1 << 20;

// The text of a small file without trailing white space; empty when there is none.
std::string CgroupFile(const std::string& path) {
  Result<std::string> text = ReadFile(path, kMaxCgroupFile);
  if (!text) return "";
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return *text;
}

void AddQuota(std::string_view quota, std::string_view period, std::optional<double>& smallest) {
  std::optional<int64_t> q = ParseInt(quota), p = ParseInt(period);
  if (!q || !p || *q <= 0 || *p <= 0) return;  // "max" and -1: no limit
  double cores = static_cast<double>(*q) / static_cast<double>(*p);
  smallest = smallest ? std::min(*smallest, cores) : cores;
}

// v2: cpu.max is "QUOTA PERIOD"; v1: two files.
void AddQuotaOf(const std::string& folder, std::optional<double>& smallest) {
  std::string both = CgroupFile(folder + "/cpu.max");
  if (size_t space = both.find(' '); space != both.npos) {
    AddQuota(std::string_view(both).substr(0, space), std::string_view(both).substr(space + 1),
             smallest);
  }
  std::string quota = CgroupFile(folder + "/cpu.cfs_quota_us");
  if (!quota.empty()) AddQuota(quota, CgroupFile(folder + "/cpu.cfs_period_us"), smallest);
}

// The cgroup and all its ancestors. Inside a container the path may not exist below the mount; its
// root then is the container's own.
void AddQuotasUpward(const std::string& mount, std::string_view path,
                     std::optional<double>& smallest) {
  while (true) {
    while (!path.empty() && path.back() == '/') path.remove_suffix(1);
    AddQuotaOf(StrCat(mount, path), smallest);
    if (path.empty()) return;
    size_t slash = path.rfind('/');
    path = slash == path.npos ? std::string_view() : path.substr(0, slash);
  }
}

bool ListsCpu(std::string_view controllers) {
  while (!controllers.empty()) {
    size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "cpu") return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

int AffinityCores() {
  // The kernel wants a mask at least as long as its own.
  for (int cpus = 1024; cpus <= 1 << 16; cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpus));
    if (set == nullptr) break;
    size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    CPU_ZERO_S(size, set);
    int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

std::optional<double> detail::CgroupCpuQuota(const std::string& root) {
  std::string text = CgroupFile(root + "/proc/self/cgroup");
  std::string_view lines = text;
  std::string mount = root + "/sys/fs/cgroup";
  std::optional<double> smallest;
  // Lines are ID:CONTROLLERS:PATH; v2 has ID 0 and no controllers.
  while (!lines.empty()) {
    size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    size_t first = line.find(':');
    size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string_view path = line.substr(second + 1);
    if (controllers.empty()) {
      AddQuotasUpward(mount, path, smallest);
      AddQuotasUpward(mount + "/unified", path, smallest);
    } else if (ListsCpu(controllers)) {
      AddQuotasUpward(StrCat(mount, "/", controllers), path, smallest);
      AddQuotasUpward(mount + "/cpu", path, smallest);
    }
  }
  return smallest;
}

int AvailableCores() {
  int cores = AffinityCores();
  if (std::optional<double> quota = detail::CgroupCpuQuota("")) {
    if (*quota < cores) cores = static_cast<int>(std::ceil(*quota));
  }
  return std::max(1, cores);
}

}  // namespace weft
