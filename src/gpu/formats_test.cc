// lib/formats.cuh compiled for the host, against base/float_formats.h.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/float_formats.h"

namespace weft::gpu {
namespace device {

using u32 = uint32_t;
using f32 = float;
inline f32 __uint_as_float(u32 x) {
  return std::bit_cast<float>(x);
}
inline u32 __float_as_uint(f32 x) {
  return std::bit_cast<uint32_t>(x);
}
#define __device__
#include "gpu/lib/formats.cuh"
#undef __device__

}  // namespace device

template <class Format>
void ExpectSame(DType type) {
  for (uint32_t bits = 0; bits < (1u << BitWidth(type)); ++bits) {
    float want = static_cast<float>(DecodeBits(type, bits)), got = Format::Decode(bits);
    bool same = std::isnan(want) ? std::isnan(got)
                                 : std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(got);
    EXPECT_TRUE(same) << Name(type) << " " << bits << ": " << got << ", not " << want;
  }
  // Every exponent and sign with the upper mantissa bits, and those beside each.
  for (uint32_t high = 0; high < (1u << 20); ++high) {
    for (uint32_t low : {0u, 1u, 0xfffu}) {
      float x = std::bit_cast<float>(high << 12 | low);
      uint8_t want = 0;
      EncodeFloats(type, &x, 1, reinterpret_cast<std::byte*>(&want));
      ASSERT_EQ(Format::Encode(x), want) << Name(type) << " of " << x;
    }
  }
}

TEST(Formats, LikeBase) {
  ExpectSame<device::F4E2M1FN>(DType::kF4E2M1FN);
  ExpectSame<device::F6E2M3FN>(DType::kF6E2M3FN);
  ExpectSame<device::F6E3M2FN>(DType::kF6E3M2FN);
  ExpectSame<device::F8E3M4>(DType::kF8E3M4);
  ExpectSame<device::F8E4M3>(DType::kF8E4M3);
  ExpectSame<device::F8E4M3FN>(DType::kF8E4M3FN);
  ExpectSame<device::F8E4M3FNUZ>(DType::kF8E4M3FNUZ);
  ExpectSame<device::F8E4M3B11FNUZ>(DType::kF8E4M3B11FNUZ);
  ExpectSame<device::F8E5M2>(DType::kF8E5M2);
  ExpectSame<device::F8E5M2FNUZ>(DType::kF8E5M2FNUZ);
  ExpectSame<device::F8E8M0FNU>(DType::kF8E8M0FNU);
}

}  // namespace weft::gpu
