#include "cpu/routines/fft_kernels.h"

#include <algorithm>

#include "cpu/routines/fft_spectra.h"
#include "cpu/routines/fft_vectors.h"

namespace weft::cpu {
namespace {

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

}  // namespace weft::cpu
