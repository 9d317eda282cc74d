#include "cpu/routines/factor_tiles.h"

#include <algorithm>
#include <cmath>

#include "cpu/routines/machine.h"
#include "program/target_facts.h"

// Bodies are inlined into functions that carry the attribute of a machine; kBytes: of its vectors.
#define WEFT_FACTOR_INLINE [[gnu::always_inline]] inline

namespace weft::cpu {
namespace {

// Bytes of the vectors that every machine has.
constexpr int kNarrowest = program::TargetFacts::kNarrowLanes * static_cast<int>(sizeof(float));

template <class T, int kBytes>
struct FactorVector {
  typedef T Type __attribute__((vector_size(kBytes)));
};

template <class T, int kBytes>
WEFT_FACTOR_INLINE typename FactorVector<T, kBytes>::Type LoadFactor(const T* from) {
  typename FactorVector<T, kBytes>::Type v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
template <class V, class T>
WEFT_FACTOR_INLINE void StoreFactor(V v, T* to) {
  __builtin_memcpy(to, &v, sizeof(v));
}

// kVectors vectors of columns of what SolveColumns does, for a few rows.
template <class T, int kBytes, int kVectors>
WEFT_FACTOR_INLINE void SolveFewRows(const T* t, int64_t t_stride, int64_t n, bool lower, bool unit,
                                     T* b, int64_t b_stride) {
  using V = typename FactorVector<T, kBytes>::Type;
  constexpr int64_t kLanes = kBytes / int64_t{sizeof(T)};
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = lower ? step : n - 1 - step;
    T* row = b + i * b_stride;
    V sums[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) sums[v] = LoadFactor<T, kBytes>(row + v * kLanes);
    for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) {
      T x = t[i * t_stride + k];
      const T* other = b + k * b_stride;
      for (int64_t v = 0; v < kVectors; ++v) {
        sums[v] -= LoadFactor<T, kBytes>(other + v * kLanes) * x;
      }
    }
    if (!unit) {
      T diagonal = t[i * t_stride + i];
      for (int64_t v = 0; v < kVectors; ++v) sums[v] /= diagonal;
    }
    for (int64_t v = 0; v < kVectors; ++v) StoreFactor(sums[v], row + v * kLanes);
  }
}

// kRows x (kVectors vectors) of c -= l u.
template <class T, int kBytes, int kRows, int kVectors>
WEFT_FACTOR_INLINE void SubtractTile(int64_t depth, const T* l, int64_t l_stride, const T* u,
                                     int64_t u_stride, T* c, int64_t stride) {
  using V = typename FactorVector<T, kBytes>::Type;
  constexpr int64_t kLanes = kBytes / int64_t{sizeof(T)};
  V sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = LoadFactor<T, kBytes>(c + i * stride + v * kLanes);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    V row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      row[v] = LoadFactor<T, kBytes>(u + k * u_stride + v * kLanes);
    }
    for (int i = 0; i < kRows; ++i) {
      for (int v = 0; v < kVectors; ++v) sums[i][v] -= row[v] * l[i * l_stride + k];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) StoreFactor(sums[i][v], c + i * stride + v * kLanes);
  }
}

template <class T, int kBytes, int kRows>
WEFT_FACTOR_INLINE void SubtractRows(int64_t columns, int64_t depth, const T* l, int64_t l_stride,
                                     const T* u, T* c, int64_t stride) {
  constexpr int64_t kLanes = kBytes / int64_t{sizeof(T)},
                    kFewLanes = kNarrowest / int64_t{sizeof(T)};
  int64_t j = 0;
  for (; j + 4 * kLanes <= columns; j += 4 * kLanes) {
    SubtractTile<T, kBytes, kRows, 4>(depth, l, l_stride, u + j, stride, c + j, stride);
  }
  for (; j + kLanes <= columns; j += kLanes) {
    SubtractTile<T, kBytes, kRows, 1>(depth, l, l_stride, u + j, stride, c + j, stride);
  }
  for (; j + kFewLanes <= columns; j += kFewLanes) {
    SubtractTile<T, kNarrowest, kRows, 1>(depth, l, l_stride, u + j, stride, c + j, stride);
  }
  for (; j < columns; ++j) {
    for (int i = 0; i < kRows; ++i) {
      T sum = c[i * stride + j];
      for (int64_t k = 0; k < depth; ++k) sum -= l[i * l_stride + k] * u[k * stride + j];
      c[i * stride + j] = sum;
    }
  }
}

// A few rows at a time: what those that are solved contribute to them is a product.
template <class T, int kBytes, int kVectors>
WEFT_FACTOR_INLINE void SolveSomeColumns(const T* t, int64_t t_stride, int64_t n, bool lower,
                                         bool unit, T* b, int64_t b_stride) {
  constexpr int64_t kFew = program::TargetFacts::kNarrowLanes;
  for (int64_t done = 0; done < n; done += kFew) {
    int64_t some = std::min(kFew, n - done);
    int64_t row = lower ? done : n - done - some, solved = lower ? 0 : row + some;
    const T* left = t + row * t_stride + solved;
    T *to = b + row * b_stride, *from = b + solved * b_stride;
    if (some == kFew) {
      SubtractTile<T, kBytes, kFew, kVectors>(done, left, t_stride, from, b_stride, to, b_stride);
    } else {
      for (int64_t i = 0; i < some; ++i) {
        SubtractTile<T, kBytes, 1, kVectors>(done, left + i * t_stride, t_stride, from, b_stride,
                                             to + i * b_stride, b_stride);
      }
    }
    SolveFewRows<T, kBytes, kVectors>(t + row * t_stride + row, t_stride, some, lower, unit, to,
                                      b_stride);
  }
}

template <class T, int kBytes>
WEFT_FACTOR_INLINE bool FactorSquareBy(T* a, int64_t stride, int64_t n) {
  constexpr int64_t kLanes = kBytes / int64_t{sizeof(T)};
  // Whole vectors are subtracted: beyond the diagonal nobody reads what comes of it, and before
  // the columns that are left `column` is zero.
  alignas(64) T square[kFactorBlock][kFactorBlock], column[kFactorBlock];
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(a + i * stride, i + 1, square[i]);
    std::fill(square[i] + i + 1, square[i] + (i / kLanes + 1) * kLanes, T(0));
  }
  std::fill_n(column, kFactorBlock, T(0));
  for (int64_t j = 0; j < n; ++j) {
    T diagonal = square[j][j];
    if (!(diagonal > 0) || std::isinf(diagonal)) return false;
    diagonal = std::sqrt(diagonal);
    a[j * stride + j] = diagonal;
    T inverse = T(1) / diagonal;
    column[j] = 0;
    for (int64_t i = j + 1; i < n; ++i) column[i] = square[i][j] * inverse;
    for (int64_t i = j + 1; i < n; ++i) {
      T* row = square[i];
      T x = column[i];
      a[i * stride + j] = x;  // vectors of `row` are not read behind stores of parts of them
      for (int64_t c = (j + 1) / kLanes * kLanes; c <= i; c += kLanes) {
        StoreFactor(LoadFactor<T, kBytes>(row + c) - LoadFactor<T, kBytes>(column + c) * x,
                    row + c);
      }
    }
  }
  return true;
}

template <class T, int kBytes>
WEFT_FACTOR_INLINE void SolveRowsBy(const T* corner, int64_t stride, int64_t n, T* rows,
                                    int64_t count) {
  using V = typename FactorVector<T, kBytes>::Type;
  constexpr int kVectors = kBytes < 64 ? 128 / kBytes : 2;
  constexpr int64_t kLanes = kVectors * kBytes / int64_t{sizeof(T)};  // one row in each
  alignas(64) T lanes[kFactorBlock][kLanes] = {};
  for (int64_t first = 0; first < count; first += kLanes) {
    int64_t some = std::min(kLanes, count - first);
    T* from = rows + first * stride;
    for (int64_t i = 0; i < some; ++i) {
      for (int64_t j = 0; j < n; ++j) lanes[j][i] = from[i * stride + j];
    }
    for (int64_t j = 0; j < n; ++j) {
      const T* other = corner + j * stride;
      V sums[kVectors];
      __builtin_memcpy(sums, lanes[j], sizeof(sums));
      for (int64_t k = 0; k < j; ++k) {
        V solved[kVectors];
        __builtin_memcpy(solved, lanes[k], sizeof(solved));
        for (int v = 0; v < kVectors; ++v) sums[v] -= solved[v] * other[k];
      }
      for (int v = 0; v < kVectors; ++v) sums[v] /= other[j];
      __builtin_memcpy(lanes[j], sums, sizeof(sums));
    }
    for (int64_t i = 0; i < some; ++i) {
      for (int64_t j = 0; j < n; ++j) from[i * stride + j] = lanes[j][i];
    }
  }
}

template <class T, int kBytes>
WEFT_FACTOR_INLINE void SolveColumnsBy(const T* t, int64_t t_stride, int64_t n, bool lower,
                                       bool unit, T* b, int64_t b_stride, int64_t m) {
  constexpr int64_t kLanes = kBytes / int64_t{sizeof(T)},
                    kFewLanes = kNarrowest / int64_t{sizeof(T)};
  int64_t c = 0;
  for (; c + 4 * kLanes <= m; c += 4 * kLanes) {
    SolveSomeColumns<T, kBytes, 4>(t, t_stride, n, lower, unit, b + c, b_stride);
  }
  for (; c + kLanes <= m; c += kLanes) {
    SolveSomeColumns<T, kBytes, 1>(t, t_stride, n, lower, unit, b + c, b_stride);
  }
  for (; c + kFewLanes <= m; c += kFewLanes) {
    SolveSomeColumns<T, kNarrowest, 1>(t, t_stride, n, lower, unit, b + c, b_stride);
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

template <class T, int kBytes>
WEFT_FACTOR_INLINE void SubtractProductBy(int64_t rows, int64_t columns, int64_t depth, const T* l,
                                          int64_t l_stride, const T* u, T* c, int64_t stride) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    SubtractRows<T, kBytes, 4>(columns, depth, l + i * l_stride, l_stride, u, c + i * stride,
                               stride);
  }
  for (; i < rows; ++i) {
    SubtractRows<T, kBytes, 1>(columns, depth, l + i * l_stride, l_stride, u, c + i * stride,
                               stride);
  }
}

// The functions of factor_tiles.h on one machine.
template <class T>
struct FactorKernels {
  bool (*square)(T*, int64_t, int64_t);
  void (*rows)(const T*, int64_t, int64_t, T*, int64_t);
  void (*columns)(const T*, int64_t, int64_t, bool, bool, T*, int64_t, int64_t);
  void (*subtract)(int64_t, int64_t, int64_t, const T*, int64_t, const T*, T*, int64_t);
};

#define WEFT_FACTORS(NAME, TARGET, BYTES)                                                         \
  template <class T>                                                                              \
  TARGET bool Square##NAME(T* a, int64_t stride, int64_t n) {                                     \
    return FactorSquareBy<T, BYTES>(a, stride, n);                                                \
  }                                                                                               \
  template <class T>                                                                              \
  TARGET void Rows##NAME(const T* corner, int64_t stride, int64_t n, T* rows, int64_t count) {    \
    SolveRowsBy<T, BYTES>(corner, stride, n, rows, count);                                        \
  }                                                                                               \
  template <class T>                                                                              \
  TARGET void Columns##NAME(const T* t, int64_t t_stride, int64_t n, bool lower, bool unit, T* b, \
                            int64_t b_stride, int64_t m) {                                        \
    SolveColumnsBy<T, BYTES>(t, t_stride, n, lower, unit, b, b_stride, m);                        \
  }                                                                                               \
  template <class T>                                                                              \
  TARGET void Subtract##NAME(int64_t rows, int64_t columns, int64_t depth, const T* l,            \
                             int64_t l_stride, const T* u, T* c, int64_t stride) {                \
    SubtractProductBy<T, BYTES>(rows, columns, depth, l, l_stride, u, c, stride);                 \
  }                                                                                               \
  template <class T>                                                                              \
  constexpr FactorKernels<T> kFactors##NAME = {Square##NAME<T>, Rows##NAME<T>, Columns##NAME<T>,  \
                                               Subtract##NAME<T>};

WEFT_FACTORS(Narrow, , kNarrowest)
#if defined(__x86_64__)
WEFT_FACTORS(Avx2, __attribute__((target("avx2,fma"))), 32)
WEFT_FACTORS(Avx512, __attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma"))), 64)
#endif

template <class T>
const FactorKernels<T>& Best() {
#if defined(__x86_64__)
  static const FactorKernels<T>& best = HostFeatures().avx512 ? kFactorsAvx512<T>
                                        : HostFeatures().avx2 ? kFactorsAvx2<T>
                                                              : kFactorsNarrow<T>;
  return best;
#else
  return kFactorsNarrow<T>;
#endif
}

}  // namespace

template <class T>
bool FactorSquare(T* a, int64_t stride, int64_t n) {
  return Best<T>().square(a, stride, n);
}

template <class T>
void SolveRows(const T* corner, int64_t stride, int64_t n, T* rows, int64_t count) {
  Best<T>().rows(corner, stride, n, rows, count);
}

template <class T>
void SolveColumns(const T* t, int64_t t_stride, int64_t n, bool lower, bool unit, T* b,
                  int64_t b_stride, int64_t m) {
  Best<T>().columns(t, t_stride, n, lower, unit, b, b_stride, m);
}

template <class T>
void SubtractProduct(int64_t rows, int64_t columns, int64_t depth, const T* l, int64_t l_stride,
                     const T* u, T* c, int64_t stride) {
  Best<T>().subtract(rows, columns, depth, l, l_stride, u, c, stride);
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
