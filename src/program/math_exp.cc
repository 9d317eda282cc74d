// The exponential and what is made from it. x = n ln2 + r, e^x = 2^n e^r with a polynomial for e^r.
#include <limits>

#include "program/math.h"
#include "program/math_values.h"

namespace weft::program::math {
namespace detail {

namespace {

// (e^r - 1 - r) / r^2 on |r| <= 0.3473, the error times r: 2^-26.1, 2^-61.7.
constexpr double kExpF32[] = {0x1p-1, 0x1.5554aap-3, 0x1.555534p-5, 0x1.122bb8p-7, 0x1.6cee42p-10};
constexpr double kExpF64[] = {0x1p-1,
                              0x1.5555555555559p-3,
                              0x1.5555555555556p-5,
                              0x1.111111110f64dp-7,
                              0x1.6c16c16c15accp-10,
                              0x1.a01a01b00c47fp-13,
                              0x1.a01a01aae7695p-16,
                              0x1.71ddf7eabb337p-19,
                              0x1.27e4d03b881acp-22,
                              0x1.af5f840a087f9p-26,
                              0x1.1f8726b44980bp-29};
// (sinh x - x) / x^3 in x^2 on [0, 1], the error times x^2: 2^-31.5, 2^-62.9.
constexpr double kSinhF32[] = {0x1.555556p-3, 0x1.1110e2p-7, 0x1.a02156p-13, 0x1.75a6f6p-19};
constexpr double kSinhF64[] = {0x1.5555555555555p-3,  0x1.1111111111199p-7,  0x1.a01a01a007b25p-13,
                               0x1.71de3a682212ap-19, 0x1.ae64420b9f73cp-26, 0x1.6130aba0febc0p-33,
                               0x1.a6d593dbd29f0p-41, 0x1.c3328ec3885b7p-48};
// (2^r - 1) / r on |r| <= 0.501, the error times r: 2^-28.9, 2^-57.5.
constexpr double kExp2F32[] = {0x1.62e430p-1, 0x1.ebfbe0p-3,  0x1.c6aeccp-5,
                               0x1.3b29a8p-7, 0x1.5f497cp-10, 0x1.449144p-13};
constexpr double kExp2F64[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c5abp-3,  0x1.c6b08d704a225p-5,
                               0x1.3b2ab6fb9ef50p-7,  0x1.5d87fe785cd1bp-10, 0x1.43091312742e2p-13,
                               0x1.ffcbfdd59a4d4p-17, 0x1.62bfbe7fe2b63p-20, 0x1.b521e2cb7d7f6p-24,
                               0x1.e62b0ae83e4f8p-28, 0x1.ee9cbf8158cdcp-32};

// Adding 1.5 * 2^23 (2^52) leaves the nearest integer in the low bits of the sum.
double RoundingConstant(V x) {
  return x.wide() ? 0x1.8p52 : 0x1.8p23;
}

}  // namespace

ExpParts SplitExp(V x, int bias) {
  double magic = RoundingConstant(x) + bias;
  V sum = Fma(x, 0x1.71547652b82fep+0, magic);
  V n = sum - magic;
  V r = Fma(n, x.Pick(-0x1.62e43p-1, -0x1.62e42fefa39efp-1), x);
  r = Fma(n, x.Pick(0x1.05c61p-29, -0x1.abc9e3b39803fp-56), r);
  V square = r * r;
  std::span<const double> c = x.wide() ? std::span<const double>(kExpF64) : kExpF32;
  return {Bits(sum), Fma(square, Poly(r, square, c), r)};
}

V PowerOfTwo(V exponent) {
  return FromBits(exponent << (exponent.type().dtype == DType::kS64 ? 52 : 23));
}

V Scale(V v, V exponent) {
  V half = exponent >> 1;
  return v * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

V Scale(V exponent) {
  V half = exponent >> 1;
  return PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

namespace {

// Below this e^x is no normal number, and at `kZero` nothing but zero.
constexpr double kSubnormalF32 = -87.3366, kSubnormalF64 = -708.39642;
constexpr double kZeroF32 = -104, kZeroF64 = -746;

// a b, which is e^x. Where that is no normal number and such take long, its bits are the integer
// nearest to a b 2^149 (2^1074).
V ProductOfExp(V a, V b, V x) {
  if (!a.b->slow_subnormals()) return a * b;
  V small = x < x.Pick(kSubnormalF32, kSubnormalF64);
  V value = a * Select(small, 0, b);
  auto of_bits = [&] {
    V ulp = x.Pick(0x1p23, 0x1p52);
    V lifted = (a * x.Pick(0x1p75, 0x1p537)) * (b * x.Pick(0x1p74, 0x1p537));
    return Select(small, FromBits(Bits(lifted + ulp) - Bits(ulp)), value);
  };
  if (x.type().lanes == 1) return of_bits();
  return Unless(small & (x > x.Pick(kZeroF32, kZeroF64)), value, of_bits);
}

}  // namespace

V ExpInRange(V x) {
  auto [exponent, m] = SplitExp(x, x.wide() ? 2046 : 254);
  V half = exponent >> 1, power = PowerOfTwo(half);
  return ProductOfExp(Fma(power, m, power), PowerOfTwo(exponent - half), x);
}

namespace {

// x, or where e^x is zero what makes its power's exponent 0 with the bias of Scale: the bits of
// zero. x86 takes long over products that are rounded to zero.
V NoUnderflow(V x) {
  return Select(x < x.Pick(kZeroF32, kZeroF64), x.Pick(-176, -1418), x);
}

// The nearest integer in the low bits of a sum, with the bias for Scale; the rest.
struct Exp2Parts {
  V sum, r;
};
Exp2Parts SplitExp2(V x, int bias) {
  double magic = RoundingConstant(x) + bias;
  V sum = x + magic;
  return {sum, x - (sum - magic)};
}

// e^x less 1, plus `constant`: 2^n q + (2^n + constant), q = r + r^2 p(r). In f64 the rest of n ln2
// is not on the critical path, but a factor of 2^n. For |x| <= 200 (708).
struct SoonExp {
  explicit SoonExp(V x) : r(x), power(x) {
    if (!x.wide()) {
      V scaled = Cast(x, DType::kF64) * 0x1.71547652b82fep+0;
      auto [sum, rest] = SplitExp2(scaled, 1023);
      r = rest, power = PowerOfTwo(Bits(sum));
      return;
    }
    double magic = RoundingConstant(x) + 1023;
    V sum = Fma(x, 0x1.71547652b82fep+0, magic);
    V n = sum - magic, whole = PowerOfTwo(Bits(sum));
    r = Fma(n, -0x1.62e42fefa39efp-1, x);
    power = Fma(n * -0x1.abc9e3b39803fp-56, whole, whole);
    wide = true;
  }
  // e^x + constant, in f64.
  V Plus(double constant) const {
    V square = r * r, base = constant == 0 ? power : power + constant;
    if (!wide) return PolySum(base, power * r, r, square, kExp2F32);
    return PolySum(Fma(power, r, base), power * square, r, square, kExpF64);
  }
  V r, power;
  bool wide = false;
};

V ExpLowLatency(V x) {
  V value = Cast(SoonExp(x).Plus(0), x.type().dtype);
  if (x.wide()) {
    return Unless(Abs(x) > 708, value, [&] { return ExpInRange(NoUnderflow(Min(x, 710))); });
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return Select(Abs(x) > 200, Select(x > 0, x.Const(kInfinity), 0), value);
}

V ExpOf(V x) {
  if (IsLatencyBound(x)) return ExpLowLatency(x);
  return ExpInRange(NoUnderflow(x.wide() ? Min(x, 710) : Min(x, 89)));
}

}  // namespace

V Exp2SplitLowLatency(V high, V low) {
  auto [sum, rest] = SplitExp2(high, 1023);
  V r = rest + low, power = PowerOfTwo(Bits(sum));
  return PolySum(power, power * r, r, r * r, kExp2F64);
}

V Exp2Split(V high, V low) {
  auto [sum, rest] = SplitExp2(high, 2046);
  V r = rest + low;
  return Scale(Fma(r, Poly(r, kExp2F64), 1), Bits(sum));
}

V Exp2ForF32(V x, V factor) {
  auto [sum, r] = SplitExp2(x, 1023);
  V power = PowerOfTwo(Bits(sum)) * factor;
  if (IsLatencyBound(x)) return PolySum(power, power * r, r, r * r, kExp2F32);
  return Fma(power * r, Poly(r, kExp2F32), power);
}

}  // namespace detail

using namespace detail;  // NOLINT

ValueId Exp(KernelBuilder& b, ValueId x) {
  if (b.functions()) return b.Emit(Op::kExp, {x});
  return ExpOf({&b, x}).id();
}

// 2^(n + lift) (1 + m) is a normal number where the result is not zero, and what is too small after
// all is rounded once. What is masked is -inf or far below: a power of zero, as above.
ValueId ExpNotPositive(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kExp, {id});
  V x{&b, id};
  if (IsLatencyBound(x)) return ExpLowLatency(x).id();
  int lift = x.wide() ? 55 : 25;
  x = Max(x, x.wide() ? -747.3 : -105.4);
  auto [exponent, m] = SplitExp(x, (x.wide() ? 1023 : 127) + lift);
  V power = PowerOfTwo(exponent);
  return ProductOfExp(Fma(power, m, power), x.Pick(0x1p-25, 0x1p-55), x).id();
}

ValueId Exp2(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kExp2, {id});
  V x{&b, id};
  x = x.wide() ? Max(Min(x, 1025), -2046) : Max(Min(x, 129), -254);
  auto [sum, r] = SplitExp2(x, x.wide() ? 2046 : 254);
  return Scale(Fma(r, Poly(r, kExp2F32, kExp2F64), 1), Bits(sum)).id();
}

// 2^n m + (2^n - 1), in halves so that the largest results do not overflow on the way. Near zero
// the result is x, with its sign and all its bits.
ValueId Expm1(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kExpm1, {id});
  V x{&b, id};
  if (IsLatencyBound(x) && !x.wide()) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    V value = Cast(SoonExp(x).Plus(-1), DType::kF32);
    V limit = Select(x > 1, x.Const(kInfinity), Select(x < -1, x.Const(-1), x));
    return Select((Abs(x) > 200) | (Abs(x) < 0x1p-25), limit, value).id();
  }
  V clamped = x.wide() ? Max(Min(x, 710), -40) : Max(Min(x, 89), -20);
  auto [exponent, m] = SplitExp(clamped, x.wide() ? 1022 : 126);
  V half = PowerOfTwo(exponent);
  V result = Fma(half, m, half - 0.5) * 2;
  return Select(Abs(x) < x.Pick(0x1p-26, 0x1p-55), x, result).id();
}

namespace {

// 1 / (1 + e^-|x|), times e^-|x| for negative x: no overflow, and small results keep their bits.
V LogisticOf(V x) {
  V negative = FromBits(Bits(x) | SignBit(Bits(x)));  // -|x|
  auto [exponent, m] = SplitExp(NoUnderflow(negative), x.wide() ? 2046 : 254);
  V power = Scale(exponent);
  V e = Fma(power, m, power);
  return Select(x < 0, e, 1) / Fma(power, m, power + 1);
}

}  // namespace

ValueId Logistic(KernelBuilder& b, ValueId id) {
  V x{&b, id};
  if (b.functions()) return (1 / (V{&b, b.Emit(Op::kExp, {(-x).id()})} + 1)).id();
  if (IsLatencyBound(x)) {
    V value = Cast(1 / SoonExp(-x).Plus(1), x.type().dtype);
    if (x.wide()) return Unless(Abs(x) > 708, value, [&] { return LogisticOf(x); }).id();
    return Select(Abs(x) > 200, Select(x > 0, x.Const(1), 0), value).id();
  }
  return LogisticOf(x).id();
}

// (1 - e^-2|x|) / (1 + e^-2|x|).
ValueId Tanh(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kTanh, {id});
  V x{&b, id};
  V a = Min(Abs(x), x.wide() ? 20 : 9.5);
  if (IsLatencyBound(x)) {
    SoonExp e(x + x);
    V value = Cast(e.Plus(-1), x.type().dtype) / Cast(e.Plus(1), x.type().dtype);
    V limit = Select(x > 1, x.Const(1), Select(x < -1, x.Const(-1), x));
    V unlikely = (Abs(x) > x.Pick(9.5, 20)) | (Abs(x) < x.Pick(0x1p-20, 0x1p-27));
    return Select(unlikely, limit, value).id();
  }
  auto [exponent, m] = SplitExp(a * -2, x.wide() ? 1023 : 127);
  V power = PowerOfTwo(exponent);
  return WithSign(Fma(-power, m, 1 - power) / Fma(power, m, power + 1), x).id();
}

namespace {

// e^|x| / 4 as 2^(n-2) (1 + m), up to where sinh and cosh overflow.
ExpParts QuarterExp(V x) {
  V a = Min(Abs(x), x.wide() ? 710.6 : 89.5);
  auto [exponent, m] = SplitExp(a, x.wide() ? 1021 : 125);
  return {PowerOfTwo(exponent), m};
}

}  // namespace

// A polynomial below 1, 2 (e^a / 4 - e^-a / 4) above.
ValueId Sinh(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kSinh, {id});
  V x{&b, id};
  auto [quarter, m] = QuarterExp(x);
  V e = Fma(quarter, m, quarter);
  V large = WithSign((e - 0.0625 / e) * 2, x);
  V square = x * x;
  V small = Fma(square * x, Poly(square, kSinhF32, kSinhF64), x);
  return Select(Abs(x) < 1, small, large).id();
}

ValueId Cosh(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kCosh, {id});
  auto [quarter, m] = QuarterExp({&b, id});
  V e = Fma(quarter, m, quarter);
  return ((e + 0.0625 / e) * 2).id();
}

}  // namespace weft::program::math
