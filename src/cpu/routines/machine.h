// What micro-kernels ask of the processor they find themselves on: instructions and caches.
#pragma once

#include <cstdint>

namespace weft::cpu {

// Instructions that the processor has and the system lets a process use.
struct ProcessorFeatures {
  bool avx2 = false;         // and fma
  bool avx512 = false;       // f, bw, dq, vl
  bool avx512_vnni = false;  // dot products of four int8
  bool avx512_bf16 = false;  // dot products of two bf16
  bool amx_bf16 = false;     // matrix units, for which the system gave permission
  bool amx_int8 = false;
  bool bf16 = false;  // arm64: products of 2 x 4 by 4 x 2 bf16 (BFMMLA)
  bool i8mm = false;  // and of 2 x 8 by 8 x 2 int8 (SMMLA, UMMLA, USMMLA)
};

// Asked once; for AMX that includes the request for permission to use tiles (Linux keeps their
// state for the threads of processes that asked).
const ProcessorFeatures& HostFeatures();

// Matrix instructions of arm64: bytes of a vector, and of a row or column of its two. Pairs of rows
// and of columns of sums that products keep in 32 registers: the others are for a vector of each
// pair of rows and some of columns.
struct SquareInstructions {
  static constexpr int kVectorBytes = 16, kRowBytes = 8;
  static constexpr int kRowPairs = 4, kColPairs = 6;
};

// Bytes; 0: not known.
struct CacheSizes {
  int64_t l1 = 0, l2 = 0;  // of a core
  int64_t l3 = 0;          // in all
  int64_t line = 0;
};
const CacheSizes& HostCaches();

// Bytes a nanosecond that a core gets from memory while all of them read: 4 to 9 on servers of 2 to
// 16 cores.
inline constexpr double kCoreReads = 5;

}  // namespace weft::cpu
