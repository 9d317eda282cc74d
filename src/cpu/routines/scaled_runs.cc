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

#if defined(__aarch64__)
#include "cpu/routines/scaled_neon.h"
#endif

namespace weft::cpu {
namespace {

// Numbers at once.
constexpr int64_t kScaledRun = program::SumOrder::kBlock;

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

// As many of n bytes as vectors take; 0 for types that they do not know.
template <class T>
int64_t DecodeByVectors([[maybe_unused]] DType dtype, [[maybe_unused]] const std::byte* src,
                        [[maybe_unused]] int64_t n, [[maybe_unused]] float scale,
                        [[maybe_unused]] T* out) {
#if defined(__aarch64__)
  if (!HostFeatures().bf16) return 0;
  switch (dtype) {
    case DType::kF8E4M3FN: return DecodeFloats<ReadsE4m3fn>(src, n, scale, out);
    case DType::kF8E5M2: return DecodeFloats<ReadsE5m2>(src, n, scale, out);
    case DType::kS8: return DecodeInts<true>(src, n, scale, out);
    case DType::kU8: return DecodeInts<false>(src, n, scale, out);
    default: break;
  }
#endif
  return 0;
}

// n numbers that lie one behind the other, of whole bytes, times one scale.
template <class T>
void DecodeRun(DType dtype, const std::byte* src, int64_t n, float scale, T* out) {
  alignas(64) float wide[kScaledRun];
  int64_t bytes = ByteWidth(dtype), i = DecodeByVectors(dtype, src, n, scale, out);
  while (i < n) {
    int64_t part = std::min(kScaledRun, n - i);
    if (bytes == 1) {
      const ByteTable& table = TableOf(dtype);
      part = std::min<int64_t>(part, 16);  // vectors may go on behind what is not a number
      for (int64_t q = 0; q < part; ++q) {
        wide[q] = table[static_cast<size_t>(src[i + q])] * scale;
      }
    } else {
      LoadRun<float>(dtype, src + i * bytes, part, wide);
      for (int64_t q = 0; q < part; ++q) wide[q] *= scale;
    }
    Store(wide, part, out + i);
    i += part;
    if (i < n) i += DecodeByVectors(dtype, src + i * bytes, n - i, scale, out + i);
  }
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

float ScaleAt(const ScaledNumbers& s, int64_t vector, int64_t block) {
  int64_t at = vector / s.vector_block * s.scale_vector_stride + block * s.scale_k_stride;
  const std::byte* from = s.scales + at * ByteWidth(s.scale_type);
  if (ByteWidth(s.scale_type) == 1) return TableOf(s.scale_type)[static_cast<size_t>(*from)];
  float scale;
  LoadF32(s.scale_type, from, 1, &scale);
  return scale;
}

// Two numbers a byte by a table that is scaled for each block.
template <class T>
bool ReadNibbles([[maybe_unused]] const ScaledNumbers& s, [[maybe_unused]] int64_t vector,
                 [[maybe_unused]] int64_t k0, [[maybe_unused]] int64_t n,
                 [[maybe_unused]] T* out) {
#if defined(__aarch64__)
  if constexpr (std::is_same_v<T, Bf16Bits>) {
    int64_t at = s.first + vector * s.vector_stride + k0;
    int64_t block = s.scales == nullptr ? n : s.k_block;
    bool fits = s.packed && BitWidth(s.dtype) == 4 && at % 2 == 0 && n % 16 == 0 &&
                block % 16 == 0 && k0 % block == 0 && n <= kScaledRun && HostFeatures().bf16;
    if (!fits) return false;
    float scales[kScaledRun / 16];
    for (int64_t i = 0; i * block < n; ++i) {
      scales[i] = s.scales == nullptr ? 1.0F : ScaleAt(s, vector, k0 / block + i);
    }
    DecodeNibbles(TableOf(s.dtype).data(), s.data + at / 2, n, block, scales, out);
    return true;
  }
#endif
  return false;
}

}  // namespace

template <class T>
void ReadAlong(const ScaledNumbers& s, int64_t vector, int64_t k0, int64_t n, T* out) {
  alignas(64) std::byte room[kUnpackRoom];
  for (int64_t i = 0; i < n;) {
    int64_t part = std::min(kScaledRun, n - i);
    if (ReadNibbles(s, vector, k0 + i, part, out + i)) {
      i += part;
      continue;
    }
    float scale = 1;
    if (s.scales != nullptr) {
      int64_t block = (k0 + i) / s.k_block;
      part = std::min(part, (block + 1) * s.k_block - k0 - i);
      scale = ScaleAt(s, vector, block);
    }
    const std::byte* from = WholeBytes(s, vector * s.vector_stride + k0 + i, part, room);
    DecodeRun(s.dtype, from, part, scale, out + i);
    i += part;
  }
}

template <class T>
void ReadAcross(const ScaledNumbers& s, int64_t first, int64_t n, int64_t p0, int64_t rows, T* out,
                int64_t row_stride) {
  alignas(64) std::byte room[kUnpackRoom];
  alignas(64) float wide[kScaledRun], scales[kScaledRun];
  for (int64_t i = 0; i < n; i += kScaledRun) {
    int64_t part = std::min(kScaledRun, n - i), block = -1;
    for (int64_t p = p0; p < p0 + rows; ++p) {
      T* to = out + (p - p0) * row_stride + i;
      const std::byte* from = WholeBytes(s, p * s.k_stride + first + i, part, room);
      if (s.scales == nullptr) {
        DecodeRun(s.dtype, from, part, 1.0F, to);
        continue;
      }
      if (p / s.k_block != block) {
        block = p / s.k_block;
        for (int64_t q = 0; q < part; ++q) scales[q] = ScaleAt(s, first + i + q, block);
      }
      DecodeRun(s.dtype, from, part, 1.0F, wide);
      for (int64_t q = 0; q < part; ++q) wide[q] *= scales[q];
      Store(wide, part, to);
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
