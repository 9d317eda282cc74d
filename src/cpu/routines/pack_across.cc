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

// More rows than a processor's prefetcher follows: lines are asked for some time before, as far as
// they belong to the panel.
template <class T>
WEFT_TURN_INLINE void AskForRows(const T* const* rows, int64_t p, int64_t end, int64_t width) {
  constexpr int64_t kLine = program::TargetFacts::kLineBytes / int64_t{sizeof(T)};
  const int64_t ahead = p + program::TargetFacts::kLinesAhead * kLine;
  if (p % kLine != 0 || ahead >= end) return;
  for (int64_t i = 0; i < width; ++i) __builtin_prefetch(rows[i] + ahead);
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
    AskForRows(rows, p, kn, width);
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

// Four by four elements of 4 bytes, or two by two of 8, in each lane of as many vectors.
template <int64_t count>
WEFT_TURN_INLINE WEFT_TURN512 void TurnInLanes(__m512i* r) {
  if constexpr (count == 2) {
    __m512i first = r[0];
    r[0] = _mm512_unpacklo_epi64(first, r[1]);
    r[1] = _mm512_unpackhi_epi64(first, r[1]);
  } else {
    __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpacklo_epi32(r[2], r[3]);
    __m512i c = _mm512_unpackhi_epi32(r[0], r[1]), d = _mm512_unpackhi_epi32(r[2], r[3]);
    r[0] = _mm512_unpacklo_epi64(a, b);
    r[1] = _mm512_unpackhi_epi64(a, b);
    r[2] = _mm512_unpacklo_epi64(c, d);
    r[3] = _mm512_unpackhi_epi64(c, d);
  }
}

// Four by four lanes.
WEFT_TURN_INLINE WEFT_TURN512 void TurnLanesOfFour(__m512i* z) {
  __m512i a = _mm512_shuffle_i64x2(z[0], z[1], _MM_SHUFFLE(1, 0, 1, 0)),
          b = _mm512_shuffle_i64x2(z[2], z[3], _MM_SHUFFLE(1, 0, 1, 0));
  __m512i c = _mm512_shuffle_i64x2(z[0], z[1], _MM_SHUFFLE(3, 2, 3, 2)),
          d = _mm512_shuffle_i64x2(z[2], z[3], _MM_SHUFFLE(3, 2, 3, 2));
  z[0] = _mm512_shuffle_i64x2(a, b, _MM_SHUFFLE(2, 0, 2, 0));
  z[1] = _mm512_shuffle_i64x2(a, b, _MM_SHUFFLE(3, 1, 3, 1));
  z[2] = _mm512_shuffle_i64x2(c, d, _MM_SHUFFLE(2, 0, 2, 0));
  z[3] = _mm512_shuffle_i64x2(c, d, _MM_SHUFFLE(3, 1, 3, 1));
}

// Squares of 16 bytes in each lane: rows that lie 4, or 2, apart share a vector, so that what comes
// out is in order.
template <class T>
WEFT_TURN512 void TurnLanes(const T* const* rows, int64_t begin, int64_t end, int64_t width,
                            T* out) {
  constexpr int64_t kBlock = 16 / int64_t{sizeof(T)};
  constexpr int64_t kLanes = program::TargetFacts::kLineBytes / 16;
  const auto* from = reinterpret_cast<const void* const*>(rows);
  for (int64_t p = begin; p < end; p += kBlock) {
    AskForRows(rows, p, end, width);
    int64_t bytes = p * int64_t{sizeof(T)};
    for (int64_t i = 0; i < width; i += kLanes * kBlock) {
      int64_t lanes = std::min(kLanes, (width - i) / kBlock);
      auto mask = static_cast<__mmask16>((1U << (4 * lanes)) - 1);
      __m512i r[kBlock];
      for (int64_t k = 0; k < kBlock; ++k) r[k] = LoadLanes(from + i + k, kBlock, lanes, bytes);
      TurnInLanes<kBlock>(r);
      for (int64_t k = 0; k < kBlock; ++k) {
        _mm512_mask_storeu_epi32(out + (p + k) * width + i, mask, r[k]);
      }
    }
  }
}

// Squares of whole lines: where rows lie a power of two apart their lines share the few places of
// the first cache, and a line that is not read at once is gone the next time.
template <class T>
WEFT_TURN512 void TurnLines(const T* const* rows, int64_t begin, int64_t end, int64_t width,
                            T* out) {
  constexpr int64_t kBlock = 16 / int64_t{sizeof(T)}, kSide = 4 * kBlock;
  for (int64_t p = begin; p < end; p += kSide) {
    AskForRows(rows, p, end, width);
    for (int64_t i = 0; i < width; i += kSide) {
      __m512i groups[4][kBlock];
      for (int64_t g = 0; g < 4; ++g) {
        for (int64_t k = 0; k < kBlock; ++k) {
          groups[g][k] = _mm512_loadu_si512(rows[i + g * kBlock + k] + p);
        }
        TurnInLanes<kBlock>(groups[g]);
      }
      for (int64_t k = 0; k < kBlock; ++k) {
        __m512i z[4] = {groups[0][k], groups[1][k], groups[2][k], groups[3][k]};
        TurnLanesOfFour(z);
        for (int64_t j = 0; j < 4; ++j) {
          _mm512_storeu_si512(out + (p + j * kBlock + k) * width + i, z[j]);
        }
      }
    }
  }
}

template <class T>
void TurnAvx512(const T* const* rows, int64_t kn, int64_t width, T* out) {
  constexpr int64_t kSide = program::TargetFacts::kLineBytes / int64_t{sizeof(T)};
  int64_t lines = width % kSide == 0 ? kn / kSide * kSide : 0;
  TurnLines(rows, 0, lines, width, out);
  TurnLanes(rows, lines, kn, width, out);
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
