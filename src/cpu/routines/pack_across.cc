// Panels of vectors whose elements are consecutive: small squares of elements are turned.
#include <algorithm>

#include "cpu/routines/machine.h"
#include "cpu/routines/tiles.h"
#include "program/target_facts.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::cpu {
namespace {

#define WEFT_TURN_INLINE [[gnu::always_inline]] inline

// More rows than a processor's prefetcher follows: lines are asked for some time before.
template <class T>
WEFT_TURN_INLINE void AskForRows(const T* const* rows, int64_t p, int64_t width) {
  constexpr int64_t kLine = 64 / int64_t{sizeof(T)};
  if (p % kLine != 0) return;
  for (int64_t i = 0; i < width; ++i) __builtin_prefetch(rows[i] + p + 4 * kLine);
}

// Four vectors of four, or two of two, turned.
template <class T>
WEFT_TURN_INLINE void TurnBlock(const T* const* rows, int64_t p, T* out, int64_t width) {
  typedef T Vector __attribute__((vector_size(16)));
  if constexpr (sizeof(T) == 4) {
    Vector r0, r1, r2, r3;
    __builtin_memcpy(&r0, rows[0] + p, 16);
    __builtin_memcpy(&r1, rows[1] + p, 16);
    __builtin_memcpy(&r2, rows[2] + p, 16);
    __builtin_memcpy(&r3, rows[3] + p, 16);
    Vector a = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
    Vector b = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
    Vector c = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    Vector d = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    r0 = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    r1 = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    r2 = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    r3 = __builtin_shufflevector(c, d, 2, 3, 6, 7);
    __builtin_memcpy(out, &r0, 16);
    __builtin_memcpy(out + width, &r1, 16);
    __builtin_memcpy(out + 2 * width, &r2, 16);
    __builtin_memcpy(out + 3 * width, &r3, 16);
  } else {
    Vector r0, r1;
    __builtin_memcpy(&r0, rows[0] + p, 16);
    __builtin_memcpy(&r1, rows[1] + p, 16);
    Vector a = __builtin_shufflevector(r0, r1, 0, 2), b = __builtin_shufflevector(r0, r1, 1, 3);
    __builtin_memcpy(out, &a, 16);
    __builtin_memcpy(out + width, &b, 16);
  }
}

// Rows need not be aligned.
template <class T>
WEFT_TURN_INLINE T ElementAt(const T* row, int64_t p) {
  T x;
  __builtin_memcpy(&x, row + p, sizeof(x));
  return x;
}

template <class T>
void TurnAny(const T* const* rows, int64_t kn, int64_t width, T* out) {
  constexpr int64_t kBlock = 16 / int64_t{sizeof(T)};
  int64_t whole = width / kBlock * kBlock;
  for (int64_t p = 0; p < kn; p += kBlock) {
    AskForRows(rows, p, width);
    for (int64_t i = 0; i < whole; i += kBlock) {
      TurnBlock(rows + i, p, out + p * width + i, width);
    }
    for (int64_t i = whole; i < width; ++i) {
      for (int64_t q = 0; q < kBlock; ++q) out[(p + q) * width + i] = ElementAt(rows[i], p + q);
    }
  }
}

#if defined(__x86_64__)
#define WEFT_TURN512 __attribute__((target("avx512f")))

// Bytes 16 to 64 of four rows, kBlock rows apart, in the lanes of one vector.
WEFT_TURN512 inline __m512i LoadLanes(const void* const* rows, int64_t apart, int64_t lanes,
                                      int64_t bytes) {
  auto at = [&](int64_t lane) WEFT_TURN512 {
    const auto* from = static_cast<const char*>(rows[lane * apart]) + bytes;
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  __m512i z = _mm512_castsi128_si512(at(0));
  if (lanes > 1) z = _mm512_inserti32x4(z, at(1), 1);
  if (lanes > 2) z = _mm512_inserti32x4(z, at(2), 2);
  if (lanes > 3) z = _mm512_inserti32x4(z, at(3), 3);
  return z;
}

// Squares of 16 bytes in each lane: rows that lie 4, or 2, apart share a vector, so that what comes
// out is in order.
template <class T>
WEFT_TURN512 void TurnAvx512(const T* const* rows, int64_t kn, int64_t width, T* out) {
  constexpr int64_t kBlock = 16 / int64_t{sizeof(T)};
  constexpr int64_t kLanes = program::TargetFacts::kLineBytes / 16;
  const auto* from = reinterpret_cast<const void* const*>(rows);
  for (int64_t p = 0; p < kn; p += kBlock) {
    AskForRows(rows, p, width);
    int64_t bytes = p * int64_t{sizeof(T)};
    for (int64_t i = 0; i < width; i += kLanes * kBlock) {
      int64_t lanes = std::min(kLanes, (width - i) / kBlock);
      auto mask = static_cast<__mmask16>((1U << (4 * lanes)) - 1);
      T* to = out + p * width + i;
      auto store = [&](int64_t row, __m512i z)
                       WEFT_TURN512 { _mm512_mask_storeu_epi32(to + row * width, mask, z); };
      __m512i r0 = LoadLanes(from + i, kBlock, lanes, bytes);
      __m512i r1 = LoadLanes(from + i + 1, kBlock, lanes, bytes);
      if constexpr (sizeof(T) == 8) {
        store(0, _mm512_unpacklo_epi64(r0, r1));
        store(1, _mm512_unpackhi_epi64(r0, r1));
        continue;
      }
      __m512i r2 = LoadLanes(from + i + 2, kBlock, lanes, bytes);
      __m512i r3 = LoadLanes(from + i + 3, kBlock, lanes, bytes);
      __m512i a = _mm512_unpacklo_epi32(r0, r1), b = _mm512_unpacklo_epi32(r2, r3);
      __m512i c = _mm512_unpackhi_epi32(r0, r1), d = _mm512_unpackhi_epi32(r2, r3);
      store(0, _mm512_unpacklo_epi64(a, b));
      store(1, _mm512_unpackhi_epi64(a, b));
      store(2, _mm512_unpacklo_epi64(c, d));
      store(3, _mm512_unpackhi_epi64(c, d));
    }
  }
}
#endif

template <class T>
auto FindTurn() {
#if defined(__x86_64__)
  if (HostFeatures().avx512) return TurnAvx512<T>;
#endif
  return TurnAny<T>;
}

}  // namespace

template <class T>
void PackAcross(const T* const* rows, int64_t kn, int64_t width, T* out) {
  static const auto turn = FindTurn<T>();
  constexpr int64_t kBlock = 16 / int64_t{sizeof(T)};
  int64_t whole = kn / kBlock * kBlock;
  (width % kBlock == 0 ? turn : TurnAny<T>)(rows, whole, width, out);
  for (int64_t p = whole; p < kn; ++p) {
    for (int64_t i = 0; i < width; ++i) out[p * width + i] = ElementAt(rows[i], p);
  }
}

template void PackAcross<float>(const float* const*, int64_t, int64_t, float*);
template void PackAcross<double>(const double* const*, int64_t, int64_t, double*);
template void PackAcross<uint32_t>(const uint32_t* const*, int64_t, int64_t, uint32_t*);
template void PackAcross<uint64_t>(const uint64_t* const*, int64_t, int64_t, uint64_t*);

}  // namespace weft::cpu
