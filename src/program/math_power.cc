// Powers and roots.
#include <limits>

#include "program/math.h"
#include "program/math_values.h"

namespace weft::program::math {

using namespace detail;  // NOLINT

namespace {

constexpr double kPowerInfinity = std::numeric_limits<double>::infinity();

// log2(1+f)/f on [-0.2929, 0.4143], relative error 2^-38.5.
constexpr double kLog2ForF32[] = {
    0x1.71547652b58f8p+0, -0x1.71547651b3116p-1, 0x1.ec709de32bae8p-2, -0x1.7154788fc5ad1p-2,
    0x1.2776b6e0a4e8fp-2, -0x1.ec6f2a398107dp-3, 0x1.a61b7204a0841p-3, -0x1.71892f22d6971p-3,
    0x1.4821068ad03fcp-3, -0x1.23d3106e7dc81p-3, 0x1.0abd6aba537f6p-3, -0x1.13bab4b64449fp-3,
    0x1.0fa9f85b3297p-3,  -0x1.1e3816b56052bp-4};
// (2 atanh(s) / ln 2 - s (2 / ln 2) (1 + s^2/3)) / s^5 in z = s^2 on [0, 0.02945]: the error of the
// logarithm is 2^-66.3 of its value.
constexpr double kLog2F64[] = {0x1.2776c50ef9d24p-1, 0x1.a61762a759831p-2, 0x1.484b14219a6a1p-2,
                               0x1.0c9a63d61c0fap-2, 0x1.c69f8c6076418p-3, 0x1.87b0b9e35ae11p-3,
                               0x1.85e96fbcdf77dp-3};

// The same, 2^-33.2.
constexpr double kLog2ForF32LowLatency[] = {
    0x1.71547652efaf5p+0, -0x1.7154767bd3949p-1, 0x1.ec709c007e42dp-2, -0x1.715435bc1019bp-2,
    0x1.277732b99222ep-2, -0x1.ec8d84108b5c3p-3, 0x1.a615e2805a60cp-3, -0x1.6eaf2ce064bc9p-3,
    0x1.45a066a48d21bp-3, -0x1.418460693f428p-3, 0x1.3d349cf1c6ac4p-3, -0x1.61bda58d7c7dcp-4};
// 1/(2+f) on [-0.2930, 0.4143], relative error 2^-13.1.
constexpr double kInverseOfSum[] = {0x1.fff4b3a6e1db4p-2, -0x1.00654c776be6dp-2,
                                    0x1.066be8f7036bap-3, -0x1.d40ede540051fp-5};

Pair TwoProduct(V a, V b) {
  V high = a * b;
  return {high, Fma(a, b, -high)};
}
// (a + b) times a constant in two parts.
Pair TimesPair(Pair a, double high, double low) {
  V c = a.high.Const(high);
  Pair product = TwoProduct(a.high, c);
  return {product.high, Fma(a.low, c, Fma(a.high, low, product.low))};
}

constexpr double kLog2Linear = 0x1.71547652b82fep+1, kLog2LinearLow = 0x1.777d0ffda0d24p-55;
constexpr double kLog2Cubic = 0x1.ec709dc3a03fdp-1, kLog2CubicLow = 0x1.d27f05548af0cp-55;

// log2 of a positive finite f64 with some ten more bits than f64 has. a = 2^e m,
// m in [1/sqrt 2, sqrt 2], s = (m - 1) / (m + 1), log2 m = 2 atanh(s) / ln 2.
Pair Log2Pair(V a) {
  auto [e, m] = SplitExponent(a, /*has_subnormals=*/true);
  V f = m - 1;
  V sum = m + 1, sum_low = m - (sum - 1);
  V inverse = 1 / sum, s_high = f * inverse;
  Pair s = {s_high, Fma(-s_high, sum_low, Fma(-s_high, sum, f)) * inverse};
  Pair z = TwoProduct(s.high, s.high);
  z.low = Fma(s.high + s.high, s.low, z.low);
  Pair cube = TwoProduct(z.high, s.high);
  cube.low = Fma(z.high, s.low, Fma(z.low, s.high, cube.low));
  Pair linear = TimesPair(s, kLog2Linear, kLog2LinearLow);
  Pair cubic = TimesPair(cube, kLog2Cubic, kLog2CubicLow);
  V rest = Fma(cube.high * z.high, Poly(z.high, kLog2F64), linear.low + cubic.low);
  Pair log_m = FastTwoSum(linear.high, cubic.high);
  Pair whole = FastTwoSum(e, log_m.high);
  return FastTwoSum(whole.high, whole.low + (log_m.low + rest));
}

// The same for normal numbers, where it is latency-bound: the low part of s is deepest, and is put
// in at once. What else is low is added in the order in which it comes.
Pair Log2PairLowLatency(V a) {
  auto [e, m] = SplitExponent(a, /*has_subnormals=*/false);
  V f = m - 1;
  V sum = m + 1, sum_low = m - (sum - 1);
  V s = f / sum;
  Pair z = TwoProduct(s, s), cube = TwoProduct(z.high, s);
  Pair linear = TwoProduct(s, s.Const(kLog2Linear));
  Pair cubic = TwoProduct(cube.high, s.Const(kLog2Cubic));
  Pair log_m = FastTwoSum(linear.high, cubic.high), whole = FastTwoSum(e, log_m.high);
  V low = Fma(cube.high, kLog2CubicLow, Fma(s, kLog2LinearLow, linear.low));
  low = Fma(cube.high * z.high, Poly(z.high, kLog2F64), low);
  low = Fma(Fma(z.low, s, cube.low), kLog2Cubic, low);
  low = low + ((log_m.low + whole.low) + cubic.low);
  V slope = Poly(f, kInverseOfSum) * Fma(z.high, 3 * kLog2Cubic, kLog2Linear);
  return {whole.high, Fma(Fma(-s, sum_low, Fma(-s, sum, f)), slope, low)};
}

// The logarithm at zero, infinity and NaN.
V SpecialLog(V a, V log) {
  return Select(a == 0, -kPowerInfinity, Select(a < kPowerInfinity, log, a));
}

// A larger exponent changes nothing, and an infinite one would make 1^y a NaN.
V Bounded(V y) {
  double most = y.wide() ? 0x1p100 : 0x1p64;
  return Max(Min(y, most), -most);
}

// What x and y decide without a power: the sign of the result, or all of it.
struct PowerCases {
  V sign, decided, value;
};

PowerCases CasesOf(V x, V y) {
  V half = y * 0.5;
  V is_integer = Apply(Op::kTrunc, y) == y;
  V odd = is_integer & (Apply(Op::kTrunc, half) != half);
  V undefined = (x < 0) & (x > -kPowerInfinity) & !is_integer;
  V value = Select(undefined, std::numeric_limits<double>::quiet_NaN(), x.Const(1));
  return {Select(odd, WithSign(x.Const(1), x), 1.0), (x == 1) | (y == 0) | undefined, value};
}

// |x|^y for f32, in f64: half the lanes but a third of the operations. y log2 a = y e + y f p(f),
// where all but p is there before it, and 2^n + 2^n r q(r) likewise. What is special is put in at
// the end, so that nothing waits for it.
V PowerF32(V x, V y_f32, const PowerCases& cases) {
  V a = Cast(Abs(x), DType::kF64), y = Cast(Bounded(y_f32), DType::kF64);
  auto [e, m] = SplitExponent(a, /*has_subnormals=*/false);
  V f = m - 1;
  V product = Fma(y * f, Poly(f, kLog2ForF32), y * e);
  V zero = a == 0, finite = a < kPowerInfinity;
  V sign = Cast(cases.sign, DType::kF64);
  // Powers of zero and infinity, and those beyond any exponent: a number of which the sign counts.
  V beyond = Select(zero, -y, Select(finite, product, a * y));
  V limit = Select(beyond > 0, kPowerInfinity, Select(beyond < 0, beyond.Const(0), beyond)) * sign;
  limit = Select(cases.decided, Cast(cases.value, DType::kF64), limit);
  V special = cases.decided | zero | !finite | (Abs(product) > 200);
  return Cast(Select(special, limit, Exp2ForF32(product, sign)), DType::kF32);
}

V PowerF64(V a, V y) {
  Pair log = Log2Pair(a);
  V log_high = SpecialLog(a, log.high);
  y = Bounded(y);
  V high = y * log_high;
  V low = Fma(y, log.low, Fma(y, log_high, -high));
  low = Select(Abs(high) < 1100, low, 0.0);
  return Exp2Split(Max(Min(high, 1100), -2046), low);
}

V PowerAnywhere(V x, V y) {
  PowerCases cases = CasesOf(x, y);
  if (!x.wide()) return PowerF32(x, y, cases);
  return Select(cases.decided, cases.value, PowerF64(Abs(x), y) * cases.sign);
}

// A power as those of positive normal numbers are; the logarithm that is its own.
struct SoonPower {
  V value, log;
};
SoonPower PowerSoonF32(V narrow_x, V narrow_y) {
  V x = Cast(narrow_x, DType::kF64), y = Cast(narrow_y, DType::kF64);
  auto [e, m] = SplitExponent(x, /*has_subnormals=*/false);
  V f = m - 1;
  V product = PolySum(y * e, y * f, f, f * f, kLog2ForF32LowLatency);
  return {Cast(Exp2ForF32(product, x.Const(1)), DType::kF32), product};
}
SoonPower PowerSoonF64(V x, V y) {
  Pair log = Log2PairLowLatency(x);
  V high = y * log.high, low = Fma(y, log.low, Fma(y, log.high, -high));
  return {Exp2SplitLowLatency(high, low), high};
}

V PowerLowLatency(V x, V y) {
  SoonPower power = x.wide() ? PowerSoonF64(x, y) : PowerSoonF32(x, y);
  V likely = (x >= x.Pick(0x1p-149, 0x1p-1022)) & (x < kPowerInfinity) & (Abs(power.log) < 1000);
  return Unless(!likely, power.value, [&] {
    x.b->SetLatencyBound(false);
    V value = PowerAnywhere(x, y);
    value.id();
    x.b->SetLatencyBound(true);
    return value;
  });
}

}  // namespace

// |x|^y = 2^(y log2 |x|), the sign from the parity of y.
ValueId Pow(KernelBuilder& b, ValueId x_id, ValueId y_id) {
  if (b.functions()) return b.Emit(Op::kPow, {x_id, y_id});
  V x{&b, x_id}, y{&b, y_id};
  return (IsLatencyBound(x) ? PowerLowLatency(x, y) : PowerAnywhere(x, y)).id();
}

ValueId Rsqrt(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kRsqrt, {id});
  V x{&b, id};
  return (1 / Sqrt(x)).id();
}

namespace {

// y (1 + h/3 + 2h^2/9 + 14h^3/81) with h = 1 - a y^3, nearer to 1 / cbrt(a) than y is.
V CbrtStep(V a, V y, bool latency_bound) {
  V h = latency_bound ? Fma(a * y, -(y * y), 1) : Fma(a * y * y, -y, 1);
  V cubic = Fma(h, 14.0 / 81, 2.0 / 9);
  if (latency_bound) return Fma(y, Fma(h * h, cubic, h * (1.0 / 3)), y);
  return Fma(y, h * Fma(h, cubic, 1.0 / 3), y);
}

// Of a normal number: y approximates 1 / cbrt(a). A third of a's bits, taken from a constant, is
// within 4 %; a step (two for f64) leaves 3e-5 of that (the last bits). Then c = a y^2 with one
// step of Newton's on c^3 = a, the residual in fused steps.
V CbrtNormal(V a, bool latency_bound) {
  // The top 32 bits as a float, linearly mapped and back.
  V top = a.wide() ? Cast(Bits(a) >> 32, DType::kS32) : Bits(a);
  V guess = Cast(Fma(Cast(top, a.type().dtype), -1.0 / 3, a.wide() ? 0x553ef0ff : 0x54a2fa8c),
                 DType::kS32);
  V y = a.wide() ? FromBits(Cast(guess, DType::kS64) << 32) : FromBits(guess);
  for (int i = 0; i < (a.wide() ? 2 : 1); ++i) y = CbrtStep(a, y, latency_bound);
  V c = a * y * y;
  V square = c * c;
  V residual = Fma(square, -c, a) - Fma(c, c, -square) * c;
  return Fma(residual, y * y * (1.0 / 3), c);
}

V CbrtAnywhere(V x) {
  V a = Abs(x);
  V tiny = a < x.Pick(0x1p-126, 0x1p-1022);
  V c = CbrtNormal(Select(tiny, a * x.Pick(0x1p24, 0x1p54), a), /*latency_bound=*/false);
  c = Select(tiny, c * x.Pick(0x1p-8, 0x1p-18), c);
  V plain = (a < kPowerInfinity) & (a > 0);
  return WithSign(Select(plain, c, a), x);
}

}  // namespace

ValueId Cbrt(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kCbrt, {id});
  V x{&b, id};
  if (!IsLatencyBound(x)) return CbrtAnywhere(x).id();
  V a = Abs(x), value = WithSign(CbrtNormal(a, /*latency_bound=*/true), x);
  V likely = (a >= x.Pick(0x1p-126, 0x1p-1022)) & (a < kPowerInfinity);
  return Unless(!likely, value, [&] { return CbrtAnywhere(x); }).id();
}

}  // namespace weft::program::math
