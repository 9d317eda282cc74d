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
  // Bytes of caches that servers have at least: of a core (32 KiB, 8 ways, on Skylake to Ice Lake
  // and Zen; 64 on Neoverse), of a core (1 MiB on Skylake-SP, Zen 4, Neoverse N1 and V1), and of
  // all (a mesh of some 20 cores).
  static constexpr int64_t kFirstLevelBytes = 32 << 10, kFirstLevelWays = 8;
  static constexpr int64_t kSecondLevelBytes = 1 << 20;
  static constexpr int64_t kThirdLevelBytes = 32 << 20;
  // Numbers of f64 that the first-level cache holds.
  static constexpr int64_t kCachedNumbers = kFirstLevelBytes / 8;
  // Cycles from the address of a load to its value in the first-level cache (4 to 5).
  static constexpr int64_t kLoadCycles = 5;
  // Decoded operations that a core keeps: 4096 on Golden Cove and Zen 3, 3072 on Neoverse V1.
  static constexpr int64_t kDecodedOps = 4096;
  // General registers of x86-64; arm64 has 31.
  static constexpr int64_t kGeneralRegisters = 16;
  // Vector registers of AVX2; AVX-512 and NEON have 32. Rows and vectors of sums that products keep
  // in 32 or 16 of them: the others are for one vector of the left operand and a row of the right
  // one.
  static constexpr int64_t kVectorRegisters = 16;
  static constexpr int kWideTileRows = 8, kWideTileVectors = 3;
  static constexpr int kNarrowTileRows = 6, kNarrowTileVectors = 2;
  // Lines of which products ask for memory before they read it: latency times bandwidth of a core.
  static constexpr int64_t kLinesAhead = 4;
  // Vector registers for arguments and results of calls (System V on x86-64, AAPCS on arm64).
  static constexpr int64_t kArgumentRegisters = 8;
  // Bytes of a thread's stack, as Linux sets it (ulimit -s).
  static constexpr int64_t kThreadStackBytes = 8 << 20;
  // Work (ElementCost) that a core of servers does in a second: an operation of a vector takes
  // about a quarter nanosecond. A mispredicted branch, with what has to be fetched again, takes 10
  // ns.
  static constexpr double kWorkPerSecond = 4e9, kMispredictedWork = 40;
  // Nanoseconds of work of a piece: some times what waking a thread takes.
  static constexpr double kPieceNanoseconds = 20e3;
  // Threads that work is cut for where cuts must not depend on the machine: with fewer pieces cores
  // of servers are idle.
  static constexpr int64_t kUsualThreads = 8;
  // Tiles of AMX: rows, and bytes of each.
  static constexpr int64_t kTileRows = 16, kTileRowBytes = 64;
  // CUDA: threads of a block at most, and of a warp; bytes of registers that one thread has, and of
  // its widest access.
  static constexpr int64_t kBlockThreads = 1024, kWarpThreads = 32;
  static constexpr int64_t kThreadRegisterBytes = 1024, kAccessBytes = 16;
  // What is cut in pieces whose results are joined has at most so many of them, whatever the number
  // of cores; half of it where each needs an array of its own.
  static constexpr int64_t kJoinedPieces = 32, kJoinedArrays = kJoinedPieces / 2;
};

}  // namespace weft::program
