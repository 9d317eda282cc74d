#include "base/float_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "base/elements.h"

namespace weft {
namespace {

constexpr DType kByteFloats[] = {DType::kF4E2M1FN,      DType::kF6E2M3FN,   DType::kF6E3M2FN,
                                 DType::kF8E3M4,        DType::kF8E4M3,     DType::kF8E4M3FN,
                                 DType::kF8E5M2,        DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ,
                                 DType::kF8E4M3B11FNUZ, DType::kF8E8M0FNU};

// Written from the formats' definitions, with none of the code under test but the parameters.
double SlowDecode(const FloatFormat& f, uint64_t bits) {
  if (f.specials == FloatSpecials::kExponentOnly) {
    return bits == 255 ? NAN : std::ldexp(1.0, static_cast<int>(bits) - 127);
  }
  int sign = static_cast<int>(bits >> (f.bits - 1));
  int exponent = static_cast<int>(bits >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  int mantissa = static_cast<int>(bits) & ((1 << f.mantissa_bits) - 1);
  bool top = exponent == (1 << f.exponent_bits) - 1;
  bool ones = mantissa == (1 << f.mantissa_bits) - 1;
  double s = sign ? -1 : 1;
  if (f.specials == FloatSpecials::kIeee && top) return mantissa == 0 ? s * INFINITY : NAN;
  if (f.specials == FloatSpecials::kFn && top && ones) return NAN;
  if (f.specials == FloatSpecials::kFnuz && sign && exponent == 0 && mantissa == 0) return NAN;
  double fraction = mantissa + (exponent > 0 ? 1 << f.mantissa_bits : 0);
  return s * std::ldexp(fraction, std::max(exponent, 1) - f.bias - f.mantissa_bits);
}

// Nearest value by looking at all of them; ties to the even pattern. Overflow is decided against
// the value that would follow the largest.
class SlowEncoder {
 public:
  explicit SlowEncoder(const FloatFormat& f) : f_(f) {
    for (uint64_t i = 0; i <= f.MagnitudeMask(); ++i) {
      double v = SlowDecode(f, i);
      if (std::isfinite(v)) values_.push_back(v);
    }
  }
  uint64_t operator()(double x) const {
    bool negative = std::signbit(x);
    uint64_t sign = negative ? uint64_t{1} << (f_.bits - 1) : 0;
    bool finite_only = f_.specials == FloatSpecials::kFinite;
    if (std::isnan(x)) return f_.QuietNan(negative);
    double a = std::fabs(x);
    size_t largest = values_.size() - 1;
    double beyond = 2 * values_[largest] - values_[largest - 1];  // the next value, were there one
    double limit = (values_[largest] + beyond) / 2;
    size_t best;
    if (a > limit || (a == limit && largest % 2 == 1)) {
      if (f_.specials == FloatSpecials::kIeee) return sign | (largest + 1);
      if (!finite_only) return f_.QuietNan(negative);
      best = largest;
    } else {
      best = 0;
      for (size_t i = 1; i < values_.size(); ++i) {
        double now = std::fabs(a - values_[i]), then = std::fabs(a - values_[best]);
        if (now < then || (now == then && i % 2 == 0)) best = i;
      }
    }
    if (best == 0 && f_.specials == FloatSpecials::kFnuz) return 0;
    return sign | best;
  }

 private:
  FloatFormat f_;
  std::vector<double> values_;
};

TEST(FloatFormats, DecodesAsDefined) {
  for (DType t : kByteFloats) {
    FloatFormat f = FormatOf(t);
    for (uint64_t bits = 0; bits < uint64_t{1} << f.bits; ++bits) {
      double want = SlowDecode(f, bits), got = DecodeBits(t, bits);
      std::byte b{static_cast<uint8_t>(bits)};
      float from_block;
      DecodeFloats(t, &b, 1, &from_block);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got) && std::isnan(from_block) && f.IsNan(bits)) << Name(t) << bits;
      } else {
        EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(want)) << Name(t) << bits;
        EXPECT_EQ(static_cast<double>(from_block), want) << Name(t) << " " << bits;
      }
    }
  }
  for (DType t : {DType::kF16, DType::kBF16}) {
    for (uint64_t bits = 0; bits < 65536; ++bits) {
      double want = SlowDecode(FormatOf(t), bits), got = DecodeBits(t, bits);
      ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : want == got) << Name(t) << " " << bits;
    }
  }
}

TEST(FloatFormats, RoundTripThroughFloatAndDouble) {
  for (int i = static_cast<int>(DType::kF4E2M1FN); i <= static_cast<int>(DType::kBF16); ++i) {
    DType t = static_cast<DType>(i);
    FloatFormat f = FormatOf(t);
    for (uint64_t bits = 0; bits < uint64_t{1} << f.bits; ++bits) {
      std::byte storage[2] = {std::byte(bits & 0xff), std::byte(bits >> 8)}, back[2] = {};
      alignas(8) std::byte source[2] = {storage[0], storage[1]};
      float single;
      DecodeFloats(t, source, 1, &single);
      double wide = single;
      for (bool through_double : {false, true}) {
        alignas(8) std::byte out[2] = {};
        through_double ? EncodeFloats(t, &wide, 1, out) : EncodeFloats(t, &single, 1, out);
        std::copy(out, out + 2, back);
        uint64_t got = static_cast<uint64_t>(back[0]) | static_cast<uint64_t>(back[1]) << 8;
        if (f.IsNan(bits)) {
          ASSERT_TRUE(f.IsNan(got)) << Name(t) << " " << bits;
        } else {
          ASSERT_EQ(got, bits) << Name(t) << (through_double ? " double" : " float");
        }
      }
    }
  }
}

// Every f16 value to every byte format (but the powers of two, below).
TEST(FloatFormats, EncodesF16AsTheNearest) {
  for (DType t : kByteFloats) {
    if (t == DType::kF8E8M0FNU) continue;
    SlowEncoder slow(FormatOf(t));
    for (uint64_t bits = 0; bits < 65536; ++bits) {
      double x = DecodeBits(DType::kF16, bits);
      float single = static_cast<float>(x);
      std::byte got;
      EncodeFloats(t, &single, 1, &got);
      uint64_t want = slow(x);
      ASSERT_EQ(static_cast<uint64_t>(got), want) << Name(t) << " of " << x;
      ASSERT_EQ(EncodeBits(t, x), want) << Name(t) << " of " << x;
    }
  }
}

// Halfway cases of the 16-bit formats, moved by one unit of a double.
TEST(FloatFormats, EncodesHalvesAsTheNearest) {
  for (DType t : {DType::kF16, DType::kBF16}) {
    for (uint64_t bits = 0; bits < FormatOf(t).MaxFinite(); ++bits) {
      double a = DecodeBits(t, bits), b = DecodeBits(t, bits + 1), middle = (a + b) / 2;
      uint64_t even = bits % 2 == 0 ? bits : bits + 1;
      ASSERT_EQ(EncodeBits(t, middle), even);
      ASSERT_EQ(EncodeBits(t, std::nextafter(middle, 0)), bits);
      ASSERT_EQ(EncodeBits(t, std::nextafter(middle, INFINITY)), bits + 1);
      float single = static_cast<float>(middle);
      if (static_cast<double>(single) != middle) continue;  // bf16's subnormals
      alignas(2) std::byte got[2];
      EncodeFloats(t, &single, 1, got);
      ASSERT_EQ(static_cast<uint64_t>(got[0]) | static_cast<uint64_t>(got[1]) << 8, even);
    }
  }
}

TEST(FloatFormats, FloatAndDoublePathsAgree) {
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    for (DType t : {DType::kF16, DType::kBF16, DType::kF8E4M3FN, DType::kF8E8M0FNU}) {
      alignas(2) std::byte got[2] = {};
      EncodeFloats(t, &x, 1, got);
      ASSERT_EQ(static_cast<uint64_t>(got[0]) | static_cast<uint64_t>(got[1]) << 8,
                EncodeBits(t, x))
          << Name(t) << " of " << x;
    }
  }
}

TEST(FloatFormats, PowersOfTwo) {
  DType t = DType::kF8E8M0FNU;
  EXPECT_EQ(EncodeBits(t, 1.0), 127u);
  EXPECT_EQ(EncodeBits(t, 1.49), 127u);
  EXPECT_EQ(EncodeBits(t, 1.5), 128u);
  EXPECT_EQ(EncodeBits(t, 3.0), 129u);
  EXPECT_EQ(EncodeBits(t, 0.0), 255u);
  EXPECT_EQ(EncodeBits(t, -1.0), 255u);
  EXPECT_EQ(EncodeBits(t, 1e-300), 0u);
  EXPECT_EQ(EncodeBits(t, INFINITY), 255u);
}

TEST(Elements, WideIntegersRoundOnce) {
  // 2^60 + 2^52 + 1 lies just above the middle of two bf16 values; a double or float in between
  // would drop the 1 and then round down to even.
  int64_t x = (int64_t{1} << 60) + (int64_t{1} << 52) + 1;
  uint16_t got;
  ConvertElements(DType::kS64, reinterpret_cast<const std::byte*>(&x), DType::kBF16,
                  reinterpret_cast<std::byte*>(&got), 1);
  EXPECT_EQ(got, 0x5d81);
  x = -x;
  ConvertElements(DType::kS64, reinterpret_cast<const std::byte*>(&x), DType::kBF16,
                  reinterpret_cast<std::byte*>(&got), 1);
  EXPECT_EQ(got, 0xdd81);
}

TEST(Elements, FloatToIntSaturates) {
  float in[] = {1e30f, -1e30f, NAN, -1.9f, 127.9f, 2147483648.0f, INFINITY};
  auto to = [&](DType t) {
    std::vector<std::byte> out(8 * 8);
    StoreF32(t, in, 7, out.data());
    std::vector<int64_t> wide(7);
    LoadI64(t, out.data(), 7, wide.data());
    return wide;
  };
  using V = std::vector<int64_t>;
  EXPECT_EQ(to(DType::kS8), (V{127, -128, 0, -1, 127, 127, 127}));
  EXPECT_EQ(to(DType::kS1), (V{0, -1, 0, -1, 0, 0, 0}));
  EXPECT_EQ(to(DType::kU4), (V{15, 0, 0, 0, 15, 15, 15}));
  EXPECT_EQ(to(DType::kS32), (V{2147483647, -2147483648LL, 0, -1, 127, 2147483647, 2147483647}));
  EXPECT_EQ(to(DType::kS64), (V{INT64_MAX, INT64_MIN, 0, -1, 127, 2147483648LL, INT64_MAX}));
  EXPECT_EQ(to(DType::kU64), (V{-1, 0, 0, 0, 127, 2147483648LL, -1}));
  EXPECT_EQ(to(DType::kPred), (V{1, 1, 1, 1, 1, 1, 1}));
}

TEST(Elements, BlocksOfAnyLength) {
  for (int64_t n : {0, 1, 511, 512, 513, 2000}) {
    std::vector<uint8_t> in(static_cast<size_t>(n)), back(in.size());
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i % 100);
    std::vector<std::complex<double>> wide(in.size());
    ConvertElements(DType::kU8, reinterpret_cast<std::byte*>(in.data()), DType::kC128,
                    reinterpret_cast<std::byte*>(wide.data()), n);
    ConvertElements(DType::kC128, reinterpret_cast<std::byte*>(wide.data()), DType::kU8,
                    reinterpret_cast<std::byte*>(back.data()), n);
    EXPECT_EQ(in, back);
  }
}

}  // namespace
}  // namespace weft
