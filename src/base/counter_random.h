// Random bits as functions of a counter.
//
// The two generators of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), with
// 20 and 10 rounds, of a counter and a key; and splitmix64.
#pragma once

#include <array>
#include <cstdint>

namespace weft {

std::array<uint32_t, 2> Threefry2x32(std::array<uint32_t, 2> counter, std::array<uint32_t, 2> key);
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// splitmix64: number n of the stream that begins at `seed` is SplitMix(seed + n * kSplitMixStep).
inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;
inline uint64_t SplitMix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace weft
