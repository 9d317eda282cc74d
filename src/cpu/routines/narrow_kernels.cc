#include "cpu/routines/narrow_kernels.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/routines/blocking.h"
#include "cpu/routines/machine.h"
#include "cpu/routines/unrolled.h"
#include "program/target_facts.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::cpu {
namespace {

#if defined(__x86_64__)
#define WEFT_AVX2_ONLY __attribute__((target("avx2")))
#define WEFT_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define WEFT_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

int32_t WordAt(const std::byte* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

constexpr int kRows512 = program::TargetFacts::kWideTileRows,
              kVectors512 = program::TargetFacts::kWideTileVectors, kCols512 = 16 * kVectors512;

WEFT_VNNI void VnniInt8(int64_t k, const std::byte* a, const std::byte* b, std::byte* c,
                        int64_t ldc, bool adds) {
  __m512i sums[kRows512][kVectors512], column[kVectors512];
  WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) column[v] = _mm512_loadu_si512(b + 64 * v);
  WEFT_UNROLLED for (int i = 0; i < kRows512; ++i) {
    __m512i row = _mm512_set1_epi32(WordAt(a + 4 * i));
    WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) {
      sums[i][v] = _mm512_add_epi32(row, column[v]);
    }
  }
  a += 64;  // what stands before the panels is whole lines
  b += 64 * kVectors512;
  for (int64_t p = 0; p < k; p += 4) {
    WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) column[v] = _mm512_loadu_si512(b + 64 * v);
    WEFT_UNROLLED for (int i = 0; i < kRows512; ++i) {
      __m512i row = _mm512_set1_epi32(WordAt(a + 4 * i));
      WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) {
        sums[i][v] = _mm512_dpbusd_epi32(sums[i][v], row, column[v]);
      }
    }
    a += 4 * kRows512;
    b += 64 * kVectors512;
  }
  WEFT_UNROLLED for (int i = 0; i < kRows512; ++i) {
    WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) {
      std::byte* to = c + 4 * i * ldc + 64 * v;
      if (adds) sums[i][v] = _mm512_add_epi32(sums[i][v], _mm512_loadu_si512(to));
      _mm512_storeu_si512(to, sums[i][v]);
    }
  }
}

// The same for rows of s8 as they lie, by columns of s8, at any depth.
WEFT_VNNI void VnniInt8Rows(int64_t k, const std::byte* a, int64_t a_row, const std::byte* b,
                            std::byte* c, int64_t ldc) {
  __m512i sums[kRows512][kVectors512], column[kVectors512];
  const __m512i flip = _mm512_set1_epi8(INT8_MIN);
  WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) column[v] = _mm512_loadu_si512(b + 64 * v);
  WEFT_UNROLLED for (int i = 0; i < kRows512; ++i) {
    WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) sums[i][v] = column[v];
  }
  b += 64 * kVectors512;
  for (int64_t p = 0; p + 4 <= k; p += 4, b += 64 * kVectors512) {
    WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) column[v] = _mm512_loadu_si512(b + 64 * v);
    WEFT_UNROLLED for (int i = 0; i < kRows512; ++i) {
      __m512i row = _mm512_xor_si512(_mm512_set1_epi32(WordAt(a + i * a_row + p)), flip);
      WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) {
        sums[i][v] = _mm512_dpbusd_epi32(sums[i][v], row, column[v]);
      }
    }
  }
  if (int64_t rest = k % 4; rest > 0) {  // zeroes of the panel stand against what is not read
    WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) column[v] = _mm512_loadu_si512(b + 64 * v);
    WEFT_UNROLLED for (int i = 0; i < kRows512; ++i) {
      int32_t word = 0;
      std::memcpy(&word, a + i * a_row + k - rest, static_cast<size_t>(rest));
      __m512i row = _mm512_xor_si512(_mm512_set1_epi32(word), flip);
      WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) {
        sums[i][v] = _mm512_dpbusd_epi32(sums[i][v], row, column[v]);
      }
    }
  }
  WEFT_UNROLLED for (int i = 0; i < kRows512; ++i) {
    WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) {
      _mm512_storeu_si512(c + 4 * i * ldc + 64 * v, sums[i][v]);
    }
  }
}

WEFT_BF16 void DotBf16(int64_t k, const std::byte* a, const std::byte* b, std::byte* c, int64_t ldc,
                       bool adds) {
  __m512 sums[kRows512][kVectors512];
  WEFT_UNROLLED for (int i = 0; i < kRows512; ++i) {
    WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) sums[i][v] = _mm512_setzero_ps();
  }
  for (int64_t p = 0; p < k; p += 2) {
    __m512i column[kVectors512];
    WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) column[v] = _mm512_loadu_si512(b + 64 * v);
    WEFT_UNROLLED for (int i = 0; i < kRows512; ++i) {
      __m512i row = _mm512_set1_epi32(WordAt(a + 4 * i));
      WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) {
        sums[i][v] = _mm512_dpbf16_ps(sums[i][v], (__m512bh)row, (__m512bh)column[v]);
      }
    }
    a += 4 * kRows512;
    b += 64 * kVectors512;
  }
  WEFT_UNROLLED for (int i = 0; i < kRows512; ++i) {
    WEFT_UNROLLED for (int v = 0; v < kVectors512; ++v) {
      std::byte* to = c + 4 * i * ldc + 64 * v;
      if (adds) sums[i][v] = _mm512_add_ps(sums[i][v], _mm512_loadu_ps(to));
      _mm512_storeu_ps(to, sums[i][v]);
    }
  }
}

constexpr int kRows256 = program::TargetFacts::kNarrowTileRows,
              kVectors256 = program::TargetFacts::kNarrowTileVectors, kCols256 = 8 * kVectors256;

WEFT_AVX2_ONLY inline __m256i Load256(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// Products of u8 and s8 in pairs would saturate (vpmaddubsw): elements are widened to 16 bits.
WEFT_AVX2_ONLY void MaddInt16(int64_t k, const std::byte* a, const std::byte* b, std::byte* c,
                              int64_t ldc, bool adds) {
  __m256i sums[kRows256][kVectors256];
  WEFT_UNROLLED for (int i = 0; i < kRows256; ++i) {
    WEFT_UNROLLED for (int v = 0; v < kVectors256; ++v) sums[i][v] = _mm256_setzero_si256();
  }
  for (int64_t p = 0; p < k; p += 2) {
    __m256i column[kVectors256];
    WEFT_UNROLLED for (int v = 0; v < kVectors256; ++v) column[v] = Load256(b + 32 * v);
    WEFT_UNROLLED for (int i = 0; i < kRows256; ++i) {
      __m256i row = _mm256_set1_epi32(WordAt(a + 4 * i));
      WEFT_UNROLLED for (int v = 0; v < kVectors256; ++v) {
        sums[i][v] = _mm256_add_epi32(sums[i][v], _mm256_madd_epi16(row, column[v]));
      }
    }
    a += 4 * kRows256;
    b += 32 * kVectors256;
  }
  WEFT_UNROLLED for (int i = 0; i < kRows256; ++i) {
    WEFT_UNROLLED for (int v = 0; v < kVectors256; ++v) {
      std::byte* to = c + 4 * i * ldc + 32 * v;
      if (adds) sums[i][v] = _mm256_add_epi32(sums[i][v], Load256(to));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums[i][v]);
    }
  }
}

bool HasVnni() {
  return HostFeatures().avx512_vnni;
}
bool HasBf16() {
  return HostFeatures().avx512_bf16;
}
bool HasMadd() {
  return HostFeatures().avx2;
}
#endif

std::vector<NarrowKernel> AllKernels() {
  std::vector<NarrowKernel> all;
  for (const NarrowKernel& kernel : detail::AmxKernels()) all.push_back(kernel);
  for (const NarrowKernel& kernel : detail::MmlaKernels()) all.push_back(kernel);
#if defined(__x86_64__)
  all.push_back({"avx512-bf16", NarrowElement::kBf16, true, true, kRows512, kCols512, 2, 2, 2, 40,
                 DotBf16, nullptr, nullptr, HasBf16});
  all.push_back({"avx512-vnni int8", NarrowElement::kUnsigned, true, true, kRows512, kCols512, 4, 4,
                 4, 300, VnniInt8, nullptr, nullptr, HasVnni, VnniInt8Rows, true});
  all.push_back({"avx2 int8 as int16", NarrowElement::kInt16, true, true, kRows256, kCols256, 2, 2,
                 2, 50, MaddInt16, nullptr, nullptr, HasMadd});
#endif
  return all;
}

bool IsInt8(DType dtype) {
  return dtype == DType::kS8 || dtype == DType::kU8;
}

bool TakesTypes(const NarrowKernel& kernel, DType a, DType b) {
  if (kernel.element == NarrowElement::kBf16) return a == DType::kBF16 && b == DType::kBF16;
  if (!IsInt8(a) || !IsInt8(b)) return false;
  return kernel.element != NarrowElement::kInt8 ||
         (kernel.a_signed == (a == DType::kS8) && kernel.b_signed == (b == DType::kS8));
}

// Those that this processor has: asked for by every small product.
const std::vector<const NarrowKernel*>& KernelsThere() {
  static const std::vector<const NarrowKernel*> there = [] {
    std::vector<const NarrowKernel*> list;
    for (const NarrowKernel& kernel : NarrowKernels()) {
      if (kernel.is_there()) list.push_back(&kernel);
    }
    return list;
  }();
  return there;
}

}  // namespace

std::span<const NarrowKernel> NarrowKernels() {
  static const std::vector<NarrowKernel> kernels = AllKernels();
  return kernels;
}

const NarrowKernel* FindNarrowKernel(DType a, DType b) {
  for (const NarrowKernel* kernel : KernelsThere()) {
    if (TakesTypes(*kernel, a, b)) return kernel;
  }
  return nullptr;
}

const NarrowKernel* FindNarrowKernel(DType a, DType b, int64_t rows) {
  const NarrowKernel* best = nullptr;
  double least = 0;
  for (const NarrowKernel* kernel : KernelsThere()) {
    if (!TakesTypes(*kernel, a, b)) continue;
    // Rows past the last one are multiplied too.
    double cost = static_cast<double>(RoundUp(rows, kernel->rows)) / kernel->speed;
    if (best != nullptr && cost >= least) continue;
    best = kernel;
    least = cost;
  }
  return best;
}

const NarrowRows* FindNarrowRows(const NarrowKernel& kernel, DType a, DType b) {
  auto all = detail::MmlaKernels();
  bool is_mmla = std::any_of(all.begin(), all.end(),
                             [&](const NarrowKernel& one) { return one.run == kernel.run; });
  return is_mmla ? detail::MmlaRows(a, b) : nullptr;
}

int64_t NarrowHead(const NarrowKernel& kernel, bool is_left) {
  constexpr int64_t kLine = program::TargetFacts::kLineBytes;
  if (!kernel.corrects()) return 0;
  return ((is_left ? kernel.rows : kernel.cols) * 4 + kLine - 1) / kLine * kLine;
}

int64_t NarrowPanelBytes(const NarrowKernel& kernel, bool is_left, int64_t k) {
  int64_t padded = (k + kernel.step - 1) / kernel.step * kernel.step;
  return NarrowHead(kernel, is_left) +
         padded * (is_left ? kernel.rows : kernel.cols) * kernel.element_bytes();
}

}  // namespace weft::cpu
