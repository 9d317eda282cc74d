#include "cpu/routines/blocked.h"

#include <algorithm>
#include <cmath>

#include "cpu/routines/field.h"
#include "cpu/routines/multiply.h"

namespace weft::cpu {
namespace {

constexpr int64_t kFactorBlock = 48;
constexpr int64_t kUpdateColumns = 192;  // of the part that a step changes, at a time

template <class T>
StridedPanels<T> PanelsOf(const T* data, int64_t vector_stride, int64_t k_stride) {
  return {sizeof(T) == 4 ? DType::kF32 : DType::kF64, reinterpret_cast<const std::byte*>(data),
          vector_stride, k_stride};
}

// Column by column; each is then taken from what is right of it and below.
template <class T>
bool FactorDiagonal(T* a, int64_t stride, int64_t n) {
  T column[kFactorBlock];
  for (int64_t j = 0; j < n; ++j) {
    T diagonal = a[j * stride + j];
    if (!(diagonal > 0) || std::isinf(diagonal)) return false;
    diagonal = std::sqrt(diagonal);
    a[j * stride + j] = diagonal;
    for (int64_t i = j + 1; i < n; ++i) column[i] = a[i * stride + j] / diagonal;
    for (int64_t i = j + 1; i < n; ++i) {
      T* row = a + i * stride;
      row[j] = column[i];
      AddTimes(-column[i], column + j + 1, i - j, row + j + 1);
    }
  }
  return true;
}

// x corner^T = row for `count` rows of n elements, in place, some rows at a time: one in each lane.
template <class T>
void SolveRows(const T* corner, int64_t stride, int64_t n, T* rows, int64_t count) {
  constexpr int64_t kLanes = 128 / sizeof(T);
  T lanes[kFactorBlock][kLanes] = {};
  for (int64_t first = 0; first < count; first += kLanes) {
    int64_t some = std::min(kLanes, count - first);
    T* from = rows + first * stride;
    for (int64_t i = 0; i < some; ++i) {
      for (int64_t j = 0; j < n; ++j) lanes[j][i] = from[i * stride + j];
    }
    for (int64_t j = 0; j < n; ++j) {
      const T* other = corner + j * stride;
      T sums[kLanes];
      std::copy_n(lanes[j], kLanes, sums);
      for (int64_t k = 0; k < j; ++k) {
        for (int64_t i = 0; i < kLanes; ++i) sums[i] -= lanes[k][i] * other[k];
      }
      for (int64_t i = 0; i < kLanes; ++i) lanes[j][i] = sums[i] / other[j];
    }
    for (int64_t i = 0; i < some; ++i) {
      for (int64_t j = 0; j < n; ++j) from[i * stride + j] = lanes[j][i];
    }
  }
}

}  // namespace

template <class T>
Result<bool> BlockedCholesky(ThreadPool* pool, T* a, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += kFactorBlock) {
    int64_t end = std::min(begin + kFactorBlock, n), width = end - begin;
    T* corner = a + begin * n + begin;
    if (!FactorDiagonal(corner, n, width)) return false;
    ForPieces(pool, n - end, static_cast<double>(width * width) / 8, [&](int64_t from, int64_t to) {
      SolveRows(corner, n, width, a + (end + from) * n + begin, to - from);
    });
    for (int64_t j = end; j < n; j += kUpdateColumns) {
      const T* left = a + j * n + begin;
      TRY(Multiply<T>(pool, n - j, std::min(kUpdateColumns, n - j), width, PanelsOf(left, n, 1),
                      PanelsOf(left, n, 1), a + j * n + j, n, T(-1), T(1)));
    }
  }
  return true;
}

template <class T>
Status BlockedSolve(ThreadPool* pool, const T* t, int64_t n, int64_t m, bool lower, bool unit,
                    T* b) {
  int64_t blocks = (n + kFactorBlock - 1) / kFactorBlock;
  for (int64_t step = 0; step < blocks; ++step) {
    int64_t begin = (lower ? step : blocks - 1 - step) * kFactorBlock;
    int64_t end = std::min(begin + kFactorBlock, n);
    ForPieces(pool, m, static_cast<double>((end - begin) * (end - begin)) / 8,
              [&](int64_t from, int64_t to) {
                for (int64_t s = 0; s < end - begin; ++s) {
                  int64_t i = lower ? begin + s : end - 1 - s;
                  T* row = b + i * m;
                  for (int64_t k = lower ? begin : i + 1; k < (lower ? i : end); ++k) {
                    AddTimes(-t[i * n + k], b + k * m + from, to - from, row + from);
                  }
                  for (int64_t c = from; c < to && !unit; ++c) row[c] /= t[i * n + i];
                }
              });
    int64_t first = lower ? end : 0, count = lower ? n - end : begin;
    if (count == 0) continue;
    TRY(Multiply<T>(pool, count, m, end - begin, PanelsOf(t + first * n + begin, n, 1),
                    PanelsOf<T>(b + begin * m, 1, m), b + first * m, m, T(-1), T(1)));
  }
  return {};
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

template Result<bool> BlockedCholesky(ThreadPool*, float*, int64_t);
template Result<bool> BlockedCholesky(ThreadPool*, double*, int64_t);
template Status BlockedSolve(ThreadPool*, const float*, int64_t, int64_t, bool, bool, float*);
template Status BlockedSolve(ThreadPool*, const double*, int64_t, int64_t, bool, bool, double*);
template void SolveVectors(const float*, int64_t, int64_t, bool, bool, bool, float*);
template void SolveVectors(const double*, int64_t, int64_t, bool, bool, bool, double*);

}  // namespace weft::cpu
