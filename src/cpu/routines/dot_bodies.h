// Bodies of micro-kernels: dot products of rows. See tile_bodies.h.
#pragma once

#include "cpu/routines/tile_bodies.h"

namespace weft::cpu {
namespace {

// Of the accumulators of dot products, which are many.
constexpr int64_t kDotRun = program::SumOrder::kRun;

template <class T>
WEFT_INLINE T Combined(T sum, T alpha, T beta, T old) {
  return alpha * sum + beta * old;
}

template <class T, int kBytes, int kRows>
WEFT_INLINE void DotRows(int64_t k, const T* a, int64_t a_row, const T* x, T* sums) {
  using Sum = DotSum<T>;
  typedef T Vector __attribute__((vector_size(kBytes)));
  typedef Sum Wide __attribute__((vector_size(kBytes * sizeof(Sum) / sizeof(T))));
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T)),
                kVectors = program::CodeBounds::kCopies;
  constexpr int64_t kAtOnce = kVectors * kLanes;
  Wide all[kRows];
  WEFT_UNROLL for (int i = 0; i < kRows; ++i) all[i] = Wide{};
  int64_t p = 0;
  for (int64_t whole = k - k % kAtOnce; p < whole;) {
    int64_t end = whole - p > kDotRun * kAtOnce ? p + kDotRun * kAtOnce : whole;
    Vector parts[kRows][kVectors];
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) parts[i][v] = Vector{};
    }
    for (; p < end; p += kAtOnce) {
      Vector factors[kVectors];
      __builtin_memcpy(factors, x + p, sizeof(factors));
      WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
        Vector row[kVectors];
        __builtin_memcpy(row, a + i * a_row + p, sizeof(row));
        WEFT_UNROLL for (int v = 0; v < kVectors; ++v) parts[i][v] += row[v] * factors[v];
      }
    }
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      Vector run = (parts[i][0] + parts[i][1]) + (parts[i][2] + parts[i][3]);
      all[i] += __builtin_convertvector(run, Wide);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    Sum sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += all[i][lane];
    T rest = 0;
    for (int64_t q = p; q < k; ++q) rest += a[i * a_row + q] * x[q];
    sums[i] = static_cast<T>(sum + static_cast<Sum>(rest));
  }
}

// The sum of all lanes: halves are added to each other while they are vectors.
template <class Sum, class T, int kBytes, class Vector>
WEFT_INLINE Sum SumOfLanes(const Vector& lanes) {
  constexpr int kHalf = kBytes / 2;
  typedef T Narrow __attribute__((vector_size(kHalf)));
  typedef Sum Wide __attribute__((vector_size(kHalf * sizeof(Sum) / sizeof(T))));
  Narrow halves[2];
  __builtin_memcpy(halves, &lanes, sizeof(halves));
  Wide sum = __builtin_convertvector(halves[0], Wide) + __builtin_convertvector(halves[1], Wide);
  if constexpr (sizeof(Wide) > 16) {
    return SumOfLanes<Sum, Sum, static_cast<int>(sizeof(Wide))>(sum);
  } else {
    Sum all = 0;
    for (int lane = 0; lane < kHalf / static_cast<int>(sizeof(T)); ++lane) all += sum[lane];
    return all;
  }
}

// A vector of every row at a time: each is an operand of kDotSquare multiplications.
template <class T, int kBytes>
WEFT_INLINE void DotSquareRows(int64_t k, const T* a, int64_t a_row, const T* b, int64_t b_row,
                               DotSum<T>* sums) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T)), kSide = kDotSquare;
  int64_t p = 0;
  for (int64_t whole = k - k % kLanes; p < whole;) {
    int64_t end = whole - p > kMostInRun * kLanes ? p + kMostInRun * kLanes : whole;
    Vector parts[kSide][kSide];
    WEFT_UNROLL for (int i = 0; i < kSide; ++i) {
      WEFT_UNROLL for (int j = 0; j < kSide; ++j) parts[i][j] = Vector{};
    }
    for (; p < end; p += kLanes) {
      Vector right[kSide];
      WEFT_UNROLL for (int j = 0; j < kSide; ++j) {
        __builtin_memcpy(&right[j], b + j * b_row + p, sizeof(Vector));
      }
      WEFT_UNROLL for (int i = 0; i < kSide; ++i) {
        Vector left;
        __builtin_memcpy(&left, a + i * a_row + p, sizeof(Vector));
        WEFT_UNROLL for (int j = 0; j < kSide; ++j) parts[i][j] += left * right[j];
      }
    }
    WEFT_UNROLL for (int i = 0; i < kSide; ++i) {
      WEFT_UNROLL for (int j = 0; j < kSide; ++j) {
        sums[i * kSide + j] += SumOfLanes<DotSum<T>, T, kBytes>(parts[i][j]);
      }
    }
  }
  for (; p < k; ++p) {
    for (int q = 0; q < kSide * kSide; ++q) {
      sums[q] += static_cast<DotSum<T>>(a[q / kSide * a_row + p]) * b[q % kSide * b_row + p];
    }
  }
}

template <class T, int kBytes>
WEFT_INLINE void RowsTimesVector(int64_t m, int64_t k, const T* a, int64_t a_row, const T* x, T* c,
                                 int64_t c_row, T alpha, T beta) {
  for (int64_t i = 0; i < m;) {
    T sums[4];
    int64_t n = m - i >= 4 ? 4 : 1;
    if (n == 4) {
      DotRows<T, kBytes, 4>(k, a + i * a_row, a_row, x, sums);
    } else {
      DotRows<T, kBytes, 1>(k, a + i * a_row, a_row, x, sums);
    }
    for (int64_t r = 0; r < n; ++r, ++i) {
      T& to = c[i * c_row];
      to = Combined(sums[r], alpha, beta, beta != 0 ? to : T(0));
    }
  }
}

}  // namespace
}  // namespace weft::cpu
