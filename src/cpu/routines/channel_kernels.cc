#include "cpu/routines/channel_kernels.h"

#include "cpu/routines/machine.h"
#include "cpu/routines/unrolled.h"

namespace weft::cpu {
namespace {

template <class T, int kBytes, int kPlaces>
[[gnu::always_inline]] inline void AddBody(const ChannelSpan<T>& s, T* sums) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr int64_t kLanes = kBytes / int64_t{sizeof(T)};
  Vector sum[kPlaces];
  __builtin_memcpy(sum, sums, sizeof(sum));
  for (int64_t r = 0; r < s.row_count; ++r) {
    const T *x = s.rows[r].input + s.input_at, *k = s.rows[r].kernel + s.kernel_at;
    for (int64_t u = 0; u < s.taps; ++u, x += s.input_tap, k += s.kernel_tap) {
      Vector factor, value;
      __builtin_memcpy(&factor, k, sizeof(factor));
      WEFT_UNROLLED for (int p = 0; p < kPlaces; ++p) {
        __builtin_memcpy(&value, x + p * s.input_place, sizeof(value));
        sum[p] += value * factor;
      }
    }
  }
  __builtin_memcpy(sums, sum, sizeof(sum));
  static_assert(kLanes <= kMostChannelLanes && kPlaces <= kMostPlaces);
}

template <class T>
[[gnu::always_inline]] inline void DrainBody(int64_t n, T* sums, double* totals) {
  for (int64_t i = 0; i < n; ++i) {
    totals[i] += static_cast<double>(sums[i]);
    sums[i] = 0;
  }
}

// The kernel of one machine: WEFT_CHANNELS(name, target attribute, bytes of its vectors).
#define WEFT_CHANNELS(NAME, TARGET, BYTES)                                                        \
  template <class T, int kBytes, int kPlaces>                                                     \
  TARGET void Add##NAME(const ChannelSpan<T>& span, T* sums) {                                    \
    AddBody<T, kBytes, kPlaces>(span, sums);                                                      \
  }                                                                                               \
  template <class T>                                                                              \
  TARGET void Drain##NAME(int64_t n, T* sums, double* totals) {                                   \
    DrainBody(n, sums, totals);                                                                   \
  }                                                                                               \
  template <class T>                                                                              \
  constexpr ChannelKernel<T> k##NAME = {                                                          \
      {BYTES / int{sizeof(T)}, BYTES / 2 / int{sizeof(T)}, WEFT_LEAST(BYTES, T) / int{sizeof(T)}, \
       1},                                                                                        \
      {WEFT_PLACES(NAME, BYTES), WEFT_PLACES(NAME, BYTES / 2),                                    \
       WEFT_PLACES(NAME, WEFT_LEAST(BYTES, T)), WEFT_PLACES(NAME, int{sizeof(T)})},               \
      Drain##NAME<T>};
#define WEFT_LEAST(BYTES, T) (BYTES / 4 > int{sizeof(T)} ? BYTES / 4 : int{sizeof(T)})
#define WEFT_PLACES(NAME, BYTES)                                                 \
  {Add##NAME<T, (BYTES), 1>, Add##NAME<T, (BYTES), 2>, Add##NAME<T, (BYTES), 3>, \
   Add##NAME<T, (BYTES), 4>, Add##NAME<T, (BYTES), 5>, Add##NAME<T, (BYTES), 6>, \
   Add##NAME<T, (BYTES), 7>, Add##NAME<T, (BYTES), 8>}

WEFT_CHANNELS(Narrow, , 16)
#if defined(__x86_64__)
WEFT_CHANNELS(Avx2, __attribute__((target("avx2,fma"))), 32)
WEFT_CHANNELS(Avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), 64)
#endif

template <class T>
const ChannelKernel<T>& Best() {
#if defined(__x86_64__)
  if (HostFeatures().avx512) return kAvx512<T>;
  if (HostFeatures().avx2) return kAvx2<T>;
#endif
  return kNarrow<T>;
}

}  // namespace

template <class T>
const ChannelKernel<T>& FindChannelKernel() {
  return Best<T>();
}
template const ChannelKernel<float>& FindChannelKernel<float>();
template const ChannelKernel<double>& FindChannelKernel<double>();
template const ChannelKernel<uint32_t>& FindChannelKernel<uint32_t>();
template const ChannelKernel<uint64_t>& FindChannelKernel<uint64_t>();

}  // namespace weft::cpu
