// How much memory this process may use.
#pragma once

#include <cstdint>

namespace weft::client {

// The smaller of the machine's RAM and the limits of the cgroups (v1 and v2) the process is in.
int64_t AvailableMemory();

}  // namespace weft::client
