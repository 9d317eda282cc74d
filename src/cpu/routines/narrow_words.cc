#include "cpu/routines/narrow_words.h"

#include <algorithm>
#include <cstring>

#include "cpu/routines/machine.h"
#include "program/target_facts.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace weft::cpu {
namespace {

// Words of count vectors that lie beside each other: rows[q] has element q of each of them.
template <class From, class To, int kGroup, class Word = uint32_t>
[[gnu::always_inline]] inline void InterleaveAs(const std::byte* const* rows, int64_t count,
                                                std::byte* out) {
  constexpr int kBits = 8 * sizeof(Word) / kGroup;
  const From* from[kGroup];
  for (int q = 0; q < kGroup; ++q) from[q] = reinterpret_cast<const From*>(rows[q]);
  for (int64_t i = 0; i < count; ++i) {
    Word word = 0;
    for (int q = 0; q < kGroup; ++q) {
      From x;
      std::memcpy(&x, from[q] + i, sizeof(x));
      word |= Word{static_cast<To>(x)} << (q * kBits);
    }
    reinterpret_cast<Word*>(out)[i] = word;
  }
}

[[gnu::always_inline]] inline void InterleaveWords(Words form, const std::byte* const* rows,
                                                   int64_t count, std::byte* out) {
  switch (form) {
    case Words::kPairs: return InterleaveAs<uint16_t, uint16_t, 2>(rows, count, out);
    case Words::kQuads: return InterleaveAs<uint8_t, uint8_t, 4>(rows, count, out);
    case Words::kFours: return InterleaveAs<uint16_t, uint16_t, 4, uint64_t>(rows, count, out);
    case Words::kEights: return InterleaveAs<uint8_t, uint8_t, 8, uint64_t>(rows, count, out);
    case Words::kSignedPairs: return InterleaveAs<int8_t, uint16_t, 2>(rows, count, out);
    case Words::kUnsignedPairs: return InterleaveAs<uint8_t, uint16_t, 2>(rows, count, out);
  }
}

[[gnu::always_inline]] inline void InterleavePanels(const WordRun& run,
                                                    const std::byte* const* rows, std::byte* out) {
  int64_t from_bytes = run.form == Words::kPairs || run.form == Words::kFours ? 2 : 1;
  int64_t word = WordBytes(run.form);
  const std::byte* at[kMostOfWord];
  std::copy(rows, rows + kMostOfWord, at);
  for (int64_t i = 0; i < run.count; i += run.width, out += run.panel) {
    int64_t n = std::min(run.width, run.count - i);
    InterleaveWords(run.form, at, n, out);
    std::fill(out + n * word, out + run.width * word, std::byte{0});
    for (const std::byte*& row : at) row += run.width * from_bytes;
  }
}

void InterleaveAny(const WordRun& run, const std::byte* const* rows, std::byte* out) {
  InterleavePanels(run, rows, out);
}
#if defined(__x86_64__)
#define WEFT_AVX2_PACK __attribute__((target("avx2")))
#define WEFT_AVX512_PACK __attribute__((target("avx512f,avx512bw,avx512vl")))

WEFT_AVX2_PACK inline __m256i LoadHalf(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
WEFT_AVX2_PACK inline void StoreHalf(std::byte* to, __m256i words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
}

// 16 words of two rows of 16 bits.
WEFT_AVX2_PACK inline void InterleavePairs16(const std::byte* const* rows, int64_t at,
                                             std::byte* out) {
  __m256i a = LoadHalf(rows[0] + 2 * at), b = LoadHalf(rows[1] + 2 * at);
  __m256i low = _mm256_unpacklo_epi16(a, b), high = _mm256_unpackhi_epi16(a, b);
  StoreHalf(out, _mm256_permute2x128_si256(low, high, 0x20));
  StoreHalf(out + 32, _mm256_permute2x128_si256(low, high, 0x31));
}

// 16 words of four rows of bytes.
WEFT_AVX2_PACK inline void InterleaveQuads16(const std::byte* const* rows, int64_t at,
                                             std::byte* out) {
  auto load = [&](int q) WEFT_AVX2_PACK {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[q] + at));
  };
  __m128i a = load(0), b = load(1), c = load(2), d = load(3);
  __m128i ab_low = _mm_unpacklo_epi8(a, b), ab_high = _mm_unpackhi_epi8(a, b);
  __m128i cd_low = _mm_unpacklo_epi8(c, d), cd_high = _mm_unpackhi_epi8(c, d);
  auto* to = reinterpret_cast<__m128i*>(out);
  _mm_storeu_si128(to, _mm_unpacklo_epi16(ab_low, cd_low));
  _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(ab_low, cd_low));
  _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(ab_high, cd_high));
  _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(ab_high, cd_high));
}

WEFT_AVX2_PACK void InterleaveWhole(const WordRun& run, const std::byte* const* rows,
                                    std::byte* out) {
  bool pairs = run.form == Words::kPairs;
  for (int64_t i = 0; i < run.count; i += run.width, out += run.panel) {
    for (int64_t j = 0; j < std::min(run.width, run.count - i); j += 16) {
      if (pairs) InterleavePairs16(rows, i + j, out + 4 * j);
      if (!pairs) InterleaveQuads16(rows, i + j, out + 4 * j);
    }
  }
}

// 32 words of two rows of 16 bits, as two vectors.
WEFT_AVX512_PACK inline void InterleavePairs32(const std::byte* const* rows, int64_t at,
                                               std::byte* const* to) {
  const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0),
                second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
  __m512i a = _mm512_loadu_si512(rows[0] + 2 * at), b = _mm512_loadu_si512(rows[1] + 2 * at);
  __m512i low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
  _mm512_storeu_si512(to[0], _mm512_permutex2var_epi64(low, first, high));
  _mm512_storeu_si512(to[1], _mm512_permutex2var_epi64(low, second, high));
}

// 64 words of four rows of bytes, as four vectors: quarters of each of 16 bytes change places.
WEFT_AVX512_PACK inline void InterleaveQuads64(const std::byte* const* rows, int64_t at,
                                               std::byte* const* to) {
  auto load = [&](int q) WEFT_AVX512_PACK { return _mm512_loadu_si512(rows[q] + at); };
  __m512i a = load(0), b = load(1), c = load(2), d = load(3);
  __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
  __m512i cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
  __m512i x = _mm512_unpacklo_epi16(ab_low, cd_low), y = _mm512_unpackhi_epi16(ab_low, cd_low);
  __m512i z = _mm512_unpacklo_epi16(ab_high, cd_high), w = _mm512_unpackhi_epi16(ab_high, cd_high);
  __m512i xy_low = _mm512_shuffle_i32x4(x, y, 0x44), zw_low = _mm512_shuffle_i32x4(z, w, 0x44);
  __m512i xy_high = _mm512_shuffle_i32x4(x, y, 0xee), zw_high = _mm512_shuffle_i32x4(z, w, 0xee);
  _mm512_storeu_si512(to[0], _mm512_shuffle_i32x4(xy_low, zw_low, 0x88));
  _mm512_storeu_si512(to[1], _mm512_shuffle_i32x4(xy_low, zw_low, 0xdd));
  _mm512_storeu_si512(to[2], _mm512_shuffle_i32x4(xy_high, zw_high, 0x88));
  _mm512_storeu_si512(to[3], _mm512_shuffle_i32x4(xy_high, zw_high, 0xdd));
}

WEFT_AVX512_PACK void InterleaveWide(const WordRun& run, const std::byte* const* rows,
                                     std::byte* out) {
  bool pairs = run.form == Words::kPairs;
  int64_t unit = pairs ? 32 : 64, in_panel = 0;
  auto next = [&] {  // 16 words
    std::byte* to = out + 4 * in_panel;
    in_panel += 16;
    if (in_panel < run.width) return to;
    in_panel = 0;
    out += run.panel;
    return to;
  };
  int64_t i = 0;
  for (; i + unit <= run.count; i += unit) {
    std::byte* to[4];
    for (int64_t q = 0; q < unit / 16; ++q) to[q] = next();
    if (pairs) InterleavePairs32(rows, i, to);
    if (!pairs) InterleaveQuads64(rows, i, to);
  }
  for (; i < run.count; i += 16) {
    if (pairs) InterleavePairs16(rows, i, next());
    if (!pairs) InterleaveQuads16(rows, i, next());
  }
}

// Sixteen words at a time of elements that are not widened, then what is left.
using Interleave = void (*)(const WordRun&, const std::byte* const*, std::byte*);
template <Interleave kWhole, Interleave kRest>
void InterleaveFast(const WordRun& run, const std::byte* const* rows, std::byte* out) {
  bool as_is = run.form == Words::kPairs || run.form == Words::kQuads;
  if (!as_is || run.width % 16 != 0 || run.count < 16) return kRest(run, rows, out);
  int64_t whole = run.count / 16 * 16, in_panel = whole % run.width;
  kWhole({run.form, whole, run.width, run.panel}, rows, out);
  if (whole == run.count && in_panel == 0) return;
  int64_t skip = whole * (run.form == Words::kPairs ? 2 : 1);
  const std::byte* left[kMostOfWord];
  for (int q = 0; q < kMostOfWord; ++q) left[q] = rows[q] + skip;
  int64_t rest = run.width - in_panel;  // of the panel
  std::byte* to = out + whole / run.width * run.panel + in_panel * WordBytes(run.form);
  kRest({run.form, run.count - whole, rest, run.panel}, left, to);
  if (whole == run.count) std::fill(to, to + rest * WordBytes(run.form), std::byte{0});
}

WEFT_AVX2_PACK void InterleaveAvx2(const WordRun& run, const std::byte* const* rows,
                                   std::byte* out) {
  InterleavePanels(run, rows, out);
}
WEFT_AVX512_PACK void InterleaveAvx512(const WordRun& run, const std::byte* const* rows,
                                       std::byte* out) {
  InterleavePanels(run, rows, out);
}
#elif defined(__aarch64__)
constexpr int64_t kAtOnce =
    program::TargetFacts::kNarrowLanes;  // words that lie together in a panel: widths are multiples
                                         // of it

// 8 words of four rows of 16 bits, as two halves.
inline void InterleaveFours8(const std::byte* const* rows, int64_t at, std::byte* const* to) {
  auto load = [&](int q) {
    return vreinterpretq_u16_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(rows[q] + 2 * at)));
  };
  uint16x8_t a = load(0), b = load(1), c = load(2), d = load(3);
  auto store = [](uint16x8_t ab, uint16x8_t cd, std::byte* out) {
    uint32x4_t x = vreinterpretq_u32_u16(ab), y = vreinterpretq_u32_u16(cd);
    auto* words = reinterpret_cast<uint8_t*>(out);
    vst1q_u8(words, vreinterpretq_u8_u32(vzip1q_u32(x, y)));
    vst1q_u8(words + 16, vreinterpretq_u8_u32(vzip2q_u32(x, y)));
  };
  store(vzip1q_u16(a, b), vzip1q_u16(c, d), to[0]);
  store(vzip2q_u16(a, b), vzip2q_u16(c, d), to[1]);
}

// 16 words of eight rows of bytes, as four quarters.
inline void InterleaveEights16(const std::byte* const* rows, int64_t at, std::byte* const* to) {
  auto load = [&](int q) { return vld1q_u8(reinterpret_cast<const uint8_t*>(rows[q] + at)); };
  uint8x16_t a = load(0), b = load(1), c = load(2), d = load(3);
  uint8x16_t e = load(4), f = load(5), g = load(6), h = load(7);
  auto quads = [](uint8x16_t ab, uint8x16_t cd, uint32x4_t* low, uint32x4_t* high) {
    uint16x8_t x = vreinterpretq_u16_u8(ab), y = vreinterpretq_u16_u8(cd);
    *low = vreinterpretq_u32_u16(vzip1q_u16(x, y));
    *high = vreinterpretq_u32_u16(vzip2q_u16(x, y));
  };
  uint32x4_t left[4], right[4];
  quads(vzip1q_u8(a, b), vzip1q_u8(c, d), &left[0], &left[1]);
  quads(vzip2q_u8(a, b), vzip2q_u8(c, d), &left[2], &left[3]);
  quads(vzip1q_u8(e, f), vzip1q_u8(g, h), &right[0], &right[1]);
  quads(vzip2q_u8(e, f), vzip2q_u8(g, h), &right[2], &right[3]);
  for (int q = 0; q < 4; ++q) {
    auto* words = reinterpret_cast<uint8_t*>(to[q]);
    vst1q_u8(words, vreinterpretq_u8_u32(vzip1q_u32(left[q], right[q])));
    vst1q_u8(words + 16, vreinterpretq_u8_u32(vzip2q_u32(left[q], right[q])));
  }
}

// Across panels, a vector of every row at a time; then what is left.
void InterleaveNeon(const WordRun& run, const std::byte* const* rows, std::byte* out) {
  bool fours = run.form == Words::kFours;
  int64_t unit = fours ? 8 : 16, bytes = fours ? 2 : 1, word = WordBytes(run.form);
  if ((!fours && run.form != Words::kEights) || run.width % kAtOnce != 0) {
    return InterleaveAny(run, rows, out);
  }
  int64_t i = 0, in_panel = 0;
  for (; i + unit <= run.count; i += unit) {
    std::byte* to[4];
    for (int64_t q = 0; q < unit / kAtOnce; ++q) {
      to[q] = out + in_panel * word;
      in_panel += kAtOnce;
      if (in_panel < run.width) continue;
      in_panel = 0;
      out += run.panel;
    }
    if (fours) InterleaveFours8(rows, i, to);
    if (!fours) InterleaveEights16(rows, i, to);
  }
  while (i < run.count) {
    int64_t n = std::min(run.width - in_panel, run.count - i);
    const std::byte* left[kMostOfWord];
    for (int q = 0; q < kMostOfWord; ++q) left[q] = rows[q] + i * bytes;
    InterleaveWords(run.form, left, n, out + in_panel * word);
    i += n;
    in_panel += n;
    if (in_panel < run.width) break;
    in_panel = 0;
    out += run.panel;
  }
  if (in_panel > 0) std::fill(out + in_panel * word, out + run.width * word, std::byte{0});
}
#endif

auto FindInterleave() {
#if defined(__x86_64__)
  if (HostFeatures().avx512) return InterleaveFast<InterleaveWide, InterleaveAvx512>;
  if (HostFeatures().avx2) return InterleaveFast<InterleaveWhole, InterleaveAvx2>;
  return InterleaveAny;
#elif defined(__aarch64__)
  return InterleaveNeon;
#else
  return InterleaveAny;
#endif
}

}  // namespace

void InterleaveRows(const WordRun& run, const std::byte* const* rows, std::byte* out) {
  static const auto interleave = FindInterleave();
  interleave(run, rows, out);
}

}  // namespace weft::cpu
