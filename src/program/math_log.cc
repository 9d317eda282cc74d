// Logarithms: x = 2^e (1 + f), log x = e ln2 + log(1 + f) with a polynomial for log(1 + f).
#include <limits>

#include "program/math.h"
#include "program/math_values.h"

namespace weft::program::math {
namespace detail {
namespace {

constexpr double kLogInfinity = std::numeric_limits<double>::infinity();
constexpr double kLogNan = std::numeric_limits<double>::quiet_NaN();

// (log(1+f) - f + f^2/2) / f^3 on [-0.2930, 0.4143], the error times f^2: 2^-27.3.
constexpr double kLogF32[] = {0x1.55554ap-2, -0x1.000222p-2, 0x1.99a5bap-3, -0x1.54780ep-3,
                              0x1.226a9p-3,  -0x1.0ce172p-3, 0x1.07ed6ep-3, -0x1.423344p-4};
// (2 atanh(s) / s - 2) / s^2 in s^2, |s| <= 0.1716, the error of the logarithm: 2^-57.8.
constexpr double kAtanhF64[] = {0x1.5555555555558p-1, 0x1.99999999952d9p-2, 0x1.2492492df24c9p-2,
                                0x1.c71c62e434baap-3, 0x1.7462b50978d9ap-3, 0x1.39fe54273fda1p-3,
                                0x1.2b58e1fea16c6p-3};

// The exponent e of x = 2^e m, m in [1/sqrt 2, sqrt 2), as an integer shifted to the exponent's
// place: x's bits less this are m's.
V ExponentInPlace(V bits) {
  bool wide = bits.type().dtype == DType::kS64;
  V above = bits - bits.Int(wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3);
  return above & bits.Int(wide ? int64_t{-1} << 52 : int64_t{-1} << 23);
}

V ExponentValue(V in_place) {
  if (in_place.type().dtype == DType::kS32) return Cast(in_place >> 23, DType::kF32);
  // A 64-bit integer of few bits as a float, without the conversion that many machines lack.
  constexpr double kMagic = 0x1.8p52;
  V sum = (in_place >> 52) + in_place.Int(std::bit_cast<int64_t>(kMagic));
  return FromBits(sum) - kMagic;
}

V Combine(V e, V log_m) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  if (!e.wide()) return Fma(e, kLn2, log_m);
  return Fma(e, kLn2, Fma(e, 0x1.abc9e3b39803fp-56, log_m));
}

}  // namespace

// In f64 by way of log(1 + f) = 2 atanh(f / (2 + f)): one division for a dozen products.
V LogOnePlus(V f) {
  V square = f * f;
  if (!f.wide()) return Fma(square * f, Poly(f, square, kLogF32), Fma(square, -0.5, f));
  V s = f / (f + 2), z = s * s, half = square * 0.5;
  return f - Fma(-s, Fma(z, Poly(z, kAtanhF64), half), half);
}

Exponent SplitExponent(V x, bool has_subnormals) {
  if (!has_subnormals) {
    V place = ExponentInPlace(Bits(x));
    return {ExponentValue(place), FromBits(Bits(x) - place)};
  }
  V tiny = x < x.Pick(0x1p-126, 0x1p-1022);
  V bits = Bits(Select(tiny, x * x.Pick(0x1p23, 0x1p52), x));
  V place = ExponentInPlace(bits);
  return {ExponentValue(place) + Select(tiny, x.Pick(-23, -52), 0), FromBits(bits - place)};
}

V LogPositive(V x) {
  auto [e, m] = SplitExponent(x);
  return Combine(e, LogOnePlus(m - 1));
}

// 1 + x = 2^e (1 + f) with f = x 2^-e + (2^-e - 1), which rounds once. 2^-e is kept as 2^(2-e), or
// the largest x would need a subnormal.
V Log1pOf(V x) {
  V one_plus = x + 1;
  V place = ExponentInPlace(Bits(one_plus));
  V four = FromBits(place.Int(x.wide() ? int64_t{1025} << 52 : int64_t{129} << 23) - place);
  V f = Fma(x * 0.25, four, Fma(four, 0.25, -1));
  V result = Combine(ExponentValue(place), LogOnePlus(f));
  result = Select(one_plus < kLogInfinity, result, one_plus);  // NaN too
  result = Select(x <= -1, Select(x == -1, result.Const(-kLogInfinity), kLogNan), result);
  return Select(Abs(x) < x.Pick(0x1p-26, 0x1p-55), x, result);
}

}  // namespace detail

using namespace detail;  // NOLINT

ValueId Log(KernelBuilder& b, ValueId id) {
  V x{&b, id};
  V result = Select(x < kLogInfinity, LogPositive(x), x);  // NaN too
  V not_positive = Select(x == 0, x.Const(-kLogInfinity), kLogNan);
  return Select(x <= 0, not_positive, result).id();
}

ValueId Log1p(KernelBuilder& b, ValueId x) {
  return Log1pOf({&b, x}).id();
}

}  // namespace weft::program::math
