// The bit layouts of all float types, and conversion of the small ones (16 bits and less) to and
// from float and double. Encoding rounds to nearest, ties to even, once; what does not fit becomes
// what the format has for it: infinity, NaN, or else its largest value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace weft {

enum class FloatSpecials : uint8_t {
  kIeee,          // the top exponent holds infinities and NaNs
  kFn,            // no infinity; all ones is NaN; overflow gives NaN
  kFnuz,          // no infinity, no -0; the pattern of -0 is the one NaN; overflow gives NaN
  kFinite,        // neither infinity nor NaN; overflow saturates, NaN gives a zero
  kExponentOnly,  // powers of two alone: no sign, no zero; all ones is NaN
};

struct FloatFormat {
  int bits = 0, exponent_bits = 0, mantissa_bits = 0, bias = 0;
  FloatSpecials specials = FloatSpecials::kIeee;

  constexpr bool HasSign() const { return specials != FloatSpecials::kExponentOnly; }
  constexpr bool HasNan() const { return specials != FloatSpecials::kFinite; }
  constexpr bool HasInfinity() const { return specials == FloatSpecials::kIeee; }
  constexpr uint64_t SignMask() const { return HasSign() ? uint64_t{1} << (bits - 1) : 0; }
  constexpr uint64_t MantissaMask() const { return (uint64_t{1} << mantissa_bits) - 1; }
  constexpr uint64_t MagnitudeMask() const {
    return ((uint64_t{1} << (exponent_bits + mantissa_bits)) - 1);
  }
  constexpr uint64_t MaxFinite() const;  // the bits of the largest finite value
  constexpr uint64_t Infinity() const { return MaxFinite() + 1; }  // kIeee only
  constexpr uint64_t QuietNan(bool negative) const;                // what NaNs turn into
  constexpr bool IsNan(uint64_t value) const;
};

// The format of a float type; of no bits for any other type.
constexpr FloatFormat FormatOf(DType t) {
  using enum FloatSpecials;
  switch (t) {
    case DType::kF4E2M1FN: return {4, 2, 1, 1, kFinite};
    case DType::kF6E2M3FN: return {6, 2, 3, 1, kFinite};
    case DType::kF6E3M2FN: return {6, 3, 2, 3, kFinite};
    case DType::kF8E3M4: return {8, 3, 4, 3, kIeee};
    case DType::kF8E4M3: return {8, 4, 3, 7, kIeee};
    case DType::kF8E4M3FN: return {8, 4, 3, 7, kFn};
    case DType::kF8E4M3FNUZ: return {8, 4, 3, 8, kFnuz};
    case DType::kF8E4M3B11FNUZ: return {8, 4, 3, 11, kFnuz};
    case DType::kF8E5M2: return {8, 5, 2, 15, kIeee};
    case DType::kF8E5M2FNUZ: return {8, 5, 2, 16, kFnuz};
    case DType::kF8E8M0FNU: return {8, 8, 0, 127, kExponentOnly};
    case DType::kF16: return {16, 5, 10, 15, kIeee};
    case DType::kBF16: return {16, 8, 7, 127, kIeee};
    case DType::kF32: return {32, 8, 23, 127, kIeee};
    case DType::kF64: return {64, 11, 52, 1023, kIeee};
    default: return {};
  }
}

// n elements in storage form; any float type of 32 bits or less. f32 copies (or rounds, from
// double).
void DecodeFloats(DType from, const std::byte* src, int64_t n, float* dst);
void EncodeFloats(DType to, const float* src, int64_t n, std::byte* dst);
void EncodeFloats(DType to, const double* src, int64_t n, std::byte* dst);

// One value of any float type, as bits.
double DecodeBits(DType from, uint64_t bits);
uint64_t EncodeBits(DType to, double value);

// x as a double whose lowest bit is set when bits were lost, so that rounding it again to any
// format of at most 50 mantissa bits gives x rounded once.
constexpr double RoundToOdd(uint64_t x) {
  int width = static_cast<int>(std::bit_width(x));
  if (width <= 53) return static_cast<double>(x);
  int shift = width - 53;
  uint64_t kept = x >> shift;
  if ((kept << shift) != x) kept |= 1;
  return static_cast<double>(kept) * static_cast<double>(uint64_t{1} << shift);
}
constexpr double RoundToOdd(int64_t x) {
  return x < 0 ? -RoundToOdd(uint64_t{0} - static_cast<uint64_t>(x))
               : RoundToOdd(static_cast<uint64_t>(x));
}

constexpr uint64_t FloatFormat::MaxFinite() const {
  switch (specials) {
    case FloatSpecials::kIeee: return (MagnitudeMask() ^ MantissaMask()) - 1;
    case FloatSpecials::kFn:
    case FloatSpecials::kExponentOnly: return MagnitudeMask() - 1;
    default: return MagnitudeMask();
  }
}

constexpr uint64_t FloatFormat::QuietNan(bool negative) const {
  uint64_t sign = negative ? SignMask() : 0;
  switch (specials) {
    case FloatSpecials::kIeee: return sign | Infinity() | (uint64_t{1} << (mantissa_bits - 1));
    case FloatSpecials::kFn:
    case FloatSpecials::kExponentOnly: return sign | MagnitudeMask();
    case FloatSpecials::kFnuz: return SignMask();
    default: return sign ^ SignMask();  // no NaN: -0, and 0 for a negative one
  }
}

constexpr bool FloatFormat::IsNan(uint64_t value) const {
  switch (specials) {
    case FloatSpecials::kIeee: return (value & MagnitudeMask()) > Infinity();
    case FloatSpecials::kFn:
    case FloatSpecials::kExponentOnly: return (value & MagnitudeMask()) == MagnitudeMask();
    case FloatSpecials::kFnuz: return value == SignMask();
    default: return false;
  }
}

}  // namespace weft
