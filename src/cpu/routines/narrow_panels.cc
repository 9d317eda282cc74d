// Packing for the micro-kernels of narrow elements.
#include <algorithm>
#include <cstring>

#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_kernels.h"
#include "cpu/routines/narrow_words.h"
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

Words WordsOf(const NarrowKernel& kernel, DType dtype) {
  switch (kernel.element) {
    case NarrowElement::kBf16: return kernel.b_group == 4 ? Words::kFours : Words::kPairs;
    case NarrowElement::kInt8:
    case NarrowElement::kUnsigned: return kernel.b_group == 8 ? Words::kEights : Words::kQuads;
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
  if (!widens && s.source.k_stride == 1) {
    std::memcpy(to, s.At(vector, p), static_cast<size_t>(n) * bytes);
    return;
  }
  if (!widens) {
    const std::byte* from = s.At(vector, p);
    int64_t step = s.source.k_stride * static_cast<int64_t>(bytes);
    for (int64_t q = 0; q < n; ++q, from += step) {
      if (bytes == 1) to[q] = *from;
      if (bytes == 2) std::memcpy(to + 2 * q, from, 2);
    }
    return;
  }
  for (int64_t q = 0; q < n; ++q) {
    const std::byte* from = s.At(vector, p + q);
    auto x = static_cast<uint8_t>(*from);
    auto wide = static_cast<int16_t>(s.source.dtype == DType::kS8 ? static_cast<int8_t>(x) : x);
    std::memcpy(to + 2 * q, &wide, 2);
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
    if (s.group * element == 2 * kWord) {
      PackAcross<uint64_t>(reinterpret_cast<const uint64_t* const*>(rows), bytes / (2 * kWord),
                           s.width, reinterpret_cast<uint64_t*>(out));
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
  for (int64_t q = 0; q < kMostOfWord; ++q) {
    int64_t p = word * s.kernel.b_group + q;
    rows[q] = q < s.kernel.b_group && p < s.kn ? s.At(vector, p) : kZeroes;
  }
}

// Of vectors that lie beside each other, in lines of words of a vector.
void PackBesideInLines(const NarrowPanel& s) {
  constexpr int64_t kLineWords = kTileLine / kWord;
  alignas(64) uint32_t line[kLineWords * kMostVectors];
  auto* out = reinterpret_cast<uint32_t*>(s.out);
  for (int64_t word = 0; word < s.padded / s.kernel.b_group; ++word) {
    uint32_t* to = line + word % kLineWords * s.width;
    const std::byte* rows[kMostOfWord];
    WordRows(s, word, 0, rows);
    InterleaveRows({WordsOf(s.kernel, s.source.dtype), s.count, s.width, 0}, rows,
                   reinterpret_cast<std::byte*>(to));
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
      const std::byte* rows[kMostOfWord];
      WordRows(s, word, at, rows);
      InterleaveRows({form, std::min(most, s.count - at), s.width, panel}, rows,
                     s.out + at / s.width * panel + word * s.width * WordBytes(form));
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
  // Runs of fewer are not worth it: each vector is gathered by itself.
  constexpr int64_t kFewBeside = kTileLine / kWord;
  bool beside = source.vector_stride == 1 && source.k_stride != 1 && count >= kFewBeside,
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
