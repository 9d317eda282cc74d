// Facts of machines that hold for every CPU that code is made for, whatever its TargetInfo says:
// results, and the order of sums, must not depend on which one it is.
#pragma once

#include <cstdint>

namespace weft::program {

struct TargetFacts {
  // f32 lanes of the vectors that every CPU has (SSE2, NEON): a square of them is transposed in
  // registers.
  static constexpr int64_t kNarrowLanes = 4;
  // f32 lanes of the vectors that most CPUs have (AVX2): shorter runs are not worth vectors.
  static constexpr int64_t kUsualLanes = 8;
  // Bytes of a cache line of CPUs, and of their widest vectors: arrays are aligned to it.
  static constexpr int64_t kLineBytes = 64;
  // Bytes of the least page: arrays up to it count as small.
  static constexpr int64_t kLeastPageBytes = 4096;
  // Numbers of f64 that the least first-level cache of servers (32 KiB) holds.
  static constexpr int64_t kCachedNumbers = 4096;
  // What is cut in pieces whose results are joined has at most so many of them, whatever the number
  // of cores; half of it where each needs an array of its own.
  static constexpr int64_t kJoinedPieces = 32, kJoinedArrays = kJoinedPieces / 2;
};

}  // namespace weft::program
