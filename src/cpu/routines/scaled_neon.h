// Numbers of 8 and 4 bits by vectors of arm64, for scaled_runs.cc. Included where __aarch64__ is
// defined; what is here is called where the processor has bf16.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#define WEFT_SCALED __attribute__((target("arch=armv8.2-a+bf16")))
#define WEFT_SCALED_INLINE [[gnu::always_inline]] WEFT_SCALED inline

namespace weft::cpu {
namespace {

// Where numbers go, eight at a time: one behind the other, or as words of four bf16 that lie apart.
struct FloatsInRow {
  float* out;
  WEFT_SCALED_INLINE void Store(int64_t i, float32x4_t low, float32x4_t high) const {
    vst1q_f32(out + i, low);
    vst1q_f32(out + i + 4, high);
  }
};
WEFT_SCALED_INLINE uint16x8_t RoundEight(float32x4_t low, float32x4_t high) {
  return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high));
}
struct Bf16InRow {
  uint16_t* out;
  WEFT_SCALED_INLINE void Store(int64_t i, uint16x8_t x) const { vst1q_u16(out + i, x); }
  WEFT_SCALED_INLINE void Store(int64_t i, float32x4_t low, float32x4_t high) const {
    Store(i, RoundEight(low, high));
  }
};
struct Bf16InWords {
  uint64_t* out;
  int64_t stride;
  WEFT_SCALED_INLINE void Store(int64_t i, uint16x8_t x) const {
    uint64_t* to = out + i / 4 * stride;
    vst1q_lane_u64(to, vreinterpretq_u64_u16(x), 0);
    vst1q_lane_u64(to + stride, vreinterpretq_u64_u16(x), 1);
  }
  WEFT_SCALED_INLINE void Store(int64_t i, float32x4_t low, float32x4_t high) const {
    Store(i, RoundEight(low, high));
  }
};

// Eight codes as f16, which times kFactor are the numbers.
struct ReadsE5m2 {
  static constexpr float kFactor = 0x1p0F;
  WEFT_SCALED_INLINE static float16x8_t Eight(uint8x8_t codes) {
    return vreinterpretq_f16_u16(vshll_n_u8(codes, 8));
  }
  static constexpr bool kIsWhole = true;  // all codes are numbers, or what f16 has for them
};
// Exponents of e4m3fn in the place of those of f16, whose bias is larger by 8. The sign, extended,
// fills one bit more than it has. What is not a number would become one.
struct ReadsE4m3fn {
  static constexpr float kFactor = 0x1p8F;
  WEFT_SCALED_INLINE static float16x8_t Eight(uint8x8_t codes) {
    int16x8_t wide = vshll_n_s8(vreinterpret_s8_u8(codes), 7);
    return vreinterpretq_f16_u16(vbicq_u16(vreinterpretq_u16_s16(wide), vdupq_n_u16(0x4000)));
  }
  static constexpr bool kIsWhole = false;
};
struct ReadsS8 {
  static constexpr float kFactor = 0x1p0F;
  WEFT_SCALED_INLINE static int16x8_t Eight(uint8x8_t codes) {
    return vmovl_s8(vreinterpret_s8_u8(codes));
  }
  static constexpr bool kIsWhole = true;
};
struct ReadsU8 {
  static constexpr float kFactor = 0x1p0F;
  WEFT_SCALED_INLINE static int16x8_t Eight(uint8x8_t codes) {
    return vreinterpretq_s16_u16(vmovl_u8(codes));
  }
  static constexpr bool kIsWhole = true;
};

template <class Place>
WEFT_SCALED_INLINE void ScaleEight(float16x8_t x, float32x4_t by, const Place& to, int64_t i) {
  float32x4_t low = vcvt_f32_f16(vget_low_f16(x)), high = vcvt_high_f32_f16(x);
  to.Store(i, vmulq_f32(low, by), vmulq_f32(high, by));
}
template <class Place>
WEFT_SCALED_INLINE void ScaleEight(int16x8_t x, float32x4_t by, const Place& to, int64_t i) {
  // 2^23 + 2^15 + x, whose last bits are x: faster than conversions.
  uint16x8_t bits = veorq_u16(vreinterpretq_u16_s16(x), vdupq_n_u16(0x8000));
  const uint16x8_t upper = vdupq_n_u16(0x4B00);
  const float32x4_t base = vdupq_n_f32(0x1p23F + 0x1p15F);
  float32x4_t low = vsubq_f32(vreinterpretq_f32_u16(vzip1q_u16(bits, upper)), base);
  float32x4_t high = vsubq_f32(vreinterpretq_f32_u16(vzip2q_u16(bits, upper)), base);
  to.Store(i, vmulq_f32(low, by), vmulq_f32(high, by));
}

// n numbers of a byte, of blocks of `block` that begin with the first: both are multiples of 8.
// scales[i]: of block i. False: not all of them are numbers, or a factor may overflow where
// products do not.
template <class Reads, class Place>
WEFT_SCALED bool DecodeBytes(const std::byte* src, int64_t n, int64_t block, const float* scales,
                             const Place& to) {
  const auto* codes = reinterpret_cast<const uint8_t*>(src);
  if constexpr (!Reads::kIsWhole) {
    uint8x8_t most = vdup_n_u8(0);
    for (int64_t i = 0; i < n; i += 8) most = vmax_u8(most, vshl_n_u8(vld1_u8(codes + i), 1));
    if (vmaxv_u8(most) == 0xFE) return false;  // all ones, the sign shifted out
  }
  for (int64_t i = 0; i < n; ++scales) {
    float factor = *scales * Reads::kFactor;
    if (Reads::kFactor != 1 && !(factor <= 0x1p127F && factor >= -0x1p127F)) return false;
    float32x4_t by = vdupq_n_f32(factor);
    for (int64_t end = i + block < n ? i + block : n; i < end; i += 8) {
      ScaleEight(Reads::Eight(vld1_u8(codes + i)), by, to, i);
    }
  }
  return true;
}

// 16 numbers times a scale, as bf16: low and high bytes apart.
struct ScaledTable {
  uint8x16_t low, high;

  WEFT_SCALED_INLINE ScaledTable(const float32x4_t* values, float scale) {
    uint8x16_t first = vreinterpretq_u8_u16(
        RoundEight(vmulq_n_f32(values[0], scale), vmulq_n_f32(values[1], scale)));
    uint8x16_t second = vreinterpretq_u8_u16(
        RoundEight(vmulq_n_f32(values[2], scale), vmulq_n_f32(values[3], scale)));
    low = vuzp1q_u8(first, second);
    high = vuzp2q_u8(first, second);
  }
};

template <class Place>
WEFT_SCALED_INLINE void StoreBytes(uint8x16_t low, uint8x16_t high, const Place& to, int64_t i) {
  to.Store(i, vreinterpretq_u16_u8(vzip1q_u8(low, high)));
  to.Store(i + 8, vreinterpretq_u16_u8(vzip2q_u8(low, high)));
}
template <class Place>
WEFT_SCALED_INLINE void LookUp(const ScaledTable& table, uint8x16_t codes, const Place& to,
                               int64_t i) {
  StoreBytes(vqtbl1q_u8(table.low, codes), vqtbl1q_u8(table.high, codes), to, i);
}

// n numbers, two a byte, of blocks of `block` that begin with the first: both are multiples of 16.
// scales[i]: of block i.
template <class Place>
WEFT_SCALED void DecodeNibbles(const float* values, const std::byte* src, int64_t n, int64_t block,
                               const float* scales, const Place& to) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(src);
  float32x4_t all[4];
  for (int i = 0; i < 4; ++i) all[i] = vld1q_f32(values + 4 * i);
  const uint8x16_t mask = vdupq_n_u8(15);
  for (int64_t i = 0; i < n; ++scales) {
    ScaledTable table(all, *scales);
    int64_t end = i + block < n ? i + block : n;
    for (; i + 32 <= end; i += 32) {
      uint8x16_t both = vld1q_u8(bytes + i / 2);
      uint8x16_t even = vandq_u8(both, mask), odd = vshrq_n_u8(both, 4);
      LookUp(table, vzip1q_u8(even, odd), to, i);
      LookUp(table, vzip2q_u8(even, odd), to, i + 16);
    }
    if (i == end) continue;
    uint8x16_t both = vcombine_u8(vld1_u8(bytes + i / 2), vdup_n_u8(0));
    LookUp(table, vzip1q_u8(vandq_u8(both, mask), vshrq_n_u8(both, 4)), to, i);
    i = end;
  }
}

// Floats of a byte times powers of two are bf16 with the same bits of the mantissa: exponents are
// added. Magnitudes from kFirstSpecial on are no numbers.
template <int kMantissaBits, int kFormatBias, int kFirstSpecial>
struct ByteFloat {
  static constexpr int kMantissa = kMantissaBits, kBias = kFormatBias, kLimit = kFirstSpecial;
  // Exponents of those that are computed: magnitudes from 16 on.
  static constexpr int kLeast = 16 >> kMantissa, kMost = (kLimit - 1) >> kMantissa;
};
using E4m3fnByte = ByteFloat<3, 7, 0x7F>;
using E5m2Byte = ByteFloat<2, 15, 0x7C>;

// As DecodeBytes, where all scales are powers of two and both sizes multiples of 16. `values`: of
// magnitudes below 16, which come from tables, since some have no exponent of their own.
template <class Format, class Place>
WEFT_SCALED bool DecodeByExponents(const float* values, const std::byte* src, int64_t n,
                                   int64_t block, const float* scales, const Place& to) {
  constexpr int kShift = 7 - Format::kMantissa;  // to the place of bf16's mantissa
  constexpr int kOdd = 1 << Format::kMantissa;   // one of an exponent
  const auto* codes = reinterpret_cast<const uint8_t*>(src);
  float32x4_t all[4];
  for (int i = 0; i < 4; ++i) all[i] = vld1q_f32(values + 4 * i);
  const uint8x16_t sign = vdupq_n_u8(0x80);
  uint8x16_t most = vdupq_n_u8(0);
  for (int64_t i = 0; i < n; ++scales) {
    uint32_t bits;
    __builtin_memcpy(&bits, scales, sizeof(bits));
    int add = static_cast<int>(bits >> 23) - Format::kBias;
    bool fits = add + Format::kLeast >= 1 && add + Format::kMost <= 254;
    if ((bits & 0x807FFFFF) != 0 || !fits) return false;
    ScaledTable table(all, *scales);
    // add << 7 is in two bytes; the lower one's bit is added before the shift.
    uint8x16_t odd = vdupq_n_u8(static_cast<uint8_t>((add & 1) * kOdd));
    uint8x16_t upper = vdupq_n_u8(static_cast<uint8_t>(add >> 1));
    for (int64_t end = i + block < n ? i + block : n; i < end; i += 16) {
      uint8x16_t x = vld1q_u8(codes + i), magnitude = vbicq_u8(x, sign);
      most = vmaxq_u8(most, magnitude);
      uint8x16_t shifted = vaddq_u8(magnitude, odd);
      uint8x16_t high = vaddq_u8(vshrq_n_u8(shifted, 8 - kShift), upper);
      high = vqtbx1q_u8(high, table.high, magnitude);
      uint8x16_t low = vqtbx1q_u8(vshlq_n_u8(shifted, kShift), table.low, magnitude);
      StoreBytes(low, vbslq_u8(sign, x, high), to, i);
    }
  }
  return vmaxvq_u8(most) < Format::kLimit;
}

}  // namespace
}  // namespace weft::cpu
