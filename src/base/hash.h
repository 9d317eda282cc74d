// Combining hashes. Not stable between versions: never written to files.
#pragma once

#include <cstdint>

namespace weft {

inline uint64_t MixHash(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdull;
}

}  // namespace weft
