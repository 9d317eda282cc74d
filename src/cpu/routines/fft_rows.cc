// Rows of numbers to lanes and back; spectra of two real lines at once.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/routines/fft_vectors.h"

namespace weft::cpu {
namespace {

// Four vectors of four or two of two, turned.
template <class V, class T>
WEFT_FFT_INLINE void TurnSquare(V* x) {
  if constexpr (kLanesOf<V, T> == 2) {
    V a = x[0], b = x[1];
    x[0] = InTurn<V, T>(a, b, 0);
    x[1] = InTurn<V, T>(a, b, 1);
  } else {
    V a = InTurn<V, T>(x[0], x[1], 0), b = InTurn<V, T>(x[0], x[1], 1);
    V c = InTurn<V, T>(x[2], x[3], 0), d = InTurn<V, T>(x[2], x[3], 1);
    x[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    x[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    x[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    x[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
  }
}

// Where column r of rows is among the lanes.
template <class T>
T* ColumnAt(Split<T> x, int64_t r, int64_t lanes, bool complex) {
  if (!complex) return x.re + r * lanes;
  return (r % 2 == 0 ? x.re : x.im) + r / 2 * lanes;
}

template <class T, bool kComplex>
void LoadRowsOf(const T* rows, int64_t stride, int64_t columns, int64_t lanes, Split<T> to) {
  using V = typename VectorOf<T, 16>::Type;
  constexpr int kLanes = kLanesOf<V, T>;
  int64_t whole = lanes / kLanes * kLanes, r = 0;
  for (; r + kLanes <= columns; r += kLanes) {
    for (int64_t i = 0; i < whole; i += kLanes) {
      V x[kLanes];
      for (int j = 0; j < kLanes; ++j) x[j] = Load<V>(rows + (i + j) * stride + r);
      TurnSquare<V, T>(x);
      for (int j = 0; j < kLanes; ++j) Store(x[j], ColumnAt(to, r + j, lanes, kComplex) + i);
    }
  }
  for (int64_t i = 0; i < lanes; ++i) {
    for (int64_t c = i < whole ? r : 0; c < columns; ++c) {
      ColumnAt(to, c, lanes, kComplex)[i] = rows[i * stride + c];
    }
  }
}

template <class T, bool kComplex>
void StoreRowsOf(Split<const T> from, int64_t columns, int64_t lanes, T scale, T* rows,
                 int64_t stride) {
  using V = typename VectorOf<T, 16>::Type;
  constexpr int kLanes = kLanesOf<V, T>;
  int64_t whole = lanes / kLanes * kLanes, r = 0;
  for (; r + kLanes <= columns; r += kLanes) {
    for (int64_t i = 0; i < whole; i += kLanes) {
      V x[kLanes];
      for (int j = 0; j < kLanes; ++j) {
        x[j] = Load<V>(ColumnAt(from, r + j, lanes, kComplex) + i) * scale;
      }
      TurnSquare<V, T>(x);
      for (int j = 0; j < kLanes; ++j) Store(x[j], rows + (i + j) * stride + r);
    }
  }
  for (int64_t i = 0; i < lanes; ++i) {
    for (int64_t c = i < whole ? r : 0; c < columns; ++c) {
      rows[i * stride + c] = ColumnAt(from, c, lanes, kComplex)[i] * scale;
    }
  }
}

// The largest absolute value of each lane; false: a number is not finite.
template <class T>
bool LargestOfLanes(Split<T> x, int64_t n, int64_t lanes, T* largest) {
  using V = typename VectorOf<T, 16>::Type;
  constexpr int kLanes = kLanesOf<V, T>;
  T poison = 0;  // infinity and NaN times zero stay
  for (int64_t i = 0; i < lanes;) {
    const bool whole = i + kLanes <= lanes;
    V most = {}, sum = {};
    for (const T* from : {x.re, x.im}) {
      for (int64_t at = i; from != nullptr && at < n * lanes; at += lanes) {
        V value = {};
        if (whole) {
          value = Load<V>(from + at);
        } else {
          value[0] = from[at];
        }
        sum += value * T(0);
        V size = value < 0 ? -value : value;
        most = size > most ? size : most;
      }
    }
    for (int j = 0; j < (whole ? kLanes : 1); ++j, ++i) {
      largest[i] = most[j];
      poison += sum[j];
    }
  }
  return poison == 0;
}

// Whether no lane of one has numbers much larger than that of the other.
template <class T>
bool AreNear(const T* a, const T* b, int64_t lanes) {
  constexpr T kNear = 8;  // times: three bits more are rounded away
  for (int64_t i = 0; i < lanes; ++i) {
    if (a[i] > kNear * b[i] || b[i] > kNear * a[i]) return false;
  }
  return true;
}

// Lanes times powers of two that make their largest numbers about 1; their inverses, and 0 for a
// lane of zeroes, whose results are zeroes.
template <class T>
void ScaleToOne(Split<T> x, int64_t n, int64_t lanes, T* sizes) {
  constexpr int kMost = std::numeric_limits<T>::max_exponent - 2;  // has an inverse
  for (int64_t i = 0; i < lanes; ++i) {
    if (sizes[i] > 0) sizes[i] = std::ldexp(T(1), -std::clamp(std::ilogb(sizes[i]), -kMost, kMost));
  }
  MultiplyLanes(x, n, lanes, sizes);
  for (int64_t i = 0; i < lanes; ++i) sizes[i] = sizes[i] > 0 ? 1 / sizes[i] : 0;
}

}  // namespace

template <class T>
void LoadRows(const T* rows, int64_t stride, int64_t n, int64_t lanes, bool complex, Split<T> to) {
  complex ? LoadRowsOf<T, true>(rows, stride, 2 * n, lanes, to)
          : LoadRowsOf<T, false>(rows, stride, n, lanes, to);
}
template <class T>
void StoreRows(Split<const T> from, int64_t n, int64_t lanes, bool complex, T scale, T* rows,
               int64_t stride) {
  complex ? StoreRowsOf<T, true>(from, 2 * n, lanes, scale, rows, stride)
          : StoreRowsOf<T, false>(from, n, lanes, scale, rows, stride);
}
template <class T>
void MultiplyLanes(Split<T> x, int64_t n, int64_t lanes, const T* sizes) {
  for (T* to : {x.re, x.im}) {
    for (int64_t at = 0; to != nullptr && at < n * lanes; at += lanes) {
      for (int64_t i = 0; i < lanes; ++i) to[at + i] *= sizes[i];
    }
  }
}
template <class T>
Scaling ScaleLanes(const LanePair<T>& pair, int64_t n, int64_t lanes) {
  if (!LargestOfLanes(pair.first, n, lanes, pair.first_sizes) ||
      !LargestOfLanes(pair.second, n, lanes, pair.second_sizes)) {
    return Scaling::kNotFinite;
  }
  if (AreNear(pair.first_sizes, pair.second_sizes, lanes)) return Scaling::kNone;
  ScaleToOne(pair.first, n, lanes, pair.first_sizes);
  ScaleToOne(pair.second, n, lanes, pair.second_sizes);
  return Scaling::kScaled;
}
template <class T>
void SeparateSpectra(Split<const T> z, int64_t n, int64_t lanes, Split<T> a, Split<T> b) {
  for (int64_t k = 0; k <= n / 2; ++k) {
    int64_t at = k * lanes, other = (n - k) % n * lanes;
    for (int64_t i = 0; i < lanes; ++i) {
      T x_re = z.re[at + i], x_im = z.im[at + i], y_re = z.re[other + i], y_im = z.im[other + i];
      a.re[at + i] = (x_re + y_re) * T(0.5);
      a.im[at + i] = (x_im - y_im) * T(0.5);
      b.re[at + i] = (x_im + y_im) * T(0.5);
      b.im[at + i] = (y_re - x_re) * T(0.5);
    }
  }
}
template <class T>
void JoinSpectra(Split<const T> a, Split<const T> b, int64_t n, int64_t lanes, Split<T> z) {
  for (int64_t i = 0; i < lanes; ++i) {
    z.re[i] = a.re[i];
    z.im[i] = b.re[i];
  }
  for (int64_t k = 1; k <= n / 2; ++k) {
    int64_t at = k * lanes, other = (n - k) * lanes;
    for (int64_t i = 0; i < lanes; ++i) {
      T a_re = a.re[at + i], a_im = a.im[at + i], b_re = b.re[at + i], b_im = b.im[at + i];
      z.re[at + i] = a_re - b_im;
      z.im[at + i] = a_im + b_re;
      z.re[other + i] = a_re + b_im;
      z.im[other + i] = b_re - a_im;
    }
  }
}

#define WEFT_INSTANTIATE(T)                                                            \
  template void LoadRows(const T*, int64_t, int64_t, int64_t, bool, Split<T>);         \
  template void StoreRows(Split<const T>, int64_t, int64_t, bool, T, T*, int64_t);     \
  template Scaling ScaleLanes(const LanePair<T>&, int64_t, int64_t);                   \
  template void MultiplyLanes(Split<T>, int64_t, int64_t, const T*);                   \
  template void SeparateSpectra(Split<const T>, int64_t, int64_t, Split<T>, Split<T>); \
  template void JoinSpectra(Split<const T>, Split<const T>, int64_t, int64_t, Split<T>);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
