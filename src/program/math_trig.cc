// Sine, cosine, tangent: x = n pi/2 + r, a polynomial for each quadrant.
#include <algorithm>
#include <array>
#include <vector>

#include "program/math.h"
#include "program/math_complex.h"
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

// (tan r - r) / r^3, the error times z: 2^-29.3, 2^-56.0.
constexpr double kTanF32[] = {0x1.555562p-2, 0x1.110d22p-3,   0x1.baee2ep-5, 0x1.5bf934p-6,
                              0x1.66a9a4p-7, -0x1.82df0ep-15, 0x1.23189ep-8};
constexpr double kTanF64[] = {0x1.55555555554e2p-2,   0x1.11111111192fbp-3,   0x1.ba1ba1b3b438cp-5,
                              0x1.664f49c9290bcp-6,   0x1.226e0ee7436bdp-7,   0x1.d6d9ab4fe641ap-9,
                              0x1.7d55e4ef15973p-10,  0x1.3826f9a97d2ffp-11,  0x1.d0755e7d0d492p-13,
                              0x1.221f9c9b43020p-13,  -0x1.e46faa981e654p-16, 0x1.808800df485cdp-14,
                              -0x1.824993c8d9883p-15, 0x1.62a5b9ff2aa54p-16};

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// pi/2 in three parts: good while x is small enough that its multiple's rounding error does not
// matter, x < 2^16 (2^40).
Quadrant ReduceModerate(V x, bool with_low) {
  double magic = x.wide() ? 0x1.8p52 : 0x1.8p23;
  V sum = Fma(x, kTwoOverPi, magic);
  V n = sum - magic;
  V r = Fma(n, x.Pick(-0x1.921fb6p+0, -0x1.921fb54442d18p+0), x);
  V second = x.Pick(0x1.777a5cp-25, -0x1.1a62633145c07p-54);
  V third = x.Pick(0x1.ee59dap-50, 0x1.f1976b7ed8fbcp-110);
  if (!with_low) return {Bits(sum), Fma(n, third, Fma(n, second, r)), x};
  V product = n * second;
  auto [high, error] = TwoSum(r, product);
  Pair all = FastTwoSum(high, error + Fma(n, third, Fma(n, second, -product)));
  return {Bits(sum), all.high, all.low};
}

// Less the nearest multiple of 4; exact.
V ModFour(V x) {
  return Fma(Round(x * 0.25), -4, x);
}

// Any finite f32: x times 2/pi modulo 4 in f64. 2/pi is cut in pieces of 28 bits, whose products
// with x are exact. Pieces whose product is a multiple of 4 do not count; four after them do.
Quadrant ReduceHugeF32(V narrow, bool with_low) {
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
  V n = Cast(first_n + second_n + carry, DType::kS32), high = Cast(r, DType::kF32);
  V low = with_low ? Cast(r - Cast(high, DType::kF64), DType::kF32) : high;
  return {n, high, low};
}

// Five consecutive pieces of 2/pi (53 bits each, times 2^500) for x >= 2^40, beginning with the
// first whose product with x is not a multiple of 4: a shifter of pieces, one stage for each bit.
std::array<V, 5> PiecesF64(V x) {
  constexpr double kPieces[] = {
      0x145f306dc9c882p447,  0x14a7f09d5f47d4p394,  0x1a6ee06db14accp341,  0x13c439041fe516p288,
      0x757bd778ac36ep235,   0x91b8e909374b8p182,   0x324977504e8cp129,    0x121cfe1deb1cb1p76,
      0x534e7dd1046bep23,    0x14baed1213a671p-30,  0x18135a2fbf209cp-83,  0x191d639835339fp-136,
      0x93908bf177bf2p-189,  0xa0ec7fe25fff7p-242,  0x102cc07f79788cp-295, 0xb5a0a6d1f6d36p-348,
      0xfd9e4f96136e9p-401,  0x1d18fd9a797fa8p-454, 0x16ba93dd63f5f2p-507, 0x1f17b3d0739f78p-560,
      0x14a525d4d7f6bfp-613, 0xc47e357421580p-666,  0x198237e3db5d5fp-719};
  V exponent = Cast(Bits(x) >> 52, DType::kS32);
  // (exponent - 1023 - 54) / 53 rounded down
  V skip = ((exponent - exponent.Int(1077)) * exponent.Int(1237)) >> 16;
  skip = Apply(Op::kMax, skip, skip.Int(0));
  std::vector<V> pieces;
  for (double piece : kPieces) pieces.push_back(x.Const(piece));
  for (size_t stage = 16; stage > 0; stage /= 2) {
    V set = (skip & skip.Int(static_cast<int64_t>(stage))) != skip.Int(0);
    for (size_t i = 0; i < stage + 4 && i + stage < pieces.size(); ++i) {
      pieces[i] = Select(set, pieces[i + stage], pieces[i]);
    }
    pieces.resize(std::min(pieces.size(), stage + 4), x);
  }
  return {pieces[0], pieces[1], pieces[2], pieces[3], pieces[4]};
}

// Any finite f64 >= 2^40: x times 2/pi modulo 4, the products and sums in parts.
Quadrant ReduceHugeF64(V x) {
  std::array<V, 5> piece = PiecesF64(x);
  V scaled = x * 0x1p-500;
  auto product = [&](int i) {
    V high = scaled * piece[i];
    return Pair{high, Fma(scaled, piece[i], -high)};
  };
  Pair a = product(0), b = product(1), c = product(2), d = product(3);
  Pair first = TwoSum(ModFour(a.high), ModFour(a.low));
  V first_n = Round(first.high);
  V second = ModFour(b.high), second_n = Round(second);
  Pair sum = TwoSum(first.high - first_n, second - second_n);
  Pair sum2 = TwoSum(sum.high, b.low), sum3 = TwoSum(sum2.high, c.high);
  V carry = Round(sum3.high);
  // Terms below 2^-50, then those below 2^-100.
  Pair small0 = TwoSum(first.low, sum.low);
  Pair small = TwoSum(small0.high, sum2.low), small2 = TwoSum(small.high, sum3.low);
  Pair small3 = TwoSum(c.low, d.high), small4 = TwoSum(small2.high, small3.high);
  V rest = small0.low + (small.low + small2.low) + (small3.low + small4.low) +
           (d.low + scaled * piece[4]);
  Pair fraction = TwoSum(sum3.high - carry, small4.high);
  rest = fraction.low + rest;
  // Times pi/2.
  V high = fraction.high * 0x1.921fb54442d18p+0;
  V error = Fma(fraction.high, 0x1.921fb54442d18p+0, -high);
  V low = Fma(rest, 0x1.921fb54442d18p+0, Fma(fraction.high, 0x1.1a62633145c07p-54, error));
  Pair r = FastTwoSum(high, low);
  return {Bits(first_n + second_n + carry + 0x1.8p52), r.high, r.low};
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

Quadrant ReduceTrig(V x, bool with_low) {
  KernelBuilder& b = *x.b;
  Quadrant moderate = ReduceModerate(x, with_low);
  // Infinities and NaNs come out as NaN both ways.
  V huge = x > x.Pick(0x1p16, 0x1p40);
  auto list = [&](V n, V r, V low) {
    std::vector<ValueId> ids = {n.id(), r.id()};
    if (with_low) ids.push_back(low.id());
    return ids;
  };
  x.id();
  std::vector<ValueId> likely = list(moderate.n, moderate.r, moderate.low);
  b.BeginIf(b.Any(huge.id()), Branch::kUnlikely);
  Quadrant exact = x.wide() ? ReduceHugeF64(x) : ReduceHugeF32(x, with_low);
  V n = Select(huge, exact.n, moderate.n), r = Select(huge, exact.r, moderate.r);
  b.BeginElse(list(n, r, with_low ? Select(huge, exact.low, moderate.low) : r));
  std::vector<ValueId> joined = b.End(likely);
  return {x.Of(joined[0]), x.Of(joined[1]), x.Of(joined.back())};
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

V SinOf(V x, const Quadrant& q) {  // q of |x|
  V value = Select(IsOdd(q.n), CosPoly(q.r), SinPoly(q.r));
  V sign = BitAsSign(q.n, 1) ^ (Bits(x) & SignBit(q.n));
  return FromBits(Bits(value) ^ sign);
}
V CosOf(const Quadrant& q) {
  V value = Select(IsOdd(q.n), SinPoly(q.r), CosPoly(q.r));
  return FromBits(Bits(value) ^ BitAsSign(q.n + q.n.Int(1), 1));
}

// What only the value waits for is done beside: the sign is a factor of what the polynomial is
// added to. Numbers of f32 in f64, where two parts of pi/2 suffice; all parts have one sign, so
// that -0 stays what it is.
struct SoonQuadrant {
  explicit SoonQuadrant(V x) : r(x), z(x), n(x), narrow(!x.wide()) {
    V wide = Cast(x, DType::kF64);
    V sum = Fma(wide, kTwoOverPi, 0x1.8p52);
    V whole = sum - 0x1.8p52;
    V rest = whole * -0x1.1a62633145c07p-54;
    if (!narrow) rest = Fma(whole, 0x1.f1976b7ed8fbcp-110, rest);
    r = Fma(whole, -0x1.921fb54442d18p+0, wide) + rest;
    z = r * r, n = Bits(sum);
  }
  V Sine(V sign) const {
    V base = r * sign;
    return PolySum(base, base * z, z, z * z, narrow ? std::span<const double>(kSinF32) : kSinF64);
  }
  V Cosine(V sign) const {
    V square = z * z, base = Fma(z, sign * -0.5, sign);
    return PolySum(base, square * sign, z, square,
                   narrow ? std::span<const double>(kCosF32) : kCosF64);
  }
  V r, z, n;
  bool narrow;
};

Quadrant ReduceHuge(V x) {
  return x.wide() ? ReduceHugeF64(x) : ReduceHugeF32(x, false);
}

// Angles below pi/4 are as they are: often so, and for long, where an angle is the state of a loop.
constexpr double kEighthTurn = 0x1.921fb4p-1;

V SinLowLatency(V x) {
  V size = Abs(x), z = x * x;
  V minus_zero = Bits(x) == SignBit(Bits(x));
  // In an f32 the cube of a small angle is below the normal numbers, which some machines take long
  // for; a product inside a sum is not.
  V small =
      x.wide() ? PolySum(x, z * x, z, z * z, kSinF64) : Fma(x, z * Poly(z, kSinF32, kSinF64), x);
  return Unless((size > kEighthTurn) | minus_zero, small, [&] {
    SoonQuadrant q(x);
    V sign = Select((q.n & q.n.Int(2)) != q.n.Int(0), -1, q.r.Const(1));
    V value = Cast(Select(IsOdd(q.n), q.Cosine(sign), q.Sine(sign)), x.type().dtype);
    return Unless((size > x.Pick(0x1p26, 0x1p40)) | minus_zero, value,
                  [&] { return SinOf(x, ReduceHuge(size)); });
  });
}

V CosLowLatency(V x) {
  V size = Abs(x), z = x * x, square = z * z;
  V small = PolySum(Fma(z, -0.5, 1), square, z, square,
                    x.wide() ? std::span<const double>(kCosF64) : kCosF32);
  return Unless(size > kEighthTurn, small, [&] {
    SoonQuadrant q(x);
    V n = q.n + q.n.Int(1);
    V sign = Select((n & n.Int(2)) != n.Int(0), -1, q.r.Const(1));
    V value = Cast(Select(IsOdd(q.n), q.Sine(sign), q.Cosine(sign)), x.type().dtype);
    return Unless(size > x.Pick(0x1p26, 0x1p40), value, [&] { return CosOf(ReduceHuge(size)); });
  });
}

}  // namespace

namespace detail {

SinCosParts SinCos(V x) {
  Quadrant q = ReduceTrig(Abs(x), false);
  return {SinOf(x, q), CosOf(q)};
}

}  // namespace detail

ValueId Sin(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kSin, {id});
  V x{&b, id};
  if (IsLatencyBound(x)) return SinLowLatency(x).id();
  return SinOf(x, ReduceTrig(Abs(x), false)).id();
}

ValueId Cos(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kCos, {id});
  V x{&b, id};
  if (IsLatencyBound(x)) return CosLowLatency(x).id();
  return CosOf(ReduceTrig(Abs(x), false)).id();
}

ValueId Tan(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kTan, {id});
  V x{&b, id};
  auto [n, r, low] = ReduceTrig(Abs(x), true);
  V z = r * r, odd = IsOdd(n);
  V tail = Fma(z * r, Poly(z, kTanF32, kTanF64), Fma(z, low, low));
  V tangent = r + tail;
  V value = Select(odd, 1.0, tangent) / Select(odd, tangent, 1.0);
  return FromBits(Bits(value) ^ (BitAsSign(n, 0) ^ (Bits(x) & SignBit(n)))).id();
}

}  // namespace weft::program::math
