// Logarithms: x = 2^e (1 + f), log x = e ln2 + log(1 + f) with a polynomial for log(1 + f).
#include <limits>

#include "program/math.h"
#include "program/math_values.h"

namespace weft::program::math {
namespace detail {
namespace {

constexpr double kLogInfinity = std::numeric_limits<double>::infinity();
constexpr double kLogNan = std::numeric_limits<double>::quiet_NaN();

// (log(1+f) - f + f^2/2) / f^3 on [-0.2930, 0.4143], the error times f^2: 2^-27.3, 2^-59.0.
constexpr double kLogF32[] = {0x1.55554ap-2, -0x1.000222p-2, 0x1.99a5bap-3, -0x1.54780ep-3,
                              0x1.226a9p-3,  -0x1.0ce172p-3, 0x1.07ed6ep-3, -0x1.423344p-4};
constexpr double kLogF64[] = {
    0x1.555555555556fp-2, -0x1.ffffffffffef4p-3, 0x1.9999999994325p-3, -0x1.5555555563176p-3,
    0x1.24924927a4ee1p-3, -0x1.fffffffa11bf7p-4, 0x1.c71c7012f114bp-4, -0x1.99999950b9a01p-4,
    0x1.745d5b2c0348fp-4, -0x1.55559df04aa54p-4, 0x1.3b0d6dff7b02ep-4, -0x1.2486988721c12p-4,
    0x1.1167db4e08021p-4, -0x1.00eaea63bc81dp-4, 0x1.dcf294b92b18ep-5, -0x1.b34d6881e80b0p-5,
    0x1.b8d4ce4ccacc7p-5, -0x1.019cb89bad242p-4, 0x1.db266837dcc71p-5, -0x1.9a90c798ae8fcp-6};

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

V LogOnePlus(V f) {
  V square = f * f;
  std::span<const double> c = f.wide() ? std::span<const double>(kLogF64) : kLogF32;
  return Fma(square * f, Poly(f, square, c), Fma(square, -0.5, f));
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
