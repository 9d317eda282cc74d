// Bodies of micro-kernels: tiles of a product from packed operands and from rows as they lie.
// Vectors are the compilers' extension, so that one body serves every width. Bodies are inlined
// into functions that carry the target attribute; multiplications and additions are contracted
// (the option is set for tiles.cc alone, which alone includes this).
#pragma once

#include <algorithm>
#include <type_traits>

#include "cpu/routines/tiles.h"
#include "program/sum_order.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

#if defined(__aarch64__)
#include "cpu/routines/neon_loops.h"
#endif

#if defined(__clang__)
#define WEFT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define WEFT_UNROLL _Pragma("GCC unroll 16")
#endif
#define WEFT_INLINE [[gnu::always_inline]] inline

namespace weft::cpu {
namespace {

// Products that an accumulator of f32 takes before it is added to another one and begins anew:
// equal ones add up to within 1e-6 of exact. Other types: all of them.
template <class T>
constexpr int64_t kRun = INT64_MAX;
template <>
constexpr int64_t kRun<float> = kMostInRun;

// Rows of a tile that are read where they lie: each has a pointer in a register.
#if defined(__x86_64__)
constexpr bool kReadsRows = true;
#else
constexpr bool kReadsRows = false;  // lanes of packed vectors are operands there
#endif
constexpr int kMostPointers =
    kReadsRows ? static_cast<int>(program::TargetFacts::kGeneralRegisters) - 4 : 0;

// Steps of the contraction in one turn of the loop: leaving it is predicted then, run after run.
constexpr int kDeep = kReadsRows ? 1 : 2 * program::CodeBounds::kCopies;

template <class T, int kBytes, int kRows, int kVectors, class Sums>
WEFT_INLINE void StoreTileSums(const Sums& sums, T* c, int64_t ldc, T alpha, T beta, int used,
                               int skip) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) {
      if (i >= used) continue;
      T* to = c + i * ldc + v * kLanes;
      Vector out = sums[i][v] * alpha;
      if (beta != 0) {
        Vector old;
        __builtin_memcpy(&old, to, sizeof(old));
        out += old * beta;
      }
      if (skip == 0) {
        __builtin_memcpy(to, &out, sizeof(out));
      } else {
        for (int lane = skip; lane < kLanes; ++lane) to[lane] = out[lane];
      }
    }
  }
}

#if defined(__aarch64__)
template <class T, int kRows, int kVectors>
constexpr bool kHasLoop =
    std::is_floating_point_v<T> && kRows == kNeonRows && kVectors == kNeonVectors;

// Tile by the loop in machine code.
template <class T>
WEFT_INLINE void NeonTile(int64_t k, const T* a, const T* b, int64_t b_k, T* c, int64_t ldc,
                          T alpha, T beta, int used, int skip) {
  typedef T Vector __attribute__((vector_size(16)));
  Vector sums[kNeonRows][kNeonVectors];
  T *kept = reinterpret_cast<T*>(sums), *before = nullptr;
  bool plain = alpha == 1 && beta == 0 && used == kNeonRows && skip == 0;
  int64_t stride = b_k * int64_t{sizeof(T)};
  for (bool last = false; !last; before = kept, k -= kRun<T>) {
    last = k <= kRun<T>;
    bool to_c = last && plain;
    NeonSteps(last ? k : kRun<T>, a, b, stride, before, to_c ? c : kept,
              to_c ? ldc * int64_t{sizeof(T)} : int64_t{sizeof(sums[0])});
  }
  if (plain) return;
  StoreTileSums<T, 16, kNeonRows, kNeonVectors>(sums, c, ldc, alpha, beta, used, skip);
}
#endif

// kRows rows of c, of which `used` are stored, and kVectors vectors of columns. Rows of b are b_k
// apart, those of a kA: 0 stands for a_k. Lanes below `skip` are not stored: they were done before.
template <class T, int kBytes, int kRows, int kVectors, int kSteps = 1, int kA = kRows>
WEFT_INLINE void Tile(int64_t k, const T* a, const T* b, int64_t b_k, T* c, int64_t ldc, T alpha,
                      T beta, int used, int skip, [[maybe_unused]] int64_t a_k = 0) {
#if defined(__aarch64__)
  if constexpr (kHasLoop<T, kRows, kVectors>) {
    return NeonTile<T>(k, a, b, b_k, c, ldc, alpha, beta, used, skip);
  }
#endif
  typedef T Vector __attribute__((vector_size(kBytes)));
  [[maybe_unused]] constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  Vector sums[kRows][kVectors], before[kRows][kVectors];
  auto step = [&] [[gnu::always_inline]] {
    Vector row[kVectors];
    __builtin_memcpy(row, b, sizeof(row));
#if defined(__aarch64__)
    // Lanes of a loaded vector are operands of multiplications.
    static_assert(kRows % kLanes == 0);
    Vector column[kRows / kLanes];
    __builtin_memcpy(column, a, sizeof(column));
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      T x = column[i / kLanes][i % kLanes];
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] += row[v] * x;
    }
#else
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      T x = a[i];
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] += row[v] * x;
    }
#endif
    a += kA != 0 ? kA : a_k;
    b += b_k;
  };
  for (bool first = true;; first = false) {
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] = Vector{};
    }
    int64_t p = 0, n = k < kRun<T> ? k : kRun<T>;
    for (; p + kSteps <= n; p += kSteps) {
      WEFT_UNROLL for (int q = 0; q < kSteps; ++q) step();
    }
    for (; p < n; ++p) step();
    k -= kRun<T>;
    if (first && k <= 0) break;
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) {
        if (!first) sums[i][v] += before[i][v];
      }
    }
    if (k <= 0) break;
    __builtin_memcpy(before, sums, sizeof(before));
    asm volatile("" : : "r"(&before) : "memory");  // in memory: sums take all registers
  }
  StoreTileSums<T, kBytes, kRows, kVectors>(sums, c, ldc, alpha, beta, used, skip);
}

// The same with rows of a as they lie; b is packed. Indices count up to zero, so that no register
// has to hold their end.
template <class T, int kBytes, int kRows, int kVectors>
WEFT_INLINE void TileFromRows(int64_t runs, const void* const* table, const T* b, T* c, int64_t ldc,
                              T alpha, T beta) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  Vector sums[kRows][kVectors] = {}, before[kRows][kVectors];
  bool kept = false;
  int64_t since = 0;
  auto add_before = [&] {
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] += before[i][v];
    }
  };
  for (; runs > 0; --runs, table += 1 + kRows) {
    int64_t n = static_cast<int64_t>(reinterpret_cast<intptr_t>(table[0]));
    if (n > kRun<T> - since) {
      if (kept) add_before();
      __builtin_memcpy(before, sums, sizeof(before));
      asm volatile("" : : "r"(&before) : "memory");
      WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
        WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] = Vector{};
      }
      kept = true;
      since = 0;
    }
    since += n;
    const T* end[kRows];
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) end[i] = static_cast<const T*>(table[1 + i]) + n;
    for (int64_t p = -n; p < 0; ++p) {
      Vector row[kVectors];
      __builtin_memcpy(row, b, sizeof(row));
      b += kVectors * kBytes / static_cast<int>(sizeof(T));
      WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
        T x = end[i][p];
        WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] += row[v] * x;
      }
    }
  }
  if (kept) add_before();
  StoreTileSums<T, kBytes, kRows, kVectors>(sums, c, ldc, alpha, beta, kRows, 0);
}

template <class T, int kBytes, int kRows, int kVectors>
WEFT_INLINE void DirectRows(int64_t used, int64_t n, int64_t k, const T* a, const T* b, int64_t b_k,
                            T* c, int64_t ldc, T alpha, T beta) {
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  int rows = static_cast<int>(used);
  int64_t j = 0;
  // The last four vectors by two and two: sums of one do not keep the units busy.
  constexpr int kHalves = kVectors == 3 ? 2 : kVectors;
  auto leaves_one = [&] { return kVectors == 3 && (n - j) / kLanes == 2 * kHalves; };
  for (; j + kVectors * kLanes <= n && !leaves_one(); j += kVectors * kLanes) {
    Tile<T, kBytes, kRows, kVectors, kDeep>(k, a, b + j, b_k, c + j, ldc, alpha, beta, rows, 0);
  }
  for (; j + kHalves * kLanes <= n; j += kHalves * kLanes) {
    Tile<T, kBytes, kRows, kHalves, kDeep>(k, a, b + j, b_k, c + j, ldc, alpha, beta, rows, 0);
  }
  for (; j + kLanes <= n; j += kLanes) {
    Tile<T, kBytes, kRows, 1>(k, a, b + j, b_k, c + j, ldc, alpha, beta, rows, 0);
  }
  if (j < n) {  // the last vector overlaps the one before
    int64_t from = n - kLanes;
    Tile<T, kBytes, kRows, 1>(k, a, b + from, b_k, c + from, ldc, alpha, beta, rows,
                              static_cast<int>(j - from));
  }
}

template <class T, int kBytes, int kRows>
WEFT_INLINE void GrowRows(int64_t n, const T* a, const T* const* b, T* c, int64_t ldc) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  const T *b0 = b[0], *b1 = b[1], *b2 = b[2], *b3 = b[3];
  T x[4 * kRows];  // of its own: stores to c might change a
  __builtin_memcpy(x, a, sizeof(x));
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    Vector y0, y1, y2, y3;
    __builtin_memcpy(&y0, b0 + j, sizeof(y0));
    __builtin_memcpy(&y1, b1 + j, sizeof(y1));
    __builtin_memcpy(&y2, b2 + j, sizeof(y2));
    __builtin_memcpy(&y3, b3 + j, sizeof(y3));
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      Vector sum;
      __builtin_memcpy(&sum, c + i * ldc + j, sizeof(sum));
      Vector four = y0 * x[4 * i];
      four += y1 * x[4 * i + 1];
      four += y2 * x[4 * i + 2];
      four += y3 * x[4 * i + 3];
      sum += four;
      __builtin_memcpy(c + i * ldc + j, &sum, sizeof(sum));
    }
  }
  for (; j < n; ++j) {
    for (int i = 0; i < kRows; ++i) {
      T four = b0[j] * x[4 * i];
      four += b1[j] * x[4 * i + 1];
      four += b2[j] * x[4 * i + 2];
      four += b3[j] * x[4 * i + 3];
      c[i * ldc + j] += four;
    }
  }
}

template <class T, int kBytes>
WEFT_INLINE void Grow(int64_t used, int64_t n, const T* a, const T* const* b, T* c, int64_t ldc) {
  switch (used) {
    case 1: return GrowRows<T, kBytes, 1>(n, a, b, c, ldc);
    case 2: return GrowRows<T, kBytes, 2>(n, a, b, c, ldc);
    case 3: return GrowRows<T, kBytes, 3>(n, a, b, c, ldc);
    default: return GrowRows<T, kBytes, 4>(n, a, b, c, ldc);
  }
}

}  // namespace
}  // namespace weft::cpu
