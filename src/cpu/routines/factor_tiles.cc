#include "cpu/routines/factor_tiles.h"

#include <algorithm>
#include <cmath>

#include "program/target_facts.h"

namespace weft::cpu {
namespace {

template <class T>
struct FactorVector {
  typedef T Type __attribute__((vector_size(16)));
  static constexpr int64_t kLanes = 16 / sizeof(T);
};

template <class T>
typename FactorVector<T>::Type LoadFactor(const T* from) {
  typename FactorVector<T>::Type v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
template <class T>
void StoreFactor(typename FactorVector<T>::Type v, T* to) {
  __builtin_memcpy(to, &v, sizeof(v));
}

// kColumns columns of what SolveColumns does, for a few rows.
template <class T, int64_t kColumns>
void SolveFewRows(const T* t, int64_t t_stride, int64_t n, bool lower, bool unit, T* b,
                  int64_t b_stride) {
  using V = typename FactorVector<T>::Type;
  constexpr int64_t kLanes = FactorVector<T>::kLanes, kVectors = kColumns / kLanes;
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = lower ? step : n - 1 - step;
    T* row = b + i * b_stride;
    V sums[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) sums[v] = LoadFactor(row + v * kLanes);
    for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) {
      T x = t[i * t_stride + k];
      const T* other = b + k * b_stride;
      for (int64_t v = 0; v < kVectors; ++v) sums[v] -= LoadFactor(other + v * kLanes) * x;
    }
    if (!unit) {
      T diagonal = t[i * t_stride + i];
      for (int64_t v = 0; v < kVectors; ++v) sums[v] /= diagonal;
    }
    for (int64_t v = 0; v < kVectors; ++v) StoreFactor(sums[v], row + v * kLanes);
  }
}

// kRows x (kVectors vectors) of c -= l u.
template <class T, int kRows, int kVectors>
void SubtractTile(int64_t depth, const T* l, int64_t l_stride, const T* u, T* c, int64_t stride) {
  using V = typename FactorVector<T>::Type;
  constexpr int64_t kLanes = FactorVector<T>::kLanes;
  V sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) sums[i][v] = LoadFactor(c + i * stride + v * kLanes);
  }
  for (int64_t k = 0; k < depth; ++k) {
    V row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = LoadFactor(u + k * stride + v * kLanes);
    for (int i = 0; i < kRows; ++i) {
      for (int v = 0; v < kVectors; ++v) sums[i][v] -= row[v] * l[i * l_stride + k];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) StoreFactor(sums[i][v], c + i * stride + v * kLanes);
  }
}

template <class T, int kRows>
void SubtractRows(int64_t columns, int64_t depth, const T* l, int64_t l_stride, const T* u, T* c,
                  int64_t stride) {
  constexpr int64_t kLanes = FactorVector<T>::kLanes;
  int64_t j = 0;
  for (; j + 4 * kLanes <= columns; j += 4 * kLanes) {
    SubtractTile<T, kRows, 4>(depth, l, l_stride, u + j, c + j, stride);
  }
  for (; j + kLanes <= columns; j += kLanes) {
    SubtractTile<T, kRows, 1>(depth, l, l_stride, u + j, c + j, stride);
  }
  for (; j < columns; ++j) {
    for (int i = 0; i < kRows; ++i) {
      T sum = c[i * stride + j];
      for (int64_t k = 0; k < depth; ++k) sum -= l[i * l_stride + k] * u[k * stride + j];
      c[i * stride + j] = sum;
    }
  }
}

// By halves, so that most of it is products.
template <class T, int64_t kColumns>
void SolveSomeColumns(const T* t, int64_t t_stride, int64_t n, bool lower, bool unit, T* b,
                      int64_t b_stride) {
  constexpr int64_t kFew = program::TargetFacts::kUsualLanes;
  if (n <= kFew) return SolveFewRows<T, kColumns>(t, t_stride, n, lower, unit, b, b_stride);
  int64_t half = (n / 2 + 3) / 4 * 4, first = lower ? 0 : half, second = lower ? half : 0;
  int64_t count = lower ? half : n - half;
  SolveSomeColumns<T, kColumns>(t + first * t_stride + first, t_stride, count, lower, unit,
                                b + first * b_stride, b_stride);
  SubtractProduct(n - count, kColumns, count, t + second * t_stride + first, t_stride,
                  b + first * b_stride, b + second * b_stride, b_stride);
  SolveSomeColumns<T, kColumns>(t + second * t_stride + second, t_stride, n - count, lower, unit,
                                b + second * b_stride, b_stride);
}

}  // namespace

template <class T>
bool FactorSquare(T* a, int64_t stride, int64_t n) {
  using V = typename FactorVector<T>::Type;
  constexpr int64_t kLanes = FactorVector<T>::kLanes;
  // Whole vectors are subtracted: beyond the diagonal nobody reads what comes of it, and before
  // the columns that are left `column` is zero.
  alignas(16) T square[kFactorBlock][kFactorBlock], column[kFactorBlock];
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(a + i * stride, i + 1, square[i]);
    std::fill(square[i] + i + 1, square[i] + (i / kLanes + 1) * kLanes, T(0));
  }
  std::fill_n(column, kFactorBlock, T(0));
  for (int64_t j = 0; j < n; ++j) {
    T diagonal = square[j][j];
    if (!(diagonal > 0) || std::isinf(diagonal)) return false;
    diagonal = std::sqrt(diagonal);
    square[j][j] = diagonal;
    column[j] = 0;
    for (int64_t i = j + 1; i < n; ++i) column[i] = square[i][j] / diagonal;
    for (int64_t i = j + 1; i < n; ++i) {
      T* row = square[i];
      T x = column[i];
      row[j] = x;
      for (int64_t c = (j + 1) / kLanes * kLanes; c <= i; c += kLanes) {
        V rest = LoadFactor(row + c) - LoadFactor(column + c) * x;
        StoreFactor(rest, row + c);
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) std::copy_n(square[i], i + 1, a + i * stride);
  return true;
}

template <class T>
void SolveRows(const T* corner, int64_t stride, int64_t n, T* rows, int64_t count) {
  constexpr int64_t kLanes = 128 / sizeof(T);  // one row in each
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

template <class T>
void SolveColumns(const T* t, int64_t t_stride, int64_t n, bool lower, bool unit, T* b,
                  int64_t b_stride, int64_t m) {
  constexpr int64_t kMany = 128 / sizeof(T), kLanes = FactorVector<T>::kLanes;
  int64_t c = 0;
  for (; c + kMany <= m; c += kMany) {
    SolveSomeColumns<T, kMany>(t, t_stride, n, lower, unit, b + c, b_stride);
  }
  for (; c + kLanes <= m; c += kLanes) {
    SolveSomeColumns<T, kLanes>(t, t_stride, n, lower, unit, b + c, b_stride);
  }
  for (; c < m; ++c) {
    for (int64_t step = 0; step < n; ++step) {
      int64_t i = lower ? step : n - 1 - step;
      T sum = b[i * b_stride + c];
      for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) {
        sum -= t[i * t_stride + k] * b[k * b_stride + c];
      }
      b[i * b_stride + c] = unit ? sum : sum / t[i * t_stride + i];
    }
  }
}

template <class T>
void SubtractProduct(int64_t rows, int64_t columns, int64_t depth, const T* l, int64_t l_stride,
                     const T* u, T* c, int64_t stride) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    SubtractRows<T, 4>(columns, depth, l + i * l_stride, l_stride, u, c + i * stride, stride);
  }
  for (; i < rows; ++i) {
    SubtractRows<T, 1>(columns, depth, l + i * l_stride, l_stride, u, c + i * stride, stride);
  }
}

#define WEFT_INSTANTIATE(T)                                                                 \
  template bool FactorSquare(T*, int64_t, int64_t);                                         \
  template void SolveRows(const T*, int64_t, int64_t, T*, int64_t);                         \
  template void SolveColumns(const T*, int64_t, int64_t, bool, bool, T*, int64_t, int64_t); \
  template void SubtractProduct(int64_t, int64_t, int64_t, const T*, int64_t, const T*, T*, \
                                int64_t);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
