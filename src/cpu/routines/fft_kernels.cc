#include "cpu/routines/fft_kernels.h"

#include <algorithm>
#include <type_traits>

#include "cpu/routines/fft_butterfly.h"

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

template <class T, class V, int kRadix, Form kFrom, Form kTo, bool kTwiddled>
WEFT_FFT_INLINE void OneButterfly(const StageCall<T>& c, int64_t from, int64_t to, const T* w) {
  Pair<V> x[kRadix];
  WEFT_FFT_UNROLL for (int j = 0; j < kRadix; ++j) {
    x[j] = LoadNumbers<V, kFrom, T>(c.from, from + j * c.from_step);
  }
  TransformInPlace<kRadix, T>(x);
  WEFT_FFT_UNROLL for (int k = 0; k < kRadix; ++k) {
    if (kTwiddled && k > 0) x[k] = Product<V, T>(x[k], w[2 * k - 2], w[2 * k - 1]);
    StoreNumbers<V, kTo, T>(x[k], c.scale, c.to, to + k * c.to_step);
  }
}

// Radices that are known only now.
template <class T, class V, bool kTwiddled>
WEFT_FFT_INLINE void OneOddButterfly(const StageCall<T>& c, int64_t from, int64_t to, const T* w,
                                     const T* cosine, const T* sine) {
  Pair<V> x[kMostRadix], sums[kMostRadix / 2], differences[kMostRadix / 2];
  for (int j = 0; j < c.radix; ++j) {
    x[j] = LoadNumbers<V, Form::kSplit, T>(c.from, from + j * c.from_step);
  }
  OddInPlace(x, c.radix, cosine, sine, sums, differences);
  for (int k = 0; k < c.radix; ++k) {
    if (kTwiddled && k > 0) x[k] = Product<V, T>(x[k], w[2 * k - 2], w[2 * k - 1]);
    StoreNumbers<V, Form::kSplit, T>(x[k], T(1), c.to, to + k * c.to_step);
  }
}

template <class T, int kBytes, int kRadix, Form kFrom, Form kTo, bool kTwiddled>
WEFT_FFT_INLINE void RunStage(StageCall<T> c) {
  using V = typename VectorOf<T, kBytes>::Type;
  constexpr int kLanes = kLanesOf<V, T>;
  constexpr bool kInPlace = kFrom != Form::kSplit && kTo != Form::kSplit;
  for (int64_t p = 0; p < c.outer; ++p) {
    int64_t from = p * c.from_outer, to = p * c.to_outer, q = 0;
    const T* w = c.twiddles + p * 2 * (kRadix - 1);
    for (; q + kLanes <= c.count; q += kLanes) {
      OneButterfly<T, V, kRadix, kFrom, kTo, kTwiddled>(c, from + q, to + q, w);
    }
    if (q == c.count) continue;
    if (!kInPlace && q > 0) {  // the last vector overlaps the one before
      q = c.count - kLanes;
      OneButterfly<T, V, kRadix, kFrom, kTo, kTwiddled>(c, from + q, to + q, w);
      continue;
    }
    for (; q < c.count; ++q) {
      OneButterfly<T, T, kRadix, kFrom, kTo, kTwiddled>(c, from + q, to + q, w);
    }
  }
}

template <class T, int kBytes, bool kTwiddled>
WEFT_FFT_INLINE void RunOddStage(StageCall<T> c) {
  using V = typename VectorOf<T, kBytes>::Type;
  constexpr int kLanes = kLanesOf<V, T>;
  const T *cosine = c.roots, *sine = c.roots + c.radix;
  for (int64_t p = 0; p < c.outer; ++p) {
    int64_t from = p * c.from_outer, to = p * c.to_outer, q = 0;
    const T* w = c.twiddles + p * 2 * (c.radix - 1);
    while (q < c.count) {
      if (c.count < kLanes) {
        OneOddButterfly<T, T, kTwiddled>(c, from + q, to + q, w, cosine, sine);
        ++q;
      } else {
        q = std::min(q, c.count - kLanes);
        OneOddButterfly<T, V, kTwiddled>(c, from + q, to + q, w, cosine, sine);
        q += kLanes;
      }
    }
  }
}

// x[k][lane] to to[lane * kRadix + k], for two or four lanes.
template <class T, class V, int kRadix>
WEFT_FFT_INLINE void StoreTurnedNarrow(const V* x, T* to) {
  constexpr int kLanes = kLanesOf<V, T>, kWhole = kRadix / kLanes * kLanes;
  WEFT_FFT_UNROLL for (int k = 0; k < kWhole; k += kLanes) {
    V a = InTurn<V, T>(x[k], x[k + 1], 0), b = InTurn<V, T>(x[k], x[k + 1], 1);
    if constexpr (kLanes == 2) {
      Store(a, to + k);
      Store(b, to + k + kRadix);
    } else {
      V c = InTurn<V, T>(x[k + 2], x[k + 3], 0), d = InTurn<V, T>(x[k + 2], x[k + 3], 1);
      Store(__builtin_shufflevector(a, c, 0, 1, 4, 5), to + k);
      Store(__builtin_shufflevector(a, c, 2, 3, 6, 7), to + k + kRadix);
      Store(__builtin_shufflevector(b, d, 0, 1, 4, 5), to + k + 2 * kRadix);
      Store(__builtin_shufflevector(b, d, 2, 3, 6, 7), to + k + 3 * kRadix);
    }
  }
  WEFT_FFT_UNROLL for (int k = kWhole; k < kRadix; ++k) {
    WEFT_FFT_UNROLL for (int lane = 0; lane < kLanes; ++lane) to[lane * kRadix + k] = x[k][lane];
  }
}

// The same for any number of them.
template <class T, class V, int kRadix>
WEFT_FFT_INLINE void StoreTurned(const V* x, T* to) {
  constexpr int kLanes = kLanesOf<V, T>;
  if constexpr (kLanes == 8) {
    typedef T Half __attribute__((vector_size(sizeof(V) / 2)));
    Half low[kRadix], high[kRadix];
    WEFT_FFT_UNROLL for (int k = 0; k < kRadix; ++k) {
      low[k] = __builtin_shufflevector(x[k], x[k], 0, 1, 2, 3);
      high[k] = __builtin_shufflevector(x[k], x[k], 4, 5, 6, 7);
    }
    StoreTurnedNarrow<T, Half, kRadix>(low, to);
    StoreTurnedNarrow<T, Half, kRadix>(high, to + 4 * kRadix);
  } else {
    StoreTurnedNarrow<T, V, kRadix>(x, to);
  }
}

template <class T, int kBytes, int kRadix, Form kFrom>
WEFT_FFT_INLINE void RunTurnedStage(StageCall<T> c) {
  using V = typename VectorOf<T, kBytes>::Type;
  constexpr int kLanes = kLanesOf<V, T>;
  const T* w = c.twiddles;
  for (int64_t block = 0; block < c.outer; block += kLanes) {
    int64_t p = std::min(block, c.outer - kLanes);
    Pair<V> x[kRadix];
    V parts[kRadix];
    WEFT_FFT_UNROLL for (int j = 0; j < kRadix; ++j) {
      x[j] = LoadNumbers<V, kFrom, T>(c.from, p + j * c.from_step);
    }
    TransformInPlace<kRadix, T>(x);
    WEFT_FFT_UNROLL for (int k = 1; k < kRadix; ++k) {
      x[k] = Product<V, V>(x[k], Load<V>(w), Load<V>(w + kLanes));
      w += 2 * kLanes;
    }
    WEFT_FFT_UNROLL for (int k = 0; k < kRadix; ++k) parts[k] = x[k].re;
    StoreTurned<T, V, kRadix>(parts, c.to.re + p * kRadix);
    WEFT_FFT_UNROLL for (int k = 0; k < kRadix; ++k) parts[k] = x[k].im;
    StoreTurned<T, V, kRadix>(parts, c.to.im + p * kRadix);
  }
}

template <class T, class V>
WEFT_FFT_INLINE void MultiplyNumbers(Split<T> x, int64_t at, V re, V im) {
  Split<const T> from = {x.re, x.im};
  Pair<V> product = Product<V, V>(LoadNumbers<V, Form::kSplit, T>(from, at), re, im);
  StoreNumbers<V, Form::kSplit, T>(product, T(1), x, at);
}

template <class T, int kBytes>
WEFT_FFT_INLINE void MultiplyBy(Split<T> x, int64_t n, int64_t lanes, const T* re, const T* im) {
  using V = typename VectorOf<T, kBytes>::Type;
  constexpr int kLanes = kLanesOf<V, T>;
  if (lanes == 1) {
    int64_t k = 0;
    for (; k + kLanes <= n; k += kLanes)
      MultiplyNumbers<T, V>(x, k, Load<V>(re + k), Load<V>(im + k));
    for (; k < n; ++k) MultiplyNumbers<T, T>(x, k, re[k], im[k]);
    return;
  }
  for (int64_t k = 0; k < n; ++k) {
    int64_t i = 0;
    for (; i + kLanes <= lanes; i += kLanes) {
      MultiplyNumbers<T, V>(x, k * lanes + i, V{} + re[k], V{} + im[k]);
    }
    for (; i < lanes; ++i) MultiplyNumbers<T, T>(x, k * lanes + i, re[k], im[k]);
  }
}

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

// The functions of one machine: WEFT_FFT_KERNELS(name, target attribute, bytes of a vector).
#define WEFT_FFT_KERNELS(NAME, TARGET, BYTES)                                                     \
  template <class T, int kRadix, Form kFrom, Form kTo, bool kTwiddled>                            \
  TARGET void Stage##NAME(const StageCall<T>& c) {                                                \
    RunStage<T, BYTES, kRadix, kFrom, kTo, kTwiddled>(c);                                         \
  }                                                                                               \
  template <class T, bool kTwiddled>                                                              \
  TARGET void OddStage##NAME(const StageCall<T>& c) {                                             \
    RunOddStage<T, BYTES, kTwiddled>(c);                                                          \
  }                                                                                               \
  template <class T, int kRadix, Form kFrom>                                                      \
  TARGET void TurnedStage##NAME(const StageCall<T>& c) {                                          \
    RunTurnedStage<T, BYTES, kRadix, kFrom>(c);                                                   \
  }                                                                                               \
  template <class T>                                                                              \
  TARGET void Multiply##NAME(Split<T> x, int64_t n, int64_t lanes, const T* re, const T* im) {    \
    MultiplyBy<T, BYTES>(x, n, lanes, re, im);                                                    \
  }                                                                                               \
  template <class T>                                                                              \
  TARGET void SpectrumOfPairs##NAME(Split<const T> z, int64_t h, Split<const T> roots,            \
                                    T* spectrum) {                                                \
    PairsOfLine<T, BYTES, true>(z, h, roots, {spectrum, nullptr});                                \
  }                                                                                               \
  template <class T>                                                                              \
  TARGET void PairsOfSpectrum##NAME(const T* spectrum, int64_t h, Split<const T> roots,           \
                                    Split<T> z) {                                                 \
    PairsOfLine<T, BYTES, false>({spectrum, nullptr}, h, roots, z);                               \
  }                                                                                               \
  template <class T, bool kToSpectrum>                                                            \
  TARGET void PairsOfLanes##NAME(Split<const T> from, int64_t h, int64_t lanes,                   \
                                 Split<const T> roots, Split<T> to) {                             \
    PairsOfLanes<T, BYTES, kToSpectrum>(from, h, lanes, roots, to);                               \
  }                                                                                               \
  template <class T, int kRadix>                                                                  \
  StageFunction<T> Fast##NAME(StageKind kind) {                                                   \
    switch (kind) {                                                                               \
      case StageKind::kFirst: return Stage##NAME<T, kRadix, Form::kPairs, Form::kSplit, true>;    \
      case StageKind::kFirstSwapped:                                                              \
        return Stage##NAME<T, kRadix, Form::kSwapped, Form::kSplit, true>;                        \
      case StageKind::kMiddle: return Stage##NAME<T, kRadix, Form::kSplit, Form::kSplit, true>;   \
      case StageKind::kPlain: return Stage##NAME<T, kRadix, Form::kSplit, Form::kSplit, false>;   \
      case StageKind::kLast: return Stage##NAME<T, kRadix, Form::kSplit, Form::kPairs, false>;    \
      case StageKind::kLastSwapped:                                                               \
        return Stage##NAME<T, kRadix, Form::kSplit, Form::kSwapped, false>;                       \
      case StageKind::kOnly: return Stage##NAME<T, kRadix, Form::kPairs, Form::kPairs, false>;    \
      case StageKind::kOnlySwapped:                                                               \
        return Stage##NAME<T, kRadix, Form::kSwapped, Form::kSwapped, false>;                     \
      case StageKind::kTurned: return TurnedStage##NAME<T, kRadix, Form::kSplit>;                 \
      case StageKind::kTurnedPairs: return TurnedStage##NAME<T, kRadix, Form::kPairs>;            \
      default: return TurnedStage##NAME<T, kRadix, Form::kSwapped>;                               \
    }                                                                                             \
  }                                                                                               \
  template <class T, int kRadix>                                                                  \
  StageFunction<T> Other##NAME(StageKind kind) {                                                  \
    if (kind == StageKind::kPlain) {                                                              \
      return Stage##NAME<T, kRadix, Form::kSplit, Form::kSplit, false>;                           \
    }                                                                                             \
    return Stage##NAME<T, kRadix, Form::kSplit, Form::kSplit, true>;                              \
  }                                                                                               \
  template <class T>                                                                              \
  StageFunction<T> FindStage##NAME(StageKind kind, int radix) {                                   \
    switch (radix) {                                                                              \
      case 1: return Fast##NAME<T, 1>(kind);                                                      \
      case 2: return Fast##NAME<T, 2>(kind);                                                      \
      case 3: return Fast##NAME<T, 3>(kind);                                                      \
      case 4: return Fast##NAME<T, 4>(kind);                                                      \
      case 5: return Fast##NAME<T, 5>(kind);                                                      \
      case 7: return Other##NAME<T, 7>(kind);                                                     \
      case 8: return Fast##NAME<T, 8>(kind);                                                      \
      case 11: return Other##NAME<T, 11>(kind);                                                   \
      case 13: return Other##NAME<T, 13>(kind);                                                   \
      default: break;                                                                             \
    }                                                                                             \
    return kind == StageKind::kPlain ? OddStage##NAME<T, false> : OddStage##NAME<T, true>;        \
  }                                                                                               \
  template <class T>                                                                              \
  constexpr FftKernels<T> kFft##NAME = {BYTES / int{sizeof(T)},      FindStage##NAME<T>,          \
                                        Multiply##NAME<T>,           SpectrumOfPairs##NAME<T>,    \
                                        PairsOfSpectrum##NAME<T>,    PairsOfLanes##NAME<T, true>, \
                                        PairsOfLanes##NAME<T, false>};

#if defined(__x86_64__)
WEFT_FFT_KERNELS(Sse2, , 16)
WEFT_FFT_KERNELS(Avx2, __attribute__((target("avx2,fma"))), 32)

template <class T>
const FftKernels<T>& FindKernels(int64_t max_lanes) {
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return avx2 && kFftAvx2<T>.lanes <= max_lanes ? kFftAvx2<T> : kFftSse2<T>;
}
#else
WEFT_FFT_KERNELS(Wide, , 16)

template <class T>
const FftKernels<T>& FindKernels(int64_t) {
  return kFftWide<T>;
}
#endif

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

}  // namespace

bool IsFastRadix(int radix) {
  return std::find(std::begin(kFastRadices), std::end(kFastRadices), radix) !=
         std::end(kFastRadices);
}

template <>
const FftKernels<float>& FftKernels<float>::Find(int64_t max_lanes) {
  return FindKernels<float>(max_lanes);
}
template <>
const FftKernels<double>& FftKernels<double>::Find(int64_t max_lanes) {
  return FindKernels<double>(max_lanes);
}

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
  template void SeparateSpectra(Split<const T>, int64_t, int64_t, Split<T>, Split<T>); \
  template void JoinSpectra(Split<const T>, Split<const T>, int64_t, int64_t, Split<T>);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
