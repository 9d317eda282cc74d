// Packing for the micro-kernels of narrow elements. Words are the 4 bytes of elements that an
// instruction takes for one lane.
#include <algorithm>
#include <cstring>

#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_kernels.h"
#include "cpu/routines/tiles.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::cpu {
namespace {

// Bytes of a vector that are packed at once.
constexpr int64_t kChunk = 8 * program::TargetFacts::kLineBytes;
// Of a panel.
constexpr int64_t kMostVectors =
    program::CodeBounds::kCopies * program::TargetFacts::kLineBytes / sizeof(float);
constexpr int64_t kWord = sizeof(uint32_t), kTileLine = program::TargetFacts::kTileRowBytes;

// Words of count vectors that lie beside each other: rows[q] has element q of each of them.
template <class From, class To, int kGroup>
[[gnu::always_inline]] inline void InterleaveAs(const std::byte* const* rows, int64_t count,
                                                uint32_t* out) {
  constexpr int kBits = 32 / kGroup;
  const From* from[kGroup];
  for (int q = 0; q < kGroup; ++q) from[q] = reinterpret_cast<const From*>(rows[q]);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word = 0;
    for (int q = 0; q < kGroup; ++q) {
      From x;
      std::memcpy(&x, from[q] + i, sizeof(x));
      word |= uint32_t{static_cast<To>(x)} << (q * kBits);
    }
    out[i] = word;
  }
}

enum class Words : uint8_t { kPairs, kQuads, kSignedPairs, kUnsignedPairs };

[[gnu::always_inline]] inline void InterleaveWords(Words form, const std::byte* const* rows,
                                                   int64_t count, uint32_t* out) {
  switch (form) {
    case Words::kPairs: return InterleaveAs<uint16_t, uint16_t, 2>(rows, count, out);
    case Words::kQuads: return InterleaveAs<uint8_t, uint8_t, 4>(rows, count, out);
    case Words::kSignedPairs: return InterleaveAs<int8_t, uint16_t, 2>(rows, count, out);
    case Words::kUnsignedPairs: return InterleaveAs<uint8_t, uint16_t, 2>(rows, count, out);
  }
}

// The words of one row of panels: `count` vectors, `width` a panel, panels so many words apart.
struct WordRun {
  Words form;
  int64_t count, width, panel;
};

[[gnu::always_inline]] inline void InterleavePanels(const WordRun& run,
                                                    const std::byte* const* rows, uint32_t* out) {
  int64_t from_bytes = run.form == Words::kPairs ? 2 : 1;
  const std::byte* at[4] = {rows[0], rows[1], rows[2], rows[3]};
  for (int64_t i = 0; i < run.count; i += run.width, out += run.panel) {
    int64_t n = std::min(run.width, run.count - i);
    InterleaveWords(run.form, at, n, out);
    std::fill(out + n, out + run.width, 0U);
    for (const std::byte*& row : at) row += run.width * from_bytes;
  }
}

void InterleaveAny(const WordRun& run, const std::byte* const* rows, uint32_t* out) {
  InterleavePanels(run, rows, out);
}
#if defined(__x86_64__)
#define WEFT_AVX2_PACK __attribute__((target("avx2")))
#define WEFT_AVX512_PACK __attribute__((target("avx512f,avx512bw,avx512vl")))

WEFT_AVX2_PACK inline __m256i LoadHalf(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
WEFT_AVX2_PACK inline void StoreHalf(uint32_t* to, __m256i words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
}

// 16 words of two rows of 16 bits.
WEFT_AVX2_PACK inline void InterleavePairs16(const std::byte* const* rows, int64_t at,
                                             uint32_t* out) {
  __m256i a = LoadHalf(rows[0] + 2 * at), b = LoadHalf(rows[1] + 2 * at);
  __m256i low = _mm256_unpacklo_epi16(a, b), high = _mm256_unpackhi_epi16(a, b);
  StoreHalf(out, _mm256_permute2x128_si256(low, high, 0x20));
  StoreHalf(out + 8, _mm256_permute2x128_si256(low, high, 0x31));
}

// 16 words of four rows of bytes.
WEFT_AVX2_PACK inline void InterleaveQuads16(const std::byte* const* rows, int64_t at,
                                             uint32_t* out) {
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
                                    uint32_t* out) {
  bool pairs = run.form == Words::kPairs;
  for (int64_t i = 0; i < run.count; i += run.width, out += run.panel) {
    for (int64_t j = 0; j < run.width; j += 16) {
      if (pairs) InterleavePairs16(rows, i + j, out + j);
      if (!pairs) InterleaveQuads16(rows, i + j, out + j);
    }
  }
}

// Whole panels of elements that are not widened, then what is left.
template <void (*kRest)(const WordRun&, const std::byte* const*, uint32_t*)>
void InterleaveFast(const WordRun& run, const std::byte* const* rows, uint32_t* out) {
  bool as_is = run.form == Words::kPairs || run.form == Words::kQuads;
  int64_t whole = as_is && run.width % 16 == 0 ? run.count / run.width * run.width : 0;
  if (whole > 0) InterleaveWhole({run.form, whole, run.width, run.panel}, rows, out);
  if (whole == run.count) return;
  int64_t skip = whole * (run.form == Words::kPairs ? 2 : 1);
  const std::byte* left[4];
  for (int q = 0; q < 4; ++q) left[q] = rows[q] + skip;
  kRest({run.form, run.count - whole, run.width, run.panel}, left,
        out + whole / run.width * run.panel);
}

WEFT_AVX2_PACK void InterleaveAvx2(const WordRun& run, const std::byte* const* rows,
                                   uint32_t* out) {
  InterleavePanels(run, rows, out);
}
WEFT_AVX512_PACK void InterleaveAvx512(const WordRun& run, const std::byte* const* rows,
                                       uint32_t* out) {
  InterleavePanels(run, rows, out);
}
#endif

auto FindInterleave() {
#if defined(__x86_64__)
  if (HostFeatures().avx512) return InterleaveFast<InterleaveAvx512>;
  if (HostFeatures().avx2) return InterleaveFast<InterleaveAvx2>;
#endif
  return InterleaveAny;
}

Words WordsOf(const NarrowKernel& kernel, DType dtype) {
  switch (kernel.element) {
    case NarrowElement::kBf16: return Words::kPairs;
    case NarrowElement::kInt8:
    case NarrowElement::kUnsigned: return Words::kQuads;
    case NarrowElement::kInt16: break;
  }
  return dtype == DType::kS8 ? Words::kSignedPairs : Words::kUnsignedPairs;
}

// One panel and where its elements come from.
struct NarrowPanel {
  const NarrowKernel& kernel;
  const NarrowSource& source;
  int64_t width, group;  // vectors, elements of each that lie together
  int64_t first, count, k0, kn, padded;
  std::byte* out;

  const std::byte* At(int64_t vector, int64_t p) const {
    int64_t at = (first + vector) * source.vector_stride + (k0 + p) * source.k_stride;
    return source.data + at * ByteWidth(source.dtype);
  }
};

// Elements p to p + n of a vector, as the kernel wants them.
void GatherElements(const NarrowPanel& s, int64_t vector, int64_t p, int64_t n, std::byte* to) {
  bool widens = s.kernel.element == NarrowElement::kInt16;
  size_t bytes = static_cast<size_t>(ByteWidth(s.source.dtype));
  for (int64_t q = 0; q < n; ++q) {
    const std::byte* from = s.At(vector, p + q);
    if (widens) {
      auto x = static_cast<uint8_t>(*from);
      auto wide = static_cast<int16_t>(s.source.dtype == DType::kS8 ? static_cast<int8_t>(x) : x);
      std::memcpy(to + 2 * q, &wide, 2);
    } else {
      std::memcpy(to + q * static_cast<int64_t>(bytes), from, bytes);
    }
  }
}

// Of vectors whose elements are consecutive, or as if they were.
void PackAlong(const NarrowPanel& s) {
  alignas(64) static constexpr std::byte kZeroes[kChunk] = {};
  std::byte gathered[kMostVectors][kChunk];
  int64_t element = s.kernel.element_bytes();
  bool as_is = s.source.k_stride == 1 && element == ByteWidth(s.source.dtype);
  for (int64_t at = 0; at < s.padded * element; at += kChunk) {
    int64_t bytes = std::min(kChunk, s.padded * element - at);
    int64_t there = std::clamp<int64_t>(s.kn * element - at, 0, bytes);
    const std::byte* rows[kMostVectors];
    for (int64_t i = 0; i < s.width; ++i) {
      rows[i] = i < s.count ? gathered[i] : kZeroes;
      if (i >= s.count) continue;
      if (as_is && there == bytes) {
        rows[i] = s.At(i, at / element);
      } else {
        GatherElements(s, i, at / element, there / element, gathered[i]);
        std::fill(gathered[i] + there, gathered[i] + bytes, std::byte{0});
      }
    }
    std::byte* out = s.out + at * s.width;
    if (s.group * element == kWord) {
      PackAcross<uint32_t>(reinterpret_cast<const uint32_t* const*>(rows), bytes / kWord, s.width,
                           reinterpret_cast<uint32_t*>(out));
      continue;
    }
    // More rows than a processor's prefetcher follows.
    for (int64_t line = 0; line < bytes; line += kTileLine) {
      for (int64_t i = 0; i < s.width; ++i, out += kTileLine) {
        __builtin_prefetch(rows[i] + line + 4 * kTileLine);
        std::memcpy(out, rows[i] + line, kTileLine);
      }
    }
  }
}

// Rows of elements that lie beside each other, of which so many make up a word, from some vector
// on; zeroes past the end.
void WordRows(const NarrowPanel& s, int64_t word, int64_t vector, const std::byte** rows) {
  static constexpr std::byte kZeroes[8 * kChunk] = {};  // as many bytes go at once
  for (int64_t q = 0; q < 4; ++q) {
    int64_t p = word * s.kernel.b_group + q;
    rows[q] = q < s.kernel.b_group && p < s.kn ? s.At(vector, p) : kZeroes;
  }
}

// Of vectors that lie beside each other, in lines of words of a vector.
void PackBesideInLines(const NarrowPanel& s) {
  static const auto interleave = FindInterleave();
  constexpr int64_t kLineWords = kTileLine / kWord;
  alignas(64) uint32_t line[kLineWords * kMostVectors];
  auto* out = reinterpret_cast<uint32_t*>(s.out);
  for (int64_t word = 0; word < s.padded / s.kernel.b_group; ++word) {
    uint32_t* to = line + word % kLineWords * s.width;
    const std::byte* rows[4];
    WordRows(s, word, 0, rows);
    interleave({WordsOf(s.kernel, s.source.dtype), s.count, s.width, 0}, rows, to);
    if (word % kLineWords != kLineWords - 1) continue;
    const uint32_t* words[kLineWords];
    for (int64_t w = 0; w < kLineWords; ++w) words[w] = line + w * s.width;
    PackAcross<uint32_t>(words, s.width, kLineWords,
                         out + (word / kLineWords) * s.width * kLineWords);
  }
}

// Of vectors that lie beside each other: across all panels, so that rows are read in long runs, and
// asked for in time.
void PackBeside(const NarrowPanel& s, int64_t panel) {
  static const auto interleave = FindInterleave();
  constexpr int64_t kWordsAhead = program::TargetFacts::kLinesAhead / 2;
  Words form = WordsOf(s.kernel, s.source.dtype);
  int64_t bytes = ByteWidth(s.source.dtype), of_word = s.kernel.b_group;
  int64_t most = 8 * kChunk / bytes / s.width * s.width;
  for (int64_t word = 0; word < s.padded / of_word; ++word) {
    for (int64_t q = 0; q < of_word && (word + kWordsAhead + 1) * of_word <= s.kn; ++q) {
      const std::byte* ahead = s.At(0, (word + kWordsAhead) * of_word + q);
      for (int64_t at = 0; at < s.count * bytes; at += 64) __builtin_prefetch(ahead + at);
    }
    for (int64_t at = 0; at < s.count; at += most) {
      const std::byte* rows[4];
      WordRows(s, word, at, rows);
      auto* out =
          reinterpret_cast<uint32_t*>(s.out + at / s.width * panel + word * s.width * kWord);
      interleave({form, std::min(most, s.count - at), s.width, panel / kWord}, rows, out);
    }
  }
}

// Sums of the elements of each vector of a panel of bytes, in groups of four.
template <class Element>
void SumVectors(const std::byte* panel, int64_t k, int64_t width, int32_t* sums) {
  std::fill_n(sums, width, 0);
  for (int64_t word = 0; word < k / kWord; ++word) {
    for (int64_t i = 0; i < width; ++i, panel += kWord) {
      Element x[kWord];
      std::memcpy(x, panel, sizeof(x));
      sums[i] += x[0] + x[1] + x[2] + x[3];
    }
  }
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bw,avx512vnni"))) void SumColumnsVnni(const std::byte* panel,
                                                                           int64_t k, int64_t width,
                                                                           int32_t* sums) {
  for (int64_t i = 0; i < width; i += 16) {
    __m512i sum = _mm512_setzero_si512(), ones = _mm512_set1_epi8(1);
    for (int64_t word = 0; word < k / kWord; ++word) {
      sum = _mm512_dpbusd_epi32(sum, ones, _mm512_loadu_si512(panel + (word * width + i) * kWord));
    }
    _mm512_storeu_si512(sums + i, sum);
  }
}
#endif

// The instruction takes u8 on the left and s8 on the right. A left s8 is taken as a + 128, a right
// u8 as b - 128, which both is a flip of the upper bit:
// sum(a b) = sum(a' b') + right * sum(a') - left * sum(b') - k * left * right.
void Correct(const NarrowPanel& s, bool is_left, DType other) {
  constexpr int32_t kHalf = -INT8_MIN;
  DType left_type = is_left ? s.source.dtype : other, right_type = is_left ? other : s.source.dtype;
  int32_t left = left_type == DType::kS8 ? kHalf : 0, right = right_type == DType::kU8 ? kHalf : 0;
  int64_t bytes = s.padded * s.width;
  if ((is_left ? left : right) != 0) {
    for (int64_t i = 0; i < bytes; ++i) s.out[i] ^= std::byte{0x80};
  }
  auto* sums = reinterpret_cast<int32_t*>(s.out - NarrowHead(s.kernel, is_left));
  if ((is_left ? right : left) == 0) {
    std::fill_n(sums, s.width, 0);
    return;
  }
  if (is_left) {
    SumVectors<uint8_t>(s.out, s.padded, s.width, sums);
    for (int64_t i = 0; i < s.width; ++i) sums[i] *= right;
    return;
  }
#if defined(__x86_64__)
  SumColumnsVnni(s.out, s.padded, s.width, sums);
#else
  SumVectors<int8_t>(s.out, s.padded, s.width, sums);
#endif
  auto all = static_cast<int32_t>(s.padded) * left * right;
  for (int64_t i = 0; i < s.width; ++i) sums[i] = -left * sums[i] - all;
}

}  // namespace

void PackNarrow(const NarrowKernel& kernel, bool is_left, const NarrowSource& source, DType other,
                int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t panel,
                std::byte* out) {
  int64_t width = is_left ? kernel.rows : kernel.cols;
  int64_t group = is_left ? kernel.a_group : kernel.b_group;
  int64_t padded = (kn + kernel.step - 1) / kernel.step * kernel.step;
  out += NarrowHead(kernel, is_left);
  NarrowPanel all = {kernel, source, width, group, first, count, k0, kn, padded, out};
  bool beside = source.vector_stride == 1 && source.k_stride != 1,
       in_lines = group != kernel.b_group;
  if (beside && !in_lines) PackBeside(all, panel);
  for (int64_t at = 0; at < count; at += width, out += panel) {
    NarrowPanel one = all;
    one.first += at;
    one.count = std::min(width, count - at);
    one.out = out;
    if (!beside) PackAlong(one);
    if (beside && in_lines) PackBesideInLines(one);
    if (kernel.corrects()) Correct(one, is_left, other);
  }
}

void CorrectNarrow(const NarrowKernel& kernel, bool is_left, DType dtype, DType other, int64_t k,
                   std::byte* panel) {
  if (!kernel.corrects()) return;
  NarrowSource source = {dtype, nullptr, 0, 0};
  int64_t width = is_left ? kernel.rows : kernel.cols, step = kernel.step;
  Correct({kernel, source, width, kernel.a_group, 0, width, 0, k, (k + step - 1) / step * step,
           panel + NarrowHead(kernel, is_left)},
          is_left, other);
}

}  // namespace weft::cpu
