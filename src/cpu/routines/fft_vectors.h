// Vectors of Fourier transforms and their shuffles. Included by files that are compiled for the
// vector registers of each machine.
#pragma once

#include <cstddef>
#include <type_traits>

#include "cpu/routines/fft_butterfly.h"
#include "cpu/routines/fft_kernels.h"

#if defined(__clang__)
#define WEFT_FFT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define WEFT_FFT_UNROLL _Pragma("GCC unroll 16")
#endif

namespace weft::cpu {
namespace {

enum class Form { kSplit, kPairs, kSwapped };

template <class T, int kBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));
};
template <class V, class T>
constexpr int kLanesOf = static_cast<int>(sizeof(V) / sizeof(T));

template <class V, class T>
WEFT_FFT_INLINE V Load(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
template <class V, class T>
WEFT_FFT_INLINE void Store(V v, T* to) {
  __builtin_memcpy(to, &v, sizeof(v));
}

// Every second lane of two vectors, and lanes of two vectors in turn.
template <class V, class T>
WEFT_FFT_INLINE V EverySecond(V a, V b, int first) {
  constexpr int kLanes = kLanesOf<V, T>;
  if constexpr (kLanes == 2) {
    return first == 0 ? __builtin_shufflevector(a, b, 0, 2) : __builtin_shufflevector(a, b, 1, 3);
  } else if constexpr (kLanes == 4) {
    return first == 0 ? __builtin_shufflevector(a, b, 0, 2, 4, 6)
                      : __builtin_shufflevector(a, b, 1, 3, 5, 7);
  } else {
    static_assert(kLanes == 8);
    return first == 0 ? __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
                      : __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
  }
}
template <class V, class T>
WEFT_FFT_INLINE V InTurn(V a, V b, int half) {
  constexpr int kLanes = kLanesOf<V, T>;
  if constexpr (kLanes == 2) {
    return half == 0 ? __builtin_shufflevector(a, b, 0, 2) : __builtin_shufflevector(a, b, 1, 3);
  } else if constexpr (kLanes == 4) {
    return half == 0 ? __builtin_shufflevector(a, b, 0, 4, 1, 5)
                     : __builtin_shufflevector(a, b, 2, 6, 3, 7);
  } else {
    static_assert(kLanes == 8);
    return half == 0 ? __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
                     : __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  }
}
template <class V, class T>
WEFT_FFT_INLINE V Reversed(V a) {
  constexpr int kLanes = kLanesOf<V, T>;
  if constexpr (kLanes == 1) {
    return a;
  } else if constexpr (kLanes == 2) {
    return __builtin_shufflevector(a, a, 1, 0);
  } else if constexpr (kLanes == 4) {
    return __builtin_shufflevector(a, a, 3, 2, 1, 0);
  } else {
    static_assert(kLanes == 8);
    return __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0);
  }
}

template <class V, Form kForm, class T>
WEFT_FFT_INLINE Pair<V> LoadNumbers(Split<const T> from, int64_t at) {
  if constexpr (kForm == Form::kSplit) {
    return {Load<V>(from.re + at), Load<V>(from.im + at)};
  } else {
    Pair<V> x;
    if constexpr (std::is_same_v<V, T>) {
      x = {from.re[2 * at], from.re[2 * at + 1]};
    } else {
      V a = Load<V>(from.re + 2 * at), b = Load<V>(from.re + 2 * at + kLanesOf<V, T>);
      x = {EverySecond<V, T>(a, b, 0), EverySecond<V, T>(a, b, 1)};
    }
    return kForm == Form::kSwapped ? Pair<V>{x.im, x.re} : x;
  }
}

template <class V, Form kForm, class T>
WEFT_FFT_INLINE void StoreNumbers(Pair<V> x, T scale, Split<T> to, int64_t at) {
  if constexpr (kForm == Form::kSplit) {
    Store(x.re, to.re + at);
    Store(x.im, to.im + at);
  } else {
    if constexpr (kForm == Form::kSwapped) x = {x.im * scale, x.re * scale};
    if constexpr (std::is_same_v<V, T>) {
      to.re[2 * at] = x.re;
      to.re[2 * at + 1] = x.im;
    } else {
      Store(InTurn<V, T>(x.re, x.im, 0), to.re + 2 * at);
      Store(InTurn<V, T>(x.re, x.im, 1), to.re + 2 * at + kLanesOf<V, T>);
    }
  }
}

}  // namespace
}  // namespace weft::cpu
