#include "cpu/routines/blocked.h"

#include <algorithm>
#include <cmath>

#include "cpu/routines/factor_tiles.h"
#include "cpu/routines/field.h"
#include "cpu/routines/multiply.h"

namespace weft::cpu {
namespace {

constexpr int64_t kUpdateColumns = 4 * kFactorBlock;  // of the part that a step changes, at a time

template <class T>
StridedPanels<T> PanelsOf(const T* data, int64_t vector_stride, int64_t k_stride) {
  return {sizeof(T) == 4 ? DType::kF32 : DType::kF64, reinterpret_cast<const std::byte*>(data),
          vector_stride, k_stride};
}

// Where a triangle is cut in two.
int64_t HalfOf(int64_t n) {
  return (n / 2 + kFactorBlock - 1) / kFactorBlock * kFactorBlock;
}

}  // namespace

template <class T>
Result<bool> BlockedCholesky(const Means& means, T* a, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += kFactorBlock) {
    int64_t end = std::min(begin + kFactorBlock, n), width = end - begin;
    T* corner = a + begin * n + begin;
    if (!FactorSquare(corner, n, width)) return false;
    ForPieces(means.pool, n - end, static_cast<double>(width * width) / 8,
              [&](int64_t from, int64_t to) {
                SolveRows(corner, n, width, a + (end + from) * n + begin, to - from);
              });
    for (int64_t j = end; j < n; j += kUpdateColumns) {
      const T* left = a + j * n + begin;
      TRY(Multiply<T>(means, n - j, std::min(kUpdateColumns, n - j), width, PanelsOf(left, n, 1),
                      PanelsOf(left, n, 1), a + j * n + j, n, T(-1), T(1)));
    }
  }
  return true;
}

template <class T>
int64_t BlockedCholeskyScratch(int64_t n, int64_t threads) {
  int64_t rest = std::max<int64_t>(n - kFactorBlock, 0);  // of the first step, which takes the most
  return MultiplyScratch<T>(rest, std::min(kUpdateColumns, rest), kFactorBlock, threads);
}

template <class T>
Status BlockedSolve(const Means& means, const T* t, int64_t t_stride, int64_t n, bool lower,
                    bool unit, T* b, int64_t b_stride, int64_t m) {
  if (n <= kFactorBlock) {
    double cost = static_cast<double>(n * n) / 16;
    ForPieces(means.pool, m, cost, [&](int64_t from, int64_t to) {
      SolveColumns(t, t_stride, n, lower, unit, b + from, b_stride, to - from);
    });
    return {};
  }
  // One half, its product, then the other: products are as deep as they can be.
  int64_t half = HalfOf(n);
  int64_t first = lower ? 0 : half, first_count = lower ? half : n - half;
  int64_t second = lower ? half : 0, second_count = n - first_count;
  TRY(BlockedSolve(means, t + first * t_stride + first, t_stride, first_count, lower, unit,
                   b + first * b_stride, b_stride, m));
  TRY(Multiply<T>(means, second_count, m, first_count,
                  PanelsOf(t + second * t_stride + first, t_stride, 1),
                  PanelsOf<T>(b + first * b_stride, 1, b_stride), b + second * b_stride, b_stride,
                  T(-1), T(1)));
  return BlockedSolve(means, t + second * t_stride + second, t_stride, second_count, lower, unit,
                      b + second * b_stride, b_stride, m);
}

template <class T>
int64_t BlockedSolveScratch(int64_t n, int64_t m, int64_t threads) {
  if (n <= kFactorBlock) return 0;
  int64_t half = HalfOf(n);
  return std::max({BlockedSolveScratch<T>(half, m, threads),
                   BlockedSolveScratch<T>(n - half, m, threads),
                   MultiplyScratch<T>(half, m, n - half, threads),
                   MultiplyScratch<T>(n - half, m, half, threads)});
}

template <class T>
void SolveVectors(const T* t, int64_t n, int64_t m, bool lower, bool transpose, bool unit, T* b) {
  // A transpose is solved from its other end: a row of t is then a column, and is subtracted from
  // what is still to be solved.
  bool forward = lower != transpose;
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = forward ? step : n - 1 - step;
    const T* row = t + i * n;
    int64_t begin = lower ? 0 : i + 1, count = lower ? i : n - 1 - i;
    for (int64_t c = 0; c < m; ++c) {
      T* x = b + c * n;
      if (!transpose) x[i] -= DotConjugate(row + begin, x + begin, count);
      if (!unit) x[i] /= row[i];
      if (transpose) AddTimes(-x[i], row + begin, count, x + begin);
    }
  }
}

template Result<bool> BlockedCholesky(const Means&, float*, int64_t);
template Result<bool> BlockedCholesky(const Means&, double*, int64_t);
template Status BlockedSolve(const Means&, const float*, int64_t, int64_t, bool, bool, float*,
                             int64_t, int64_t);
template Status BlockedSolve(const Means&, const double*, int64_t, int64_t, bool, bool, double*,
                             int64_t, int64_t);
template int64_t BlockedCholeskyScratch<float>(int64_t, int64_t);
template int64_t BlockedCholeskyScratch<double>(int64_t, int64_t);
template int64_t BlockedSolveScratch<float>(int64_t, int64_t, int64_t);
template int64_t BlockedSolveScratch<double>(int64_t, int64_t, int64_t);
template void SolveVectors(const float*, int64_t, int64_t, bool, bool, bool, float*);
template void SolveVectors(const double*, int64_t, int64_t, bool, bool, bool, double*);

}  // namespace weft::cpu
