#include "cpu/routines/narrow_stream.h"

#include <cstring>

#include "cpu/routines/machine.h"
#include "cpu/routines/unrolled.h"
#include "program/sum_order.h"
#include "program/target_facts.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::cpu {
namespace {

#if defined(__x86_64__)
#define WEFT_STREAM_AVX2 __attribute__((target("avx2,fma")))
#define WEFT_STREAM_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define WEFT_STREAM_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

constexpr int64_t kLine = program::TargetFacts::kLineBytes;
// Terms that an accumulator takes are those of a run.
constexpr int kQuads = program::SumOrder::kRun / 4;

// Asks for one of so many parts of the rows that come next, whole rows after each other: a
// processor's prefetcher does not follow as many as are read at the same time.
[[gnu::always_inline]] inline void AskAhead(const StreamStep& s, int64_t bytes, int64_t part,
                                            int64_t parts) {
  if (s.ahead == nullptr) return;
  for (int64_t row = 4 * s.quads * part / parts; row < 4 * s.quads * (part + 1) / parts; ++row) {
    for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(s.ahead[row] + at, 0, 2);
  }
}

// Elements at even and at odd places are widened as they are: what is beside one in its word is
// shifted out, or taken away.
template <int kBytes, int kRows>
[[gnu::always_inline]] inline void GrowBf16(const StreamStep& s) {
  constexpr int kLanes = kBytes / 4;
  typedef float Vector __attribute__((vector_size(kBytes)));
  typedef uint32_t Word __attribute__((vector_size(kBytes)));
  for (int64_t j = 0; j < s.columns; j += 2 * kLanes) {
    AskAhead(s, 2 * s.columns, j / (2 * kLanes), s.columns / (2 * kLanes));
    Vector even[kRows] = {}, odd[kRows] = {};
    const std::byte* a = s.a;
    for (int64_t quad = 0; quad < s.quads; ++quad, a += s.a_quad) {
      const float* x = reinterpret_cast<const float*>(a);
      WEFT_UNROLLED for (int q = 0; q < 4; ++q) {
        Word word;
        __builtin_memcpy(&word, s.rows[4 * quad + q] + 2 * j, sizeof(word));
        Vector low = (Vector)(word << 16), high = (Vector)(word & 0xffff0000u);
        WEFT_UNROLLED for (int i = 0; i < kRows; ++i) {
          even[i] += low * x[4 * i + q];
          odd[i] += high * x[4 * i + q];
        }
      }
    }
    WEFT_UNROLLED for (int i = 0; i < kRows; ++i) {
      float* to = reinterpret_cast<float*>(s.sums[i]) + j;
      Vector first, second, low, high;
      if constexpr (kBytes == 64) {
        low = __builtin_shufflevector(even[i], odd[i], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                      22, 7, 23);
        high = __builtin_shufflevector(even[i], odd[i], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                       29, 14, 30, 15, 31);
      } else {
        low = __builtin_shufflevector(even[i], odd[i], 0, 8, 1, 9, 2, 10, 3, 11);
        high = __builtin_shufflevector(even[i], odd[i], 4, 12, 5, 13, 6, 14, 7, 15);
      }
      __builtin_memcpy(&first, to, sizeof(first));
      __builtin_memcpy(&second, to + kLanes, sizeof(second));
      first += low;
      second += high;
      __builtin_memcpy(to, &first, sizeof(first));
      __builtin_memcpy(to + kLanes, &second, sizeof(second));
    }
  }
}

WEFT_STREAM_AVX512 void GrowBf16Avx512(int64_t sums, const StreamStep& s) {
  switch (sums) {
    case 1: return GrowBf16<64, 1>(s);
    case 2: return GrowBf16<64, 2>(s);
    case 3: return GrowBf16<64, 3>(s);
    case 4: return GrowBf16<64, 4>(s);
    case 5: return GrowBf16<64, 5>(s);
    case 6: return GrowBf16<64, 6>(s);
    case 7: return GrowBf16<64, 7>(s);
    default: return GrowBf16<64, 8>(s);
  }
}
WEFT_STREAM_AVX2 void GrowBf16Avx2(int64_t sums, const StreamStep& s) {
  switch (sums) {
    case 1: return GrowBf16<32, 1>(s);
    case 2: return GrowBf16<32, 2>(s);
    case 3: return GrowBf16<32, 3>(s);
    default: return GrowBf16<32, 4>(s);
  }
}

// Quads of bytes of four rows: halves of each 16 bytes come to four vectors, which hold columns
// in another order.
template <int kRows>
[[gnu::always_inline]] inline WEFT_STREAM_VNNI void GrowInt8(const StreamStep& s) {
  constexpr int kVectors = kLine / sizeof(__m128i);
  for (int64_t j = 0; j < s.columns; j += 64) {
    AskAhead(s, s.columns, j / 64, s.columns / 64);
    __m512i sums[kRows][kVectors];
    WEFT_UNROLLED for (int i = 0; i < kRows; ++i) {
      WEFT_UNROLLED for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = _mm512_loadu_si512(s.sums[i] + 4 * j + 64 * v);
      }
    }
    const std::byte* a = s.a;
    for (int64_t quad = 0; quad < s.quads; ++quad, a += s.a_quad) {
      const std::byte* const* rows = s.rows + 4 * quad;
      __m512i r0 = _mm512_loadu_si512(rows[0] + j), r1 = _mm512_loadu_si512(rows[1] + j);
      __m512i r2 = _mm512_loadu_si512(rows[2] + j), r3 = _mm512_loadu_si512(rows[3] + j);
      __m512i low = _mm512_unpacklo_epi8(r0, r1), low2 = _mm512_unpacklo_epi8(r2, r3);
      __m512i high = _mm512_unpackhi_epi8(r0, r1), high2 = _mm512_unpackhi_epi8(r2, r3);
      __m512i column[kVectors] = {
          _mm512_unpacklo_epi16(low, low2), _mm512_unpackhi_epi16(low, low2),
          _mm512_unpacklo_epi16(high, high2), _mm512_unpackhi_epi16(high, high2)};
      WEFT_UNROLLED for (int i = 0; i < kRows; ++i) {
        int32_t word;
        std::memcpy(&word, a + 4 * i, sizeof(word));
        __m512i x = _mm512_set1_epi32(word);
        WEFT_UNROLLED for (int v = 0; v < kVectors; ++v) {
          sums[i][v] = _mm512_dpbusd_epi32(sums[i][v], x, column[v]);
        }
      }
    }
    WEFT_UNROLLED for (int i = 0; i < kRows; ++i) {
      WEFT_UNROLLED for (int v = 0; v < kVectors; ++v) {
        _mm512_storeu_si512(s.sums[i] + 4 * j + 64 * v, sums[i][v]);
      }
    }
  }
}
WEFT_STREAM_VNNI void GrowInt8Vnni(int64_t sums, const StreamStep& s) {
  switch (sums) {
    case 1: return GrowInt8<1>(s);
    case 2: return GrowInt8<2>(s);
    case 3: return GrowInt8<3>(s);
    case 4: return GrowInt8<4>(s);
    default: return GrowInt8<5>(s);
  }
}
// Vector v of a unit has columns 4 v to 4 v + 3 of every sixteen.
WEFT_STREAM_VNNI void OrderInt8(int64_t columns, std::byte* sums, const std::byte* too_much) {
  for (int64_t j = 0; j < columns; j += 64, sums += 256, too_much += 256) {
    __m512i v[4];
    WEFT_UNROLLED for (int i = 0; i < 4; ++i) {
      v[i] = _mm512_sub_epi32(_mm512_loadu_si512(sums + 64 * i),
                              _mm512_loadu_si512(too_much + 64 * i));
    }
    __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44), b = _mm512_shuffle_i32x4(v[2], v[3], 0x44);
    __m512i c = _mm512_shuffle_i32x4(v[0], v[1], 0xee), d = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
    _mm512_storeu_si512(sums, _mm512_shuffle_i32x4(a, b, 0x88));
    _mm512_storeu_si512(sums + 64, _mm512_shuffle_i32x4(a, b, 0xdd));
    _mm512_storeu_si512(sums + 128, _mm512_shuffle_i32x4(c, d, 0x88));
    _mm512_storeu_si512(sums + 192, _mm512_shuffle_i32x4(c, d, 0xdd));
  }
}

constexpr NarrowStream kBf16Avx512 = {8, 32, kQuads, GrowBf16Avx512, nullptr},
                       kBf16Avx2 = {4, 16, kQuads, GrowBf16Avx2, nullptr},
                       kInt8Vnni = {5, 64, 2 * kQuads, GrowInt8Vnni, OrderInt8};
#endif

}  // namespace

const NarrowStream* FindNarrowStream([[maybe_unused]] DType right) {
#if defined(__x86_64__)
  const ProcessorFeatures& host = HostFeatures();
  if (right == DType::kBF16 && host.avx512) return &kBf16Avx512;
  if (right == DType::kBF16 && host.avx2) return &kBf16Avx2;
  if (right == DType::kS8 && host.avx512_vnni) return &kInt8Vnni;
#endif
  return nullptr;
}

}  // namespace weft::cpu
