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

// log(1+f)/f on [-0.2930, 0.4143], relative error 2^-27.9, in f64.
constexpr double kLogOfF32[] = {0x1.ffffffffaa89ap-1,  -0x1.fffff81ec4257p-2, 0x1.55555055a5c4dp-2,
                                -0x1.00042ae922fafp-2, 0x1.99a3f83e7a4efp-3,  -0x1.5426a53adbd8fp-3,
                                0x1.227060d36beabp-3,  -0x1.0f3c497db18b9p-3, 0x1.08536a37cd450p-3,
                                -0x1.38359fce572d4p-4};
// (log(1+f) - f + f^2/2) / f^3 there, the error times f^2: 2^-59.3.
constexpr double kLogF64[] = {
    0x1.555555555556fp-2, -0x1.ffffffffffeeep-3, 0x1.999999999446dp-3, -0x1.5555555563965p-3,
    0x1.249249279b6a0p-3, -0x1.fffffff99bccdp-4, 0x1.c71c70170877fp-4, -0x1.9999996c12e62p-4,
    0x1.745d5aba3b8c8p-4, -0x1.55559a6563804p-4, 0x1.3b0d73a119771p-4, -0x1.2486dcb3156acp-4,
    0x1.1167da790b100p-4, -0x1.00e8005895cb9p-4, 0x1.dcec37a3ce669p-5, -0x1.b36d7b546b5fep-5,
    0x1.b91814434f763p-5, -0x1.0184a6a5ec540p-4, 0x1.da4309266d6e6p-5, -0x1.994999b803102p-6};

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

namespace {

// 1 + x = 2^e (1 + f) with f = x 2^-e + (2^-e - 1), which rounds once. 2^-e is kept as 2^(2-e), or
// the largest x would need a subnormal.
struct OnePlus {
  V sum, e, f;
};
OnePlus SplitOnePlus(V x) {
  V sum = x + 1, place = ExponentInPlace(Bits(sum));
  V four = FromBits(place.Int(x.wide() ? int64_t{1025} << 52 : int64_t{129} << 23) - place);
  return {sum, ExponentValue(place), Fma(x * 0.25, four, Fma(four, 0.25, -1))};
}

}  // namespace

V Log1pOf(V argument) {
  // What is its own result is left out, since x86 takes long over its square.
  V own = Abs(argument) < argument.Pick(0x1p-26, 0x1p-55);
  V x = Select(own, 0, argument);
  auto [one_plus, e, f] = SplitOnePlus(x);
  V result = Combine(e, LogOnePlus(f));
  result = Select(one_plus < kLogInfinity, result, one_plus);  // NaN too
  result = Select(x <= -1, Select(x == -1, result.Const(-kLogInfinity), kLogNan), result);
  return Select(own, argument, result);
}

}  // namespace detail

using namespace detail;  // NOLINT

namespace {

V LogAnywhere(V x) {
  V result = Select(x < kLogInfinity, LogPositive(x), x);  // NaN too
  V not_positive = Select(x == 0, x.Const(-kLogInfinity), kLogNan);
  return Select(x <= 0, not_positive, result);
}

// Without a division, and what is not a normal number apart from the rest.
V LogForF32(V wide) {
  auto [e, m] = SplitExponent(wide, /*has_subnormals=*/false);
  V f = m - 1;
  return Cast(PolySum(e * 0x1.62e42fefa39efp-1, f, f, f * f, kLogOfF32), DType::kF32);
}
V LogLowLatency(V x) {
  if (!x.wide()) {
    V value = LogForF32(Cast(x, DType::kF64));
    V other = Select(x == 0, x.Const(-kLogInfinity), Select(x < 0, x.Const(kLogNan), x));
    return Select((x > 0) & (x < kLogInfinity), value, other);
  }
  auto [e, m] = SplitExponent(x, /*has_subnormals=*/false);
  V f = m - 1, square = f * f;
  V value = PolySum(Combine(e, Fma(square, -0.5, f)), f * square, f, square, kLogF64);
  V likely = (x >= 0x1p-1022) & (x < kLogInfinity);
  return Unless(!likely, value, [&] { return LogAnywhere(x); });
}

}  // namespace

ValueId Log(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kLog, {id});
  V x{&b, id};
  return (IsLatencyBound(x) ? LogLowLatency(x) : LogAnywhere(x)).id();
}

ValueId Log1p(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kLog1p, {id});
  V x{&b, id};
  if (!IsLatencyBound(x)) return Log1pOf(x).id();
  if (x.wide()) {
    auto [sum, e, f] = SplitOnePlus(x);
    V square = f * f;
    V value = PolySum(Combine(e, Fma(square, -0.5, f)), f * square, f, square, kLogF64);
    V likely = (x > -1) & (x < kLogInfinity) & (Abs(x) > 0x1p-55);
    return Unless(!likely, value, [&] { return Log1pOf(x); }).id();
  }
  V value = LogForF32(Cast(x, DType::kF64) + 1);
  V other = Select(x <= -1, Select(x == -1, x.Const(-kLogInfinity), kLogNan), x);
  V likely = (x > -1) & (x < kLogInfinity) & (Abs(x) > 0x1p-25);
  return Select(likely, value, other).id();
}

}  // namespace weft::program::math
