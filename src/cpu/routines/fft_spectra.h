// Spectra of real lines from transforms of pairs, and back. Included by fft_kernels.cc alone.
#pragma once

#include <algorithm>

#include "cpu/routines/fft_vectors.h"

namespace weft::cpu {
namespace {

// Numbers k and h - k of a spectrum of real numbers, by the same of the transform of pairs.
template <class T, class V, class W>
WEFT_FFT_INLINE void SpectrumOfPair(Pair<V>& a, Pair<V>& b, W root_re, W root_im) {
  Pair<V> even = {a.re + b.re, a.im - b.im}, odd = {a.im + b.im, b.re - a.re};
  Pair<V> turned = Product<V, W>(odd, root_re, root_im);
  even = {even.re * T(0.5), even.im * T(0.5)};
  a = even + turned;
  b = {even.re - turned.re, turned.im - even.im};
}
template <class T, class V, class W>
WEFT_FFT_INLINE void PairOfSpectrum(Pair<V>& a, Pair<V>& b, W root_re, W root_im) {
  Pair<V> even = {a.re + b.re, a.im - b.im}, odd = {a.re - b.re, a.im + b.im};
  Pair<V> turned = Product<V, W>(odd, root_re, -root_im);
  even = {even.re * T(0.5), even.im * T(0.5)};
  a = even + TurnedLeft(turned);
  b = {even.re + turned.im, turned.re - even.im};
}

// Numbers k to k + lanes - 1 of a line, and their partners.
template <class T, class V, bool kToSpectrum>
WEFT_FFT_INLINE void LinePairs(Split<const T> from, int64_t h, int64_t k, Split<const T> roots,
                               Split<T> to) {
  constexpr Form kFrom = kToSpectrum ? Form::kSplit : Form::kPairs;
  constexpr Form kTo = kToSpectrum ? Form::kPairs : Form::kSplit;
  int64_t partner = h - k - kLanesOf<V, T> + 1;
  Pair<V> a = LoadNumbers<V, kFrom, T>(from, k), b = LoadNumbers<V, kFrom, T>(from, partner);
  b = {Reversed<V, T>(b.re), Reversed<V, T>(b.im)};
  V root_re = Load<V>(roots.re + k), root_im = Load<V>(roots.im + k);
  if constexpr (kToSpectrum) {
    SpectrumOfPair<T, V, V>(a, b, root_re, root_im);
  } else {
    PairOfSpectrum<T, V, V>(a, b, root_re, root_im);
  }
  b = {Reversed<V, T>(b.re), Reversed<V, T>(b.im)};
  StoreNumbers<V, kTo, T>(a, T(1), to, k);
  StoreNumbers<V, kTo, T>(b, T(1), to, partner);
}

template <class T, int kBytes, bool kToSpectrum>
WEFT_FFT_INLINE void PairsOfLine(Split<const T> from, int64_t h, Split<const T> roots,
                                 Split<T> to) {
  using V = typename VectorOf<T, kBytes>::Type;
  constexpr int kLanes = kLanesOf<V, T>;
  if constexpr (kToSpectrum) {
    T re = from.re[0], im = from.im[0];
    to.re[0] = re + im;
    to.re[2 * h] = re - im;
    to.re[1] = to.re[2 * h + 1] = 0;
  } else {
    to.re[0] = (from.re[0] + from.re[2 * h]) / 2;
    to.im[0] = (from.re[0] - from.re[2 * h]) / 2;
  }
  int64_t last = h / 2, k = 1;
  if (last < kLanes) {
    for (; k <= last; ++k) LinePairs<T, T, kToSpectrum>(from, h, k, roots, to);
    return;
  }
  for (; k <= last; k += kLanes) {
    LinePairs<T, V, kToSpectrum>(from, h, std::min(k, last - kLanes + 1), roots, to);
  }
}

template <class T, class V, bool kToSpectrum>
WEFT_FFT_INLINE void LanePairs(Split<const T> from, int64_t at, int64_t partner, T root_re,
                               T root_im, Split<T> to) {
  Pair<V> a = LoadNumbers<V, Form::kSplit, T>(from, at);
  Pair<V> b = LoadNumbers<V, Form::kSplit, T>(from, partner);
  if constexpr (kToSpectrum) {
    SpectrumOfPair<T, V, T>(a, b, root_re, root_im);
  } else {
    PairOfSpectrum<T, V, T>(a, b, root_re, root_im);
  }
  StoreNumbers<V, Form::kSplit, T>(a, T(1), to, at);
  StoreNumbers<V, Form::kSplit, T>(b, T(1), to, partner);
}

template <class T, int kBytes, bool kToSpectrum>
WEFT_FFT_INLINE void PairsOfLanes(Split<const T> from, int64_t h, int64_t lanes,
                                  Split<const T> roots, Split<T> to) {
  using V = typename VectorOf<T, kBytes>::Type;
  constexpr int kLanes = kLanesOf<V, T>;
  for (int64_t i = 0; i < lanes; ++i) {
    if constexpr (kToSpectrum) {
      T re = from.re[i], im = from.im[i];
      to.re[i] = re + im;
      to.re[h * lanes + i] = re - im;
      to.im[i] = to.im[h * lanes + i] = 0;
    } else {
      T first = from.re[i], last = from.re[h * lanes + i];
      to.re[i] = (first + last) / 2;
      to.im[i] = (first - last) / 2;
    }
  }
  for (int64_t k = 1; k <= h / 2; ++k) {
    int64_t at = k * lanes, partner = (h - k) * lanes, i = 0;
    T re = roots.re[k], im = roots.im[k];
    for (; i + kLanes <= lanes; i += kLanes) {
      LanePairs<T, V, kToSpectrum>(from, at + i, partner + i, re, im, to);
    }
    for (; i < lanes; ++i) LanePairs<T, T, kToSpectrum>(from, at + i, partner + i, re, im, to);
  }
}

}  // namespace
}  // namespace weft::cpu
