#include "base/float_formats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace weft {
namespace {

// Adding this power of two puts the bits of a subnormal result at the low end of the sum, rounded.
constexpr uint32_t SubnormalMagic(const FloatFormat& f) {
  return static_cast<uint32_t>(127 + 24 - f.bias - f.mantissa_bits) << 23;
}

// All cases are computed and one is chosen, so that loops over this become vector code.
template <DType kType>
uint32_t EncodeOne(float value) {
  constexpr FloatFormat f = FormatOf(kType);
  constexpr int kShift = 23 - f.mantissa_bits;
  constexpr uint32_t kMagic = SubnormalMagic(f), kSmallest = static_cast<uint32_t>(128 - f.bias)
                                                             << 23;
  constexpr uint32_t kMax = static_cast<uint32_t>(f.MaxFinite());
  constexpr uint32_t kSign = static_cast<uint32_t>(f.SignMask());
  uint32_t x = std::bit_cast<uint32_t>(value);
  bool negative = (x >> 31) != 0;
  uint32_t sign = negative ? kSign : 0;
  x &= 0x7fffffff;
  uint32_t result = (x + ((1u << (kShift - 1)) - 1) + ((x >> kShift) & 1)) >> kShift;
  result -= static_cast<uint32_t>(127 - f.bias) << f.mantissa_bits;
  if constexpr (f.bias != 127) {  // bf16: subnormals and infinity are those of float
    float sum = std::bit_cast<float>(x) + std::bit_cast<float>(kMagic);
    uint32_t small = std::bit_cast<uint32_t>(sum) - kMagic;
    result = x < kSmallest ? small : result;
  }
  if constexpr (f.specials == FloatSpecials::kFnuz) {
    uint32_t with_sign = result == 0 ? 0 : result | sign;
    return result > kMax || x > 0x7f800000 ? kSign : with_sign;
  } else {
    // Infinity; or NaN, where there is none; or else the largest value.
    constexpr uint32_t kOverflow = f.specials == FloatSpecials::kFinite ? kMax : kMax + 1;
    if constexpr (f.bias != 127) result = result > kMax ? kOverflow : result;
    result |= sign;
    constexpr uint32_t kNan = static_cast<uint32_t>(f.QuietNan(false));
    constexpr uint32_t kNegativeNan = static_cast<uint32_t>(f.QuietNan(true));
    return x > 0x7f800000 ? (negative ? kNegativeNan : kNan) : result;
  }
}

// The nearest power of two. The significand of one bit is odd, so that ties go up; everything
// between the smallest power and the next goes up too (ml_dtypes, the reference for all of these,
// does so).
template <>
uint32_t EncodeOne<DType::kF8E8M0FNU>(float value) {
  uint32_t x = std::bit_cast<uint32_t>(value);  // as unsigned, negative ones are above infinity
  uint32_t exponent = x >> 23, fraction = x & 0x7fffff;
  uint32_t up = fraction >= (exponent == 0 ? 0x400001u : 0x400000u) ? 1 : 0;
  return x == 0 || exponent + up > 254 ? 255 : exponent + up;
}

// A float toward zero whose last bit is set when bits were lost: rounding it again to a format of
// fewer bits gives the double rounded once.
float ToOddFloat(double value) {
  float near = static_cast<float>(value);
  double back = near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  bits -= std::fabs(back) > std::fabs(value) ? 1 : 0;
  bits |= back != value ? 1 : 0;
  return std::bit_cast<float>(bits);
}

// Exact: float holds every value of the formats of 16 bits and less.
constexpr float DecodeValue(uint32_t bits, FloatFormat f) {
  bool negative = (bits & f.SignMask()) != 0;
  uint32_t sign = negative ? 0x80000000u : 0;
  if (f.IsNan(bits)) return std::bit_cast<float>(sign | 0x7fc00000u);
  uint32_t magnitude = bits & static_cast<uint32_t>(f.MagnitudeMask());
  if (f.HasInfinity() && magnitude == f.Infinity()) return std::bit_cast<float>(sign | 0x7f800000u);
  if (f.specials == FloatSpecials::kExponentOnly) {
    return std::bit_cast<float>(magnitude == 0 ? 0x00400000u : magnitude << 23);
  }
  int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  uint32_t mantissa = magnitude & static_cast<uint32_t>(f.MantissaMask());
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    int shift = f.mantissa_bits + 1 - static_cast<int>(std::bit_width(mantissa));
    mantissa = (mantissa << shift) & static_cast<uint32_t>(f.MantissaMask());
    exponent = 1 - shift;
  }
  return std::bit_cast<float>(sign | static_cast<uint32_t>(exponent - f.bias + 127) << 23 |
                              mantissa << (23 - f.mantissa_bits));
}

template <DType kType>
constexpr std::array<float, 256> kDecodeTable = [] {
  constexpr FloatFormat f = FormatOf(kType);
  std::array<float, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) table[i] = DecodeValue(i & ((1u << f.bits) - 1), f);
  return table;
}();

float Bf16ToFloat(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// All cases are computed and one is chosen, so that the loop becomes vector code. NaN payloads
// stay.
float F16ToFloat(uint16_t value) {
  constexpr uint32_t kTop = 0x7c00u << 13;
  uint32_t sign = static_cast<uint32_t>(value & 0x8000) << 16;
  uint32_t x = static_cast<uint32_t>(value & 0x7fff) << 13;
  uint32_t normal = x + ((127 - 15) << 23);
  uint32_t special = x + ((255 - 31) << 23);
  float small = std::bit_cast<float>(x + (113u << 23)) - std::bit_cast<float>(113u << 23);
  uint32_t result = x >= kTop ? special : normal;
  result = x < (1u << 23) ? std::bit_cast<uint32_t>(small) : result;
  return std::bit_cast<float>(sign | result);
}

template <DType kType>
void EncodeBlock(const float* src, int64_t n, std::byte* dst) {
  using Storage = std::conditional_t<FormatOf(kType).bits == 16, uint16_t, uint8_t>;
  Storage* out = reinterpret_cast<Storage*>(dst);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Storage>(EncodeOne<kType>(src[i]));
}

template <DType kType>
void DecodeBytes(const std::byte* src, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = kDecodeTable<kType>[static_cast<uint8_t>(src[i])];
}

#define WEFT_BYTE_FLOATS(CASE) \
  CASE(kF4E2M1FN)              \
  CASE(kF6E2M3FN)              \
  CASE(kF6E3M2FN)              \
  CASE(kF8E3M4)                \
  CASE(kF8E4M3)                \
  CASE(kF8E4M3FN)              \
  CASE(kF8E4M3FNUZ)            \
  CASE(kF8E4M3B11FNUZ)         \
  CASE(kF8E5M2)                \
  CASE(kF8E5M2FNUZ)            \
  CASE(kF8E8M0FNU)

}  // namespace

void DecodeFloats(DType from, const std::byte* src, int64_t n, float* dst) {
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(src);
  switch (from) {
#define WEFT_DECODE(type) \
  case DType::type: return DecodeBytes<DType::type>(src, n, dst);
    WEFT_BYTE_FLOATS(WEFT_DECODE)
#undef WEFT_DECODE
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i) dst[i] = F16ToFloat(halves[i]);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i) dst[i] = Bf16ToFloat(halves[i]);
      return;
    case DType::kF32:
      if (n > 0) std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      return;
    default: CHECK(false) << Name(from);
  }
}

void EncodeFloats(DType to, const float* src, int64_t n, std::byte* dst) {
  switch (to) {
#define WEFT_ENCODE(type) \
  case DType::type: return EncodeBlock<DType::type>(src, n, dst);
    WEFT_BYTE_FLOATS(WEFT_ENCODE)
    WEFT_ENCODE(kF16)
    WEFT_ENCODE(kBF16)
#undef WEFT_ENCODE
    case DType::kF32:
      if (n > 0) std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      return;
    default: CHECK(false) << Name(to);
  }
}

void EncodeFloats(DType to, const double* src, int64_t n, std::byte* dst) {
  if (to == DType::kF32) {
    float* floats = reinterpret_cast<float*>(dst);
    for (int64_t i = 0; i < n; ++i) floats[i] = static_cast<float>(src[i]);
    return;
  }
  constexpr int64_t kBlock = 256;
  float odd[kBlock];
  for (int64_t start = 0; start < n; start += kBlock) {
    int64_t count = std::min(kBlock, n - start);
    for (int64_t i = 0; i < count; ++i) odd[i] = ToOddFloat(src[start + i]);
    EncodeFloats(to, odd, count, dst + start * ByteWidth(to));
  }
}
#undef WEFT_BYTE_FLOATS

double DecodeBits(DType from, uint64_t bits) {
  if (from == DType::kF64) return std::bit_cast<double>(bits);
  if (from == DType::kF32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (from == DType::kBF16) return Bf16ToFloat(static_cast<uint16_t>(bits));
  if (from == DType::kF16) return F16ToFloat(static_cast<uint16_t>(bits));
  return DecodeValue(static_cast<uint32_t>(bits), FormatOf(from));
}

uint64_t EncodeBits(DType to, double value) {
  if (to == DType::kF64) return std::bit_cast<uint64_t>(value);
  if (to == DType::kF32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  uint16_t bits = 0;  // little endian
  EncodeFloats(to, &value, 1, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

}  // namespace weft
