// The two generators of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), with
// 20 and 10 rounds: bits as a function of a counter and a key.
#pragma once

#include <array>
#include <cstdint>

namespace weft {

std::array<uint32_t, 2> Threefry2x32(std::array<uint32_t, 2> counter, std::array<uint32_t, 2> key);
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace weft
