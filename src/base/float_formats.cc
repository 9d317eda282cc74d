#include "base/float_formats.h"

#include <array>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace weft {
namespace {

// The facts about float and double that encoding needs.
template <class Source>
struct SourceFloat {
  using Bits = std::conditional_t<sizeof(Source) == 4, uint32_t, uint64_t>;
  static constexpr int kMantissa = sizeof(Source) == 4 ? 23 : 52;
  static constexpr int kBias = sizeof(Source) == 4 ? 127 : 1023;
  static constexpr Bits kSign = Bits{1} << (sizeof(Source) * 8 - 1);
  static constexpr Bits kImplicit = Bits{1} << kMantissa;
  static constexpr Bits kInfinity = static_cast<Bits>(2 * kBias + 1) << kMantissa;
};

template <class Bits>
constexpr Bits ShiftRightEven(Bits value, int shift) {
  Bits odd = (value >> shift) & 1;
  return (value + ((Bits{1} << (shift - 1)) - 1) + odd) >> shift;
}

// The nearest power of two. The significand of one bit is odd, so that ties go up; everything
// between the smallest power and the next goes up too (ml_dtypes, the reference for all of these,
// does so).
constexpr uint32_t EncodePowerOfTwo(double value, FloatFormat f) {
  using S = SourceFloat<double>;
  uint64_t x = std::bit_cast<uint64_t>(value);
  uint32_t nan = static_cast<uint32_t>(f.QuietNan(false));
  if (x == 0 || x >= S::kInfinity) return nan;  // zero, negative, infinite or NaN
  int encoded = static_cast<int>(x >> S::kMantissa) - S::kBias + f.bias;
  uint64_t fraction = x & (S::kImplicit - 1);
  if (fraction >= S::kImplicit / 2 || (encoded == 0 && fraction != 0)) ++encoded;
  if (encoded < 0) return 0;
  return encoded > static_cast<int>(f.MaxFinite()) ? nan : static_cast<uint32_t>(encoded);
}

template <class Source>
constexpr uint32_t EncodeValue(Source value, FloatFormat f) {
  if (f.specials == FloatSpecials::kExponentOnly) return EncodePowerOfTwo(value, f);
  using S = SourceFloat<Source>;
  using Bits = typename S::Bits;
  Bits x = std::bit_cast<Bits>(value);
  bool negative = (x & S::kSign) != 0;
  x &= ~S::kSign;
  if (x > S::kInfinity) return static_cast<uint32_t>(f.QuietNan(negative));
  // The smallest normal number of the format, in the source's bits.
  Bits smallest = static_cast<Bits>(S::kBias + 1 - f.bias) << S::kMantissa;
  uint64_t result;
  if (x >= smallest) {
    result = ShiftRightEven<Bits>(x, S::kMantissa - f.mantissa_bits);
    result -= static_cast<uint64_t>(S::kBias - f.bias) << f.mantissa_bits;
  } else {
    int exponent = static_cast<int>(x >> S::kMantissa);
    int shift = S::kMantissa - f.mantissa_bits + (S::kBias + 1 - f.bias - exponent);
    Bits significand = (x & (S::kImplicit - 1)) | S::kImplicit;
    // A subnormal source lies far below every format but bf16, which has its own path from float.
    result = shift > S::kMantissa + 1 || exponent == 0 ? 0 : ShiftRightEven(significand, shift);
  }
  uint64_t sign = negative ? f.SignMask() : 0;
  if (result > f.MaxFinite()) {
    if (f.specials == FloatSpecials::kIeee) return static_cast<uint32_t>(sign | f.Infinity());
    if (f.specials == FloatSpecials::kFinite) return static_cast<uint32_t>(sign | f.MaxFinite());
    return static_cast<uint32_t>(f.QuietNan(negative));
  }
  if (f.specials == FloatSpecials::kFnuz && result == 0) return 0;
  return static_cast<uint32_t>(sign | result);
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

uint16_t FloatToBf16(float value) {
  uint32_t x = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (x + 0x7fff + ((x >> 16) & 1)) >> 16;
  uint32_t nan = ((x >> 16) & 0x8000) | 0x7fc0;
  return static_cast<uint16_t>((x & 0x7fffffff) > 0x7f800000 ? nan : rounded);
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

uint16_t FloatToF16(float value) {
  uint32_t x = std::bit_cast<uint32_t>(value);
  uint32_t sign = (x >> 16) & 0x8000;
  x &= 0x7fffffff;
  // Adding 0.5 puts the bits of a subnormal result at the low end, rounded by the addition.
  constexpr uint32_t kHalf = 126u << 23;
  uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(x) + std::bit_cast<float>(kHalf));
  uint32_t normal = (x - (112u << 23) + 0xfff + ((x >> 13) & 1)) >> 13;
  uint32_t result = x < (113u << 23) ? small - kHalf : normal;
  result = x >= (143u << 23) ? 0x7c00 : result;
  result = x > 0x7f800000 ? 0x7e00 : result;
  return static_cast<uint16_t>(sign | result);
}

template <DType kType, class Source>
void EncodeBytes(const Source* src, int64_t n, std::byte* dst) {
  for (int64_t i = 0; i < n; ++i) {
    dst[i] = static_cast<std::byte>(EncodeValue(src[i], FormatOf(kType)));
  }
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
  uint16_t* halves = reinterpret_cast<uint16_t*>(dst);
  switch (to) {
#define WEFT_ENCODE(type) \
  case DType::type: return EncodeBytes<DType::type>(src, n, dst);
    WEFT_BYTE_FLOATS(WEFT_ENCODE)
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i) halves[i] = FloatToF16(src[i]);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i) halves[i] = FloatToBf16(src[i]);
      return;
    case DType::kF32:
      if (n > 0) std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      return;
    default: CHECK(false) << Name(to);
  }
}

void EncodeFloats(DType to, const double* src, int64_t n, std::byte* dst) {
  uint16_t* halves = reinterpret_cast<uint16_t*>(dst);
  float* floats = reinterpret_cast<float*>(dst);
  switch (to) {
    WEFT_BYTE_FLOATS(WEFT_ENCODE)
#undef WEFT_ENCODE
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i)
        halves[i] = static_cast<uint16_t>(EncodeValue(src[i], FormatOf(DType::kF16)));
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i)
        halves[i] = static_cast<uint16_t>(EncodeValue(src[i], FormatOf(DType::kBF16)));
      return;
    case DType::kF32:
      for (int64_t i = 0; i < n; ++i) floats[i] = static_cast<float>(src[i]);
      return;
    default: CHECK(false) << Name(to);
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
  return EncodeValue(value, FormatOf(to));
}

}  // namespace weft
