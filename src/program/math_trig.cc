// Sine, cosine, tangent: x = n pi/2 + r, a polynomial for each quadrant.
#include <vector>

#include "program/math.h"
#include "program/math_values.h"

namespace weft::program::math {
namespace detail {
namespace {

// In z = r^2 on [0, 0.6181]. (sin r - r) / r^3, the error times z: 2^-28.0, 2^-58.0.
constexpr double kSinF32[] = {-0x1.555546p-3, 0x1.11077ap-7, -0x1.9954a4p-13};
constexpr double kSinF64[] = {-0x1.5555555555549p-3, 0x1.111111110f892p-7,   -0x1.a01a019c121e8p-13,
                              0x1.71de3576c34abp-19, -0x1.ae5e64aee24efp-26, 0x1.5d925fe3ccaeap-33};
// (cos r - 1 + z/2) / z^2, the error times z^2: 2^-33.1, 2^-64.2.
constexpr double kCosF32[] = {0x1.55554ap-5, -0x1.6c0c1ap-10, 0x1.99e0eep-16};
constexpr double kCosF64[] = {0x1.555555555554cp-5,  -0x1.6c16c16c1520fp-10,
                              0x1.a01a019cbcb0cp-16, -0x1.27e4f81020b14p-22,
                              0x1.1ee9ef35b3576p-29, -0x1.8faff0e340b34p-37};

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// pi/2 in three parts: good while x is small enough that its multiple's rounding error does not
// matter, x < 2^16 (2^40).
Quadrant ReduceModerate(V x) {
  double magic = x.wide() ? 0x1.8p52 : 0x1.8p23;
  V sum = Fma(x, kTwoOverPi, magic);
  V n = sum - magic;
  V r = Fma(n, x.Pick(-0x1.921fb6p+0, -0x1.921fb54442d18p+0), x);
  r = Fma(n, x.Pick(0x1.777a5cp-25, -0x1.1a62633145c07p-54), r);
  r = Fma(n, x.Pick(0x1.ee59dap-50, 0x1.f1976b7ed8fbcp-110), r);
  return {Bits(sum), r};
}

// Less the nearest multiple of 4; exact.
V ModFour(V x) {
  return Fma(Round(x * 0.25), -4, x);
}

// Any finite f32: x times 2/pi modulo 4 in f64. 2/pi is cut in pieces of 28 bits, whose products
// with x are exact. Pieces whose product is a multiple of 4 do not count; four after them do.
Quadrant ReduceHugeF32(V narrow) {
  constexpr double kPieces[] = {0xa2f9836p-28,  0xe4e4415p-56,  0x29fc275p-84, 0x7d1f534p-112,
                                0xddc0db6p-140, 0x295993cp-168, 0x439041fp-196};
  V x = Cast(narrow, DType::kF64);
  V skip[] = {x >= 0x1p53, x >= 0x1p81, x >= 0x1p109};
  V part[4] = {x, x, x, x};
  for (int i = 0; i < 4; ++i) {
    V piece = x.Const(kPieces[i]);
    for (int k = 0; k < 3; ++k) piece = Select(skip[k], kPieces[i + k + 1], piece);
    part[i] = x * piece;
  }
  V first = ModFour(part[0]), first_n = Round(first), second_n = Round(part[1]);
  V fraction = (first - first_n) + (part[1] - second_n) + part[2] + part[3];
  V carry = Round(fraction);
  V r = (fraction - carry) * 0x1.921fb54442d18p+0;
  return {Cast(first_n + second_n + carry, DType::kS32), Cast(r, DType::kF32)};
}

}  // namespace

V SinPoly(V r) {
  V z = r * r;
  return Fma(z * r, Poly(z, kSinF32, kSinF64), r);
}

V CosPoly(V r) {
  V z = r * r;
  return Fma(z * z, Poly(z, kCosF32, kCosF64), Fma(z, -0.5, 1));
}

Quadrant ReduceTrig(V x) {
  KernelBuilder& b = *x.b;
  Quadrant moderate = ReduceModerate(x);
  // Infinities and NaNs come out as NaN both ways.
  V huge = x > x.Pick(0x1p16, 0x1p40);
  b.BeginIf(b.Any(huge.id));
  Quadrant exact = x.wide() ? ReduceModerate(x) : ReduceHugeF32(x);
  V n = Select(huge, exact.n, moderate.n), r = Select(huge, exact.r, moderate.r);
  b.BeginElse(std::vector<ValueId>{n.id, r.id});
  std::vector<ValueId> joined = b.End(std::vector<ValueId>{moderate.n.id, moderate.r.id});
  return {x.Of(joined[0]), x.Of(joined[1])};
}

}  // namespace detail

using namespace detail;  // NOLINT

namespace {

// Bit 0 or 1 of n as the sign bit.
V BitAsSign(V n, int bit) {
  return (n << ((n.type().dtype == DType::kS64 ? 63 : 31) - bit)) & SignBit(n);
}
V IsOdd(V n) {
  return (n & n.Int(1)) != n.Int(0);
}

}  // namespace

ValueId Sin(KernelBuilder& b, ValueId id) {
  V x{&b, id};
  auto [n, r] = ReduceTrig(Abs(x));
  V value = Select(IsOdd(n), CosPoly(r), SinPoly(r));
  V sign = BitAsSign(n, 1) ^ (Bits(x) & SignBit(n));
  return FromBits(Bits(value) ^ sign).id;
}

ValueId Cos(KernelBuilder& b, ValueId id) {
  V x{&b, id};
  auto [n, r] = ReduceTrig(Abs(x));
  V value = Select(IsOdd(n), SinPoly(r), CosPoly(r));
  return FromBits(Bits(value) ^ BitAsSign(n + n.Int(1), 1)).id;
}

ValueId Tan(KernelBuilder& b, ValueId id) {
  V x{&b, id};
  auto [n, r] = ReduceTrig(Abs(x));
  V s = SinPoly(r), c = CosPoly(r), odd = IsOdd(n);
  V value = Select(odd, c, s) / Select(odd, s, c);
  return FromBits(Bits(value) ^ (BitAsSign(n, 0) ^ (Bits(x) & SignBit(n)))).id;
}

}  // namespace weft::program::math
