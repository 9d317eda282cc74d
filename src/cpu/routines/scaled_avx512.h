// Numbers of 8 and 4 bits by vectors of AVX-512, for scaled_runs.cc. Included where __x86_64__ is
// defined; what is here is called where the processor has AVX-512 with bytes and words.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define WEFT_SCALED __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define WEFT_SCALED_INLINE [[gnu::always_inline]] WEFT_SCALED inline

namespace weft::cpu {
namespace {

// Numbers of a vector of floats: sizes of runs and blocks are multiples of it.
constexpr int64_t kScaledLanes = sizeof(__m512) / sizeof(float);

// To nearest, ties to even; NaN stays NaN. (VCVTNEPS2BF16 takes subnormal numbers for zeroes.)
WEFT_SCALED_INLINE __m256i RoundSixteen(__m512 x) {
  __m512i bits = _mm512_castps_si512(x), upper = _mm512_srli_epi32(bits, 16);
  __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
  __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  __mmask16 no_number = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, no_number, upper, _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(rounded);
}

// Where numbers go, one behind the other, sixteen at a time.
struct FloatsInRow {
  float* out;
  WEFT_SCALED_INLINE void Store(int64_t i, __m512 x) const { _mm512_storeu_ps(out + i, x); }
};
struct Bf16InRow {
  uint16_t* out;
  WEFT_SCALED_INLINE void Store(int64_t i, __m512 x) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), RoundSixteen(x));
  }
};

// Sixteen codes as numbers.
struct ReadsE5m2 {
  // f16 has the same exponents, and the same infinities and NaNs.
  WEFT_SCALED_INLINE __m512 Sixteen(__m128i codes) const {
    return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8));
  }
};
// Exponents in the place of those of f16, whose bias is larger by 8. The sign, extended, fills one
// bit more than it has.
struct ReadsE4m3fn {
  WEFT_SCALED_INLINE __m512 Sixteen(__m128i codes) const {
    __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    wide = _mm256_andnot_si256(_mm256_set1_epi16(0x4000), wide);
    __m512 x = _mm512_mul_ps(_mm512_cvtph_ps(wide), _mm512_set1_ps(0x1p8F));
    const __m128i ones = _mm_set1_epi8(0x7F);
    __mmask16 no_number = _mm_cmpeq_epi8_mask(_mm_and_si128(codes, ones), ones);
    return _mm512_mask_mov_ps(x, no_number, _mm512_set1_ps(__builtin_nanf("")));
  }
};
struct ReadsS8 {
  WEFT_SCALED_INLINE __m512 Sixteen(__m128i codes) const {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
  }
};
struct ReadsU8 {
  WEFT_SCALED_INLINE __m512 Sixteen(__m128i codes) const {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(codes));
  }
};
// Four bits in a byte of their own, by a table of sixteen.
struct ReadsNibbles {
  const float* values;
  WEFT_SCALED_INLINE __m512 Sixteen(__m128i codes) const {
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(codes), _mm512_loadu_ps(values));
  }
};

// n numbers of a byte, of blocks of `block` that begin with the first: both are multiples of 16.
// scales[i]: of block i.
template <class Reads, class Place>
WEFT_SCALED void DecodeBytes(const Reads& reads, const std::byte* src, int64_t n, int64_t block,
                             const float* scales, const Place& to) {
  for (int64_t i = 0; i < n; ++scales) {
    __m512 by = _mm512_set1_ps(*scales);
    for (int64_t end = i + block < n ? i + block : n; i < end; i += kScaledLanes) {
      __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i));
      to.Store(i, _mm512_mul_ps(reads.Sixteen(codes), by));
    }
  }
}

// The dot product of x and such numbers.
template <class Reads>
WEFT_SCALED float DotBytes(const Reads& reads, const std::byte* src, int64_t n, int64_t block,
                           const float* scales, const float* x) {
  constexpr int64_t kAtOnce = 4 * kScaledLanes;
  __m512 a = _mm512_setzero_ps(), b = a, c = a, d = a;
  for (int64_t i = 0; i < n; ++scales) {
    __m512 by = _mm512_set1_ps(*scales);
    auto product = [&](int64_t at, __m512 sum) WEFT_SCALED {
      __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + at));
      __m512 scaled = _mm512_mul_ps(reads.Sixteen(codes), by);
      return _mm512_fmadd_ps(scaled, _mm512_loadu_ps(x + at), sum);
    };
    int64_t end = i + block < n ? i + block : n;
    for (; i + kAtOnce <= end; i += kAtOnce) {
      a = product(i, a);
      b = product(i + kScaledLanes, b);
      c = product(i + 2 * kScaledLanes, c);
      d = product(i + 3 * kScaledLanes, d);
    }
    for (; i < end; i += kScaledLanes) a = product(i, a);
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)));
}

// The first sixteen numbers of 8 bytes, two a byte.
WEFT_SCALED_INLINE __m128i SplitNibbles(__m128i both, __m128i* last) {
  const __m128i mask = _mm_set1_epi8(15);
  __m128i even = _mm_and_si128(both, mask), odd = _mm_and_si128(_mm_srli_epi16(both, 4), mask);
  *last = _mm_unpackhi_epi8(even, odd);
  return _mm_unpacklo_epi8(even, odd);
}

// n numbers, two a byte, as bf16, of blocks as above: 32 at a time by a table that is scaled for
// each block.
WEFT_SCALED inline void DecodeNibbles(const float* values, const std::byte* src, int64_t n,
                                      int64_t block, const float* scales, const Bf16InRow& to) {
  __m512 all = _mm512_loadu_ps(values);
  for (int64_t i = 0; i < n; ++scales) {
    __m256i scaled = RoundSixteen(_mm512_mul_ps(all, _mm512_set1_ps(*scales)));
    __m512i table = _mm512_castsi256_si512(scaled);
    int64_t end = i + block < n ? i + block : n;
    for (; i + 2 * kScaledLanes <= end; i += 2 * kScaledLanes) {
      __m128i second;
      __m128i first =
          SplitNibbles(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i / 2)), &second);
      __m512i codes = _mm512_cvtepu8_epi16(_mm256_set_m128i(second, first));
      _mm512_storeu_si512(to.out + i, _mm512_permutexvar_epi16(codes, table));
    }
    if (i == end) continue;
    __m128i none;
    __m128i codes =
        SplitNibbles(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + i / 2)), &none);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.out + i),
                        _mm256_permutexvar_epi16(_mm256_cvtepu8_epi16(codes), scaled));
    i = end;
  }
}

}  // namespace
}  // namespace weft::cpu
