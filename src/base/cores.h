// How many CPU cores this process may use.
#pragma once

#include <optional>
#include <string>

namespace weft {

// The smaller of the affinity mask and the CPU quotas of the cgroups (v1 and v2) the process is in,
// rounded up; at least 1.
int AvailableCores();

namespace detail {
// The smallest CPU quota, in cores, on the way from the process's cgroups to their roots; nullopt
// when there is none. `root` is put in front of /proc/self/cgroup and /sys/fs/cgroup.
std::optional<double> CgroupCpuQuota(const std::string& root);
}  // namespace detail

}  // namespace weft
