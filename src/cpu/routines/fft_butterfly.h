// Transforms of a few numbers in registers: short vectors of them, one transform in each lane.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

// Bodies are inlined into functions that carry the attribute of a machine.
#define WEFT_FFT_INLINE [[gnu::always_inline]] inline

namespace weft::cpu {

inline constexpr int kMostUnrolledRadix = 13;  // points whose butterfly is straight code
inline constexpr int kMostRadix = 61;          // prime factors beyond take the way of the chirp

// Complex numbers. V: a vector of the compilers' extension, or a number.
template <class V>
struct Pair {
  V re, im;
};
template <class V>
WEFT_FFT_INLINE Pair<V> operator+(Pair<V> a, Pair<V> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class V>
WEFT_FFT_INLINE Pair<V> operator-(Pair<V> a, Pair<V> b) {
  return {a.re - b.re, a.im - b.im};
}
// Times i, and divided by i.
template <class V>
WEFT_FFT_INLINE Pair<V> TurnedLeft(Pair<V> a) {
  return {-a.im, a.re};
}
template <class V>
WEFT_FFT_INLINE Pair<V> TurnedRight(Pair<V> a) {
  return {a.im, -a.re};
}
template <class V, class W>
WEFT_FFT_INLINE Pair<V> Product(Pair<V> a, W re, W im) {
  return {a.re * re - a.im * im, a.re * im + a.im * re};
}

// cos and sin of 2 pi j / n, by their series: exact to more digits than a double has.
constexpr std::pair<double, double> CosineAndSine(int j, int n) {
  constexpr long double kTurn = 6.283185307179586476925286766559005768L;
  long double angle = kTurn * j / n, cosine = 0, sine = 0, term = 1;
  for (int k = 1; k < 60; ++k) {
    switch (k % 4) {
      case 1: cosine += term; break;
      case 2: sine += term; break;
      case 3: cosine -= term; break;
      default: sine -= term; break;
    }
    term *= angle / k;
  }
  return {static_cast<double>(cosine), static_cast<double>(sine)};
}

template <class T, int kRadix>
struct RootTable {
  static constexpr auto Make(bool cosines) {
    std::array<T, kRadix> table = {};
    for (int j = 0; j < kRadix; ++j) {
      auto [cosine, sine] = CosineAndSine(j, kRadix);
      table[static_cast<size_t>(j)] = static_cast<T>(cosines ? cosine : sine);
    }
    return table;
  }
  static constexpr std::array<T, kRadix> kCosine = Make(true), kSine = Make(false);
};

template <class V>
WEFT_FFT_INLINE void FourInPlace(Pair<V>& x0, Pair<V>& x1, Pair<V>& x2, Pair<V>& x3) {
  Pair<V> s = x0 + x2, d = x0 - x2, t = x1 + x3, e = TurnedRight(x1 - x3);
  x0 = s + t;
  x1 = d + e;
  x2 = s - t;
  x3 = d - e;
}

template <class V, class T>
WEFT_FFT_INLINE void EightInPlace(Pair<V>* x, T root_of_half) {
  Pair<V> a0 = x[0] + x[4], a1 = x[1] + x[5], a2 = x[2] + x[6], a3 = x[3] + x[7];
  Pair<V> b0 = x[0] - x[4], b1 = x[1] - x[5], b2 = TurnedRight(x[2] - x[6]), b3 = x[3] - x[7];
  // b1 and b3 times roots of order 8, which are left without their common factor.
  Pair<V> c1 = {b1.re + b1.im, b1.im - b1.re}, c3 = {b3.im - b3.re, -(b3.im + b3.re)};
  Pair<V> sum = c1 + c3, difference = TurnedRight(c1 - c3);
  Pair<V> s = b0 + b2, d = b0 - b2;
  FourInPlace(a0, a1, a2, a3);
  x[0] = a0;
  x[2] = a1;
  x[4] = a2;
  x[6] = a3;
  x[1] = {s.re + sum.re * root_of_half, s.im + sum.im * root_of_half};
  x[5] = {s.re - sum.re * root_of_half, s.im - sum.im * root_of_half};
  x[3] = {d.re + difference.re * root_of_half, d.im + difference.im * root_of_half};
  x[7] = {d.re - difference.re * root_of_half, d.im - difference.im * root_of_half};
}

// An odd number of them: element j goes with element radix - j. `half`: radix / 2.
template <class V, class T>
WEFT_FFT_INLINE void OddInPlace(Pair<V>* x, int radix, const T* cosine, const T* sine,
                                Pair<V>* sums, Pair<V>* differences) {
  int half = radix / 2;
  Pair<V> first = x[0], all = x[0];
  for (int j = 1; j <= half; ++j) {
    sums[j - 1] = x[j] + x[radix - j];
    differences[j - 1] = x[j] - x[radix - j];
    all = all + sums[j - 1];
  }
  x[0] = all;
  for (int k = 1; k <= half; ++k) {
    Pair<V> even = first, odd = {differences[0].re * sine[k], differences[0].im * sine[k]};
    for (int j = 1, at = k; j <= half; ++j, at += k) {
      if (at >= radix) at -= radix;
      even.re += sums[j - 1].re * cosine[at];
      even.im += sums[j - 1].im * cosine[at];
      if (j == 1) continue;
      odd.re += differences[j - 1].re * sine[at];
      odd.im += differences[j - 1].im * sine[at];
    }
    x[k] = even + TurnedRight(odd);
    x[radix - k] = even + TurnedLeft(odd);
  }
}

// The forward transform of kRadix numbers in place.
template <int kRadix, class T, class V>
WEFT_FFT_INLINE void TransformInPlace(Pair<V>* x) {
  if constexpr (kRadix == 2) {
    Pair<V> a = x[0], b = x[1];
    x[0] = a + b;
    x[1] = a - b;
  } else if constexpr (kRadix == 4) {
    FourInPlace(x[0], x[1], x[2], x[3]);
  } else if constexpr (kRadix == 8) {
    EightInPlace(x, RootTable<T, 8>::kCosine[1]);
  } else if constexpr (kRadix % 2 == 1 && kRadix > 1) {
    using Roots = RootTable<T, kRadix>;
    Pair<V> sums[kRadix / 2], differences[kRadix / 2];
    OddInPlace(x, kRadix, Roots::kCosine.data(), Roots::kSine.data(), sums, differences);
  }
}

}  // namespace weft::cpu
