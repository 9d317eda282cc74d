// Numbers of 8 and 4 bits by vectors of arm64, for scaled_runs.cc. Included where __aarch64__ is
// defined; what is here is called where the processor has bf16.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#define WEFT_SCALED __attribute__((target("arch=armv8.2-a+bf16")))

namespace weft::cpu {
namespace {

[[gnu::always_inline]] WEFT_SCALED inline void StoreEight(float32x4_t low, float32x4_t high,
                                                          uint16_t* out) {
  bfloat16x8_t both = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high);
  vst1q_u16(out, vreinterpretq_u16_bf16(both));
}
[[gnu::always_inline]] WEFT_SCALED inline void StoreEight(float32x4_t low, float32x4_t high,
                                                          float* out) {
  vst1q_f32(out, low);
  vst1q_f32(out + 4, high);
}

// Eight codes as f16, which times kFactor are the numbers.
struct ReadsE5m2 {
  static constexpr float kFactor = 1;
  static float16x8_t Halves(uint8x8_t codes) {
    return vreinterpretq_f16_u16(vshll_n_u8(codes, 8));
  }
  static bool IsPlain(uint8x16_t) { return true; }
};
// Exponents of e4m3fn in the place of those of f16, whose bias is larger by 8. The sign, extended,
// fills one bit more than it has. What is not a number would become one.
struct ReadsE4m3fn {
  static constexpr float kFactor = 256;
  static float16x8_t Halves(uint8x8_t codes) {
    int16x8_t wide = vshll_n_s8(vreinterpret_s8_u8(codes), 7);
    return vreinterpretq_f16_u16(vbicq_u16(vreinterpretq_u16_s16(wide), vdupq_n_u16(0x4000)));
  }
  static bool IsPlain(uint8x16_t codes) { return vmaxvq_u8(vshlq_n_u8(codes, 1)) != 0xFE; }
};

template <class Reads, class T>
[[gnu::always_inline]] WEFT_SCALED inline void DecodeHalves(float16x8_t halves, float32x4_t factor,
                                                            T* out) {
  float32x4_t low = vcvt_f32_f16(vget_low_f16(halves)), high = vcvt_high_f32_f16(halves);
  StoreEight(vmulq_f32(low, factor), vmulq_f32(high, factor), out);
}

// As many of n codes as it can, 16 at a time: the number of them.
template <class Reads, class T>
WEFT_SCALED int64_t DecodeFloats(const std::byte* src, int64_t n, float scale, T* out) {
  float all = scale * Reads::kFactor;
  if (!(all <= 0x1p120F && all >= -0x1p120F)) return 0;  // the factor may overflow where they do not
  float32x4_t factor = vdupq_n_f32(all);
  const auto* codes = reinterpret_cast<const uint8_t*>(src);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    uint8x16_t x = vld1q_u8(codes + i);
    if (!Reads::IsPlain(x)) break;
    DecodeHalves<Reads>(Reads::Halves(vget_low_u8(x)), factor, out + i);
    DecodeHalves<Reads>(Reads::Halves(vget_high_u8(x)), factor, out + i + 8);
  }
  return i;
}

template <bool kSigned, class T>
WEFT_SCALED int64_t DecodeInts(const std::byte* src, int64_t n, float scale, T* out) {
  const auto* codes = reinterpret_cast<const uint8_t*>(src);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint8x8_t x = vld1_u8(codes + i);
    int16x8_t wide = kSigned ? vmovl_s8(vreinterpret_s8_u8(x)) : vreinterpretq_s16_u16(vmovl_u8(x));
    float32x4_t low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
    float32x4_t high = vcvtq_f32_s32(vmovl_high_s16(wide));
    StoreEight(vmulq_n_f32(low, scale), vmulq_n_f32(high, scale), out + i);
  }
  return i;
}

// The 16 numbers of 4 bits times a scale, as bf16: low and high bytes apart.
struct NibbleTable {
  uint8x16_t low, high;
};
[[gnu::always_inline]] WEFT_SCALED inline NibbleTable ScaledTable(const float32x4_t* values,
                                                                  float scale) {
  auto eight = [&](int i) WEFT_SCALED {
    bfloat16x8_t low = vcvtq_low_bf16_f32(vmulq_n_f32(values[i], scale));
    return vreinterpretq_u8_bf16(vcvtq_high_bf16_f32(low, vmulq_n_f32(values[i + 1], scale)));
  };
  uint8x16_t first = eight(0), second = eight(2);
  return {vuzp1q_u8(first, second), vuzp2q_u8(first, second)};
}

[[gnu::always_inline]] WEFT_SCALED inline void LookUp(const NibbleTable& table, uint8x16_t codes,
                                                      uint16_t* out) {
  uint8x16_t low = vqtbl1q_u8(table.low, codes), high = vqtbl1q_u8(table.high, codes);
  vst1q_u8(reinterpret_cast<uint8_t*>(out), vzip1q_u8(low, high));
  vst1q_u8(reinterpret_cast<uint8_t*>(out + 8), vzip2q_u8(low, high));
}

// n numbers, two a byte, of blocks of `block` that begin with the first: both are multiples of 16.
// scales[i]: of block i.
WEFT_SCALED inline void DecodeNibbles(const float* values, const std::byte* src, int64_t n,
                                      int64_t block, const float* scales, uint16_t* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(src);
  float32x4_t all[4];
  for (int i = 0; i < 4; ++i) all[i] = vld1q_f32(values + 4 * i);
  const uint8x16_t mask = vdupq_n_u8(15);
  for (int64_t begin = 0; begin < n; begin += block, ++scales) {
    NibbleTable table = ScaledTable(all, *scales);
    int64_t i = begin, end = begin + block < n ? begin + block : n;
    for (; i + 32 <= end; i += 32) {
      uint8x16_t both = vld1q_u8(bytes + i / 2);
      uint8x16_t even = vandq_u8(both, mask), odd = vshrq_n_u8(both, 4);
      LookUp(table, vzip1q_u8(even, odd), out + i);
      LookUp(table, vzip2q_u8(even, odd), out + i + 16);
    }
    if (i == end) continue;
    uint8x16_t both = vcombine_u8(vld1_u8(bytes + i / 2), vdup_n_u8(0));
    LookUp(table, vzip1q_u8(vandq_u8(both, mask), vshrq_n_u8(both, 4)), out + i);
  }
}

}  // namespace
}  // namespace weft::cpu
