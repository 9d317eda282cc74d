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

template <class T>
bool FactorDiagonal(T* a, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T* row = a + i * stride;
    for (int64_t j = 0; j < i; ++j) {
      const T* other = a + j * stride;
      T sum = row[j];
      for (int64_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      row[j] = sum / other[j];
    }
    T diagonal = row[i];
    for (int64_t k = 0; k < i; ++k) diagonal -= row[k] * row[k];
    if (!(diagonal > 0) || std::isinf(diagonal)) return false;
    row[i] = std::sqrt(diagonal);
  }
  return true;
}

}  // namespace

template <class T>
Result<bool> BlockedCholesky(ThreadPool* pool, T* a, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += kFactorBlock) {
    int64_t end = std::min(begin + kFactorBlock, n), width = end - begin;
    T* corner = a + begin * n + begin;
    if (!FactorDiagonal(corner, n, width)) return false;
    // The rows below: x corner^T = row.
    ForPieces(pool, n - end, static_cast<double>(width * width) / 2, [&](int64_t from, int64_t to) {
      for (int64_t i = end + from; i < end + to; ++i) {
        T* row = a + i * n + begin;
        for (int64_t j = 0; j < width; ++j) {
          const T* other = corner + j * n;
          T sum = row[j];
          for (int64_t k = 0; k < j; ++k) sum -= row[k] * other[k];
          row[j] = sum / other[j];
        }
      }
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

template Result<bool> BlockedCholesky(ThreadPool*, float*, int64_t);
template Result<bool> BlockedCholesky(ThreadPool*, double*, int64_t);
template Status BlockedSolve(ThreadPool*, const float*, int64_t, int64_t, bool, bool, float*);
template Status BlockedSolve(ThreadPool*, const double*, int64_t, int64_t, bool, bool, double*);

}  // namespace weft::cpu
