#include "cpu/routines/scaled_runs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/elements.h"
#include "base/packing.h"
#include "cpu/routines/convert_runs.h"
#include "cpu/routines/machine.h"
#include "cpu/routines/multiply.h"
#include "program/sum_order.h"
#include "program/target_facts.h"

#if defined(__aarch64__)
#include "cpu/routines/scaled_neon.h"
#define WEFT_SCALED_VECTORS 1
#elif defined(__x86_64__)
#include "cpu/routines/scaled_avx512.h"
#define WEFT_SCALED_VECTORS 1
#endif

namespace weft::cpu {
namespace {

// Numbers at once.
constexpr int64_t kScaledRun = program::SumOrder::kBlock;
constexpr int64_t kWordNumbers = sizeof(uint64_t) / sizeof(Bf16Bits);

// What each byte stands for, by type: numbers of a byte, or of one that has fewer bits in a byte of
// its own.
using ByteTable = std::array<float, 256>;
const ByteTable& TableOf(DType dtype) {
  struct Tables {
    std::array<ByteTable, kDTypeCount> of;
    Tables() {
      for (int t = 0; t < kDTypeCount; ++t) {
        auto type = static_cast<DType>(t);
        bool real = IsFloat(type) || IsInteger(type);
        if (!real || BitWidth(type) > 8) continue;
        for (int code = 0; code < 256; ++code) {
          auto byte = static_cast<std::byte>(code);
          if (IsPackable(type)) {  // as it is unpacked
            std::byte packed = byte & static_cast<std::byte>((1 << BitWidth(type)) - 1);
            UnpackElements(type, &packed, 1, &byte);
          }
          LoadF32(type, &byte, 1, &of[static_cast<size_t>(t)][static_cast<size_t>(code)]);
        }
      }
    }
  };
  static const Tables tables;
  return tables.of[static_cast<size_t>(dtype)];
}

void Store(const float* from, int64_t n, float* out) {
  std::memcpy(out, from, static_cast<size_t>(n) * sizeof(float));
}
void Store(const float* from, int64_t n, Bf16Bits* out) {
  RoundToBf16(from, n, reinterpret_cast<std::byte*>(out));
}

#if defined(WEFT_SCALED_VECTORS)
FloatsInRow InRow(float* out) {
  return {out};
}
Bf16InRow InRow(Bf16Bits* out) {
  return {out};
}
#endif

#if defined(__x86_64__)
// n numbers of a byte, by blocks, in vectors; false: something is not for them.
template <class Place>
bool DecodeByVectors(DType dtype, const std::byte* src, int64_t n, int64_t block,
                     const float* scales, const Place& to) {
  if (!HostFeatures().avx512 || n % kScaledLanes != 0 || block % kScaledLanes != 0) return false;
  auto decode = [&](const auto& reads) {
    DecodeBytes(reads, src, n, block, scales, to);
    return true;
  };
  switch (dtype) {
    case DType::kF8E4M3FN: return decode(ReadsE4m3fn{});
    case DType::kF8E5M2: return decode(ReadsE5m2{});
    case DType::kS8: return decode(ReadsS8{});
    case DType::kU8: return decode(ReadsU8{});
    default: return BitWidth(dtype) == 4 && decode(ReadsNibbles{TableOf(dtype).data()});
  }
}
#elif defined(__aarch64__)
// n numbers of a byte, by blocks, in vectors; false: something is not for them.
template <class Place>
bool DecodeByVectors(DType dtype, const std::byte* src, int64_t n, int64_t block,
                     const float* scales, const Place& to) {
  if (!HostFeatures().bf16 || n % 8 != 0 || block % 8 != 0) return false;
  if constexpr (!std::is_same_v<Place, FloatsInRow>) {
    const float* values = TableOf(dtype).data();
    bool by_exponents = n % 16 == 0 && block % 16 == 0;
    if (by_exponents && dtype == DType::kF8E4M3FN &&
        DecodeByExponents<E4m3fnByte>(values, src, n, block, scales, to)) {
      return true;
    }
    if (by_exponents && dtype == DType::kF8E5M2 &&
        DecodeByExponents<E5m2Byte>(values, src, n, block, scales, to)) {
      return true;
    }
  }
  switch (dtype) {
    case DType::kF8E4M3FN: return DecodeBytes<ReadsE4m3fn>(src, n, block, scales, to);
    case DType::kF8E5M2: return DecodeBytes<ReadsE5m2>(src, n, block, scales, to);
    case DType::kS8: return DecodeBytes<ReadsS8>(src, n, block, scales, to);
    case DType::kU8: return DecodeBytes<ReadsU8>(src, n, block, scales, to);
    default: return false;
  }
}
#endif

// Numbers, of which DecodeByVectors takes multiples.
constexpr int64_t kByVectors = 2 * program::TargetFacts::kUsualLanes;

// n numbers of whole bytes that lie one behind the other, at most kScaledRun, of blocks that begin
// with the first. scales[i]: of block i.
template <class T>
void DecodeRun(DType dtype, const std::byte* src, int64_t n, int64_t block, const float* scales,
               T* out) {
#if defined(WEFT_SCALED_VECTORS)
  // One scale for all: what whole vectors leave comes by the table.
  int64_t whole = block >= n ? n / kByVectors * kByVectors : n;
  if (whole > 0 && DecodeByVectors(dtype, src, whole, std::min(block, whole), scales, InRow(out))) {
    if (whole == n) return;
    src += whole, out += whole, n -= whole;
  }
#endif
  alignas(64) float wide[kScaledRun];
  if (ByteWidth(dtype) == 1) {
    const ByteTable& table = TableOf(dtype);
    for (int64_t i = 0; i < n; ++i) wide[i] = table[static_cast<size_t>(src[i])];
  } else {
    LoadRun<float>(dtype, src, n, wide);
  }
  for (int64_t i = 0; i < n; ++scales) {
    for (int64_t end = std::min(n, i + block); i < end; ++i) wide[i] *= *scales;
  }
  Store(wide, n, out);
}

// Numbers at..at + n of a side, of which some may share a byte with others: a byte each, or where
// they lie.
const std::byte* WholeBytes(const ScaledNumbers& s, int64_t at, int64_t n, std::byte* room) {
  at += s.first;
  if (!s.packed) return s.data + at * ByteWidth(s.dtype);
  int64_t in_byte = 8 / BitWidth(s.dtype), before = at % in_byte;
  std::byte* to = room;
  const std::byte* from = s.data + at / in_byte;
  if (before == 0) {
    UnpackElements(s.dtype, from, n, to);
    return room;
  }
  UnpackElements(s.dtype, from, n + before, to);
  return room + before;
}
constexpr int64_t kUnpackRoom = kScaledRun + 8;

// Scales of `count` blocks along k, or of vectors, so many elements apart.
void LoadScales(DType dtype, const std::byte* from, int64_t stride, int64_t count, float* out) {
  int64_t bytes = ByteWidth(dtype);
  if (bytes == 1) {
    const ByteTable& table = TableOf(dtype);
    for (int64_t i = 0; i < count; ++i) out[i] = table[static_cast<size_t>(from[i * stride])];
  } else if (stride == 1) {
    LoadRun<float>(dtype, from, count, out);
  } else {
    for (int64_t i = 0; i < count; ++i)
      LoadRun<float>(dtype, from + i * stride * bytes, 1, out + i);
  }
}
const std::byte* ScaleAt(const ScaledNumbers& s, int64_t vector, int64_t block) {
  int64_t at = vector / s.vector_block * s.scale_vector_stride + block * s.scale_k_stride;
  return s.scales + at * ByteWidth(s.scale_type);
}

#if defined(WEFT_SCALED_VECTORS)
bool HasVectorsForNibbles() {
  return HostFeatures().bf16 || HostFeatures().avx512;
}

// Numbers from `at` on: two a byte by a table that is scaled for each block, or bytes; false: they
// are not for vectors.
template <class Place>
bool ReadByVectors(const ScaledNumbers& s, int64_t at, int64_t n, int64_t block,
                   const float* scales, const Place& to) {
  at += s.first;
  if (!s.packed) {
    return ByteWidth(s.dtype) == 1 && DecodeByVectors(s.dtype, s.data + at, n, block, scales, to);
  }
  if (BitWidth(s.dtype) != 4 || at % 2 != 0 || n % 16 != 0 || block % 16 != 0 ||
      !HasVectorsForNibbles()) {
    return false;
  }
  if constexpr (std::is_same_v<Place, FloatsInRow>)
    return false;
  else
    DecodeNibbles(TableOf(s.dtype).data(), s.data + at / 2, n, block, scales, to);
  return true;
}
#endif

// Some numbers of a vector, of whole blocks or of one, and their scales.
struct BlockRun {
  int64_t n, block;
  float scales[kScaledRun];
};
void NextRun(const ScaledNumbers& s, int64_t vector, int64_t k0, int64_t most, BlockRun& run) {
  run.n = run.block = std::min(kScaledRun, most);
  run.scales[0] = 1;
  if (s.scales == nullptr) return;
  int64_t number = k0 / s.k_block, inside = k0 % s.k_block;
  run.block = std::min(run.n, s.k_block - inside);
  if (run.block < s.k_block) run.n = run.block;
  LoadScales(s.scale_type, ScaleAt(s, vector, number), s.scale_k_stride,
             (run.n + run.block - 1) / run.block, run.scales);
}

// Words of four numbers, so many words apart; zeroes behind the last one.
void StoreWords(const Bf16Bits* from, int64_t n, uint64_t* out, int64_t stride) {
  for (int64_t i = 0; i < n; i += kWordNumbers, out += stride) {
    Bf16Bits word[kWordNumbers] = {};
    std::copy_n(from + i, std::min(kWordNumbers, n - i), word);
    std::memcpy(out, word, sizeof(word));
  }
}

}  // namespace

template <class T>
void ReadAlong(const ScaledNumbers& s, int64_t vector, int64_t k0, int64_t n, T* out) {
  alignas(64) std::byte room[kUnpackRoom];
  BlockRun run;
  for (int64_t i = 0; i < n; i += run.n) {
    NextRun(s, vector, k0 + i, n - i, run);
    int64_t at = vector * s.vector_stride + k0 + i;
#if defined(WEFT_SCALED_VECTORS)
    if (s.packed && ReadByVectors(s, at, run.n, run.block, run.scales, InRow(out + i))) continue;
#endif
    DecodeRun(s.dtype, WholeBytes(s, at, run.n, room), run.n, run.block, run.scales, out + i);
  }
}

bool TakesDots(const ScaledNumbers& s, int64_t k) {
#if defined(__x86_64__)
  bool whole = s.scales == nullptr || s.k_block >= k || s.k_block % kScaledLanes == 0;
  bool known = s.dtype == DType::kS8 || s.dtype == DType::kU8 || s.dtype == DType::kF8E4M3FN ||
               s.dtype == DType::kF8E5M2;
  return HostFeatures().avx512 && !s.packed && s.k_stride == 1 && known && whole &&
         k % kScaledLanes == 0;
#else
  return k < 0 && s.packed;  // not there
#endif
}

float DotAlong([[maybe_unused]] const ScaledNumbers& s, [[maybe_unused]] int64_t vector,
               [[maybe_unused]] int64_t k, [[maybe_unused]] const float* x) {
  double total = 0;
#if defined(__x86_64__)
  BlockRun run;
  for (int64_t i = 0; i < k; i += run.n) {
    NextRun(s, vector, i, k - i, run);
    const std::byte* src = s.data + s.first + vector * s.vector_stride + i;
    auto dot = [&](const auto& reads) {
      return DotBytes(reads, src, run.n, run.block, run.scales, x + i);
    };
    float sum = s.dtype == DType::kS8         ? dot(ReadsS8{})
                : s.dtype == DType::kU8       ? dot(ReadsU8{})
                : s.dtype == DType::kF8E4M3FN ? dot(ReadsE4m3fn{})
                                              : dot(ReadsE5m2{});
    total += static_cast<double>(sum);
  }
#endif
  return static_cast<float>(total);
}

void ReadWords(const ScaledNumbers& s, int64_t vector, int64_t k0, int64_t n, uint64_t* out,
               int64_t stride) {
  alignas(64) Bf16Bits row[kScaledRun];
  BlockRun run;
  // Blocks that end within a word are read one behind the other first.
  bool whole = s.scales == nullptr || s.k_block % kWordNumbers == 0;
  for (int64_t i = 0; i < n; i += run.n) {
    uint64_t* to = out + i / kWordNumbers * stride;
    if (whole && (k0 + i) % kWordNumbers == 0) {
      NextRun(s, vector, k0 + i, n - i, run);
#if defined(__aarch64__)
      int64_t at = vector * s.vector_stride + k0 + i;
      if (ReadByVectors(s, at, run.n, run.block, run.scales, Bf16InWords{to, stride})) continue;
#endif
    } else {
      run.n = std::min(kScaledRun, n - i);
    }
    ReadAlong(s, vector, k0 + i, run.n, row);
    StoreWords(row, run.n, to, stride);
  }
}

namespace {
void LoadVectorScales(const ScaledNumbers& s, int64_t first, int64_t n, int64_t block,
                      float* scales) {
  if (s.vector_block == 1) {
    return LoadScales(s.scale_type, ScaleAt(s, first, block), s.scale_vector_stride, n, scales);
  }
  for (int64_t i = 0; i < n; ++i) {
    LoadScales(s.scale_type, ScaleAt(s, first + i, block), 1, 1, scales + i);
  }
}
}  // namespace

template <class T>
void ReadAcross(const ScaledNumbers& s, int64_t first, int64_t n, int64_t p0, int64_t rows, T* out,
                int64_t row_stride) {
  alignas(64) std::byte room[kUnpackRoom];
  alignas(64) float wide[kScaledRun], scales[kScaledRun];
  for (int64_t i = 0; i < n; i += kScaledRun) {
    int64_t part = std::min(kScaledRun, n - i), block = -1;
    bool one_scale = s.scales != nullptr &&
                     (first + i) / s.vector_block == (first + i + part - 1) / s.vector_block;
    for (int64_t p = p0; p < p0 + rows; ++p) {
      T* to = out + (p - p0) * row_stride + i;
      const std::byte* from = WholeBytes(s, p * s.k_stride + first + i, part, room);
      const float one = 1;
      if (s.scales != nullptr && p / s.k_block != block) {
        block = p / s.k_block;
        LoadVectorScales(s, first + i, one_scale ? 1 : part, block, scales);
      }
      if (s.scales == nullptr || one_scale) {
        DecodeRun(s.dtype, from, part, part, one_scale ? scales : &one, to);
        continue;
      }
      if constexpr (std::is_same_v<T, float>) {
        DecodeRun(s.dtype, from, part, part, &one, to);
        for (int64_t q = 0; q < part; ++q) to[q] *= scales[q];
      } else {
        DecodeRun(s.dtype, from, part, part, &one, wide);
        for (int64_t q = 0; q < part; ++q) wide[q] *= scales[q];
        Store(wide, part, to);
      }
    }
  }
}

template void ReadAlong<float>(const ScaledNumbers&, int64_t, int64_t, int64_t, float*);
template void ReadAlong<Bf16Bits>(const ScaledNumbers&, int64_t, int64_t, int64_t, Bf16Bits*);
template void ReadAcross<float>(const ScaledNumbers&, int64_t, int64_t, int64_t, int64_t, float*,
                                int64_t);
template void ReadAcross<Bf16Bits>(const ScaledNumbers&, int64_t, int64_t, int64_t, int64_t,
                                   Bf16Bits*, int64_t);

}  // namespace weft::cpu
