// Complex arithmetic, roots, exponentials and logarithms. Functions of c64 that cancel or overflow
// on the way are computed in f64, where they do not; those of c128 scale by powers of two.
#include "program/math_complex.h"

#include <limits>
#include <utility>

namespace weft::program::math {
namespace detail {
namespace {

constexpr double kComplexInfinity = std::numeric_limits<double>::infinity();
constexpr double kLn2High = 0x1.62e42fefa39efp-1;

V Larger(V a, V b) {
  return Apply(Op::kMax, a, b);
}

// 2^-e for a = 2^e m >= 0 in f64, m in [1, 2); within [2^-1022, 2^1023].
V InversePower(V a) {
  V bits = Bits(a);
  V exponent = bits & bits.Int(int64_t{0x7ff} << 52);
  V inverse = bits.Int(int64_t{2046} << 52) - exponent;
  return FromBits(Larger(inverse, bits.Int(int64_t{1} << 52)));
}

V EitherInfinite(C z) {
  return (Abs(z.re) == kComplexInfinity) | (Abs(z.im) == kComplexInfinity);
}

// |z|^2 as scale^-2 times a number in [1, 8], for finite z.
struct SquaredSize {
  V scale, value;
};
SquaredSize Size2(C z) {
  V scale = InversePower(Larger(Abs(z.re), Abs(z.im)));
  V x = z.re * scale, y = z.im * scale;
  return {scale, Fma(x, x, y * y)};
}

// a b - c d, exactly 0 where the products are equal and accurate where they nearly are. An infinite
// product has no error: inf - inf is not subtracted. No error is +0, so that a difference of -0
// stays.
V DifferenceOfProducts(V a, V b, V c, V d) {
  V product = c * d, error = Fma(c, d, -product);
  return Fma(a, b, -product) - Select(error == error, error, 0.0);
}

// An infinite part makes an infinite quotient, and so on: what C's division does where the plain
// formulas give NaN twice.
C DivideSpecial(C x, C y, C quotient) {
  auto box = [](V part) {  // 1 for infinity, else 0, with the sign
    return WithSign(Select(Abs(part) == kComplexInfinity, part.Const(1), 0.0), part);
  };
  V zero = (y.re == 0) & (y.im == 0) & ((x.re == x.re) | (x.im == x.im));
  V infinity = WithSign(y.re.Const(kComplexInfinity), y.re);
  V x_infinite =
      EitherInfinite(x) & (Abs(y.re) < kComplexInfinity) & (Abs(y.im) < kComplexInfinity);
  V y_infinite =
      EitherInfinite(y) & (Abs(x.re) < kComplexInfinity) & (Abs(x.im) < kComplexInfinity);
  C a{Select(x_infinite, box(x.re), x.re), Select(x_infinite, box(x.im), x.im)};
  C c{Select(y_infinite, box(y.re), y.re), Select(y_infinite, box(y.im), y.im)};
  V factor = Select(x_infinite, a.re.Const(kComplexInfinity), 0.0);
  C other{factor * Fma(a.re, c.re, a.im * c.im), factor * Fma(a.im, c.re, -(a.re * c.im))};
  C result{Select(x_infinite | y_infinite, other.re, quotient.re),
           Select(x_infinite | y_infinite, other.im, quotient.im)};
  return {Select(zero, infinity * x.re, result.re), Select(zero, infinity * x.im, result.im)};
}

}  // namespace

C Widen(C z) {
  return {Cast(z.re, DType::kF64), Cast(z.im, DType::kF64)};
}
C NarrowTo(C z, V like) {
  return {Cast(z.re, like.type().dtype), Cast(z.im, like.type().dtype)};
}

C SelectC(V p, C a, C b) {
  return {Select(p, a.re, b.re), Select(p, a.im, b.im)};
}

// Scaled by a power of two that has an inverse, so that no square overflows or is lost.
V AbsC(C z) {
  V most = Larger(Abs(z.re), Abs(z.im)), bits = Bits(most);
  int digits = MantissaBits(most);
  int64_t largest = most.wide() ? 2046 : 254;  // exponent of finite numbers, with its bias
  V exponent = bits & bits.Int((largest + 1) << digits);
  exponent = Apply(Op::kMin, Larger(exponent, bits.Int(int64_t{1} << digits)),
                   bits.Int((largest - 1) << digits));
  V scale = FromBits(bits.Int(largest << digits) - exponent);
  V x = z.re * scale, y = z.im * scale;
  V size = Sqrt(Fma(x, x, y * y)) * FromBits(exponent);
  return Select(EitherInfinite(z), kComplexInfinity, size);
}

// A quotient of finite numbers with what infinities and zeroes make of it.
C WithSpecialQuotients(C x, C y, C plain) {
  KernelBuilder& b = *x.re.b;
  V special = (plain.re != plain.re) & (plain.im != plain.im);
  for (V part : {x.re, x.im, y.re, y.im, plain.re, plain.im}) part.id();
  b.BeginIf(b.Any(special.id()), Branch::kUnlikely);
  C fixed = SelectC(special, DivideSpecial(x, y, plain), plain);
  b.BeginElse(std::vector<ValueId>{fixed.re.id(), fixed.im.id()});
  auto joined = b.End(std::vector<ValueId>{plain.re.id(), plain.im.id()});
  return {x.re.Of(joined[0]), x.re.Of(joined[1])};
}

// Of numbers that an f32 holds: products are exact in f64, and none is too large or too small.
C DivOfF32(C x, C y) {
  V inverse = 1.0 / Fma(y.re, y.re, y.im * y.im);
  C plain{Fma(x.re, y.re, x.im * y.im) * inverse, Fma(x.im, y.re, -(x.re * y.im)) * inverse};
  return WithSpecialQuotients(x, y, plain);
}

C DivC(C x, C y) {
  V scale = InversePower(Larger(Abs(y.re), Abs(y.im)));
  V x_scale = InversePower(Larger(Abs(x.re), Abs(x.im)));
  C d{y.re * scale, y.im * scale}, n{x.re * x_scale, x.im * x_scale};
  V size = Fma(d.re, d.re, d.im * d.im);
  // scale / x_scale would overflow in one step where the quotient does not.
  auto unscale = [&](V part) { return part / size / x_scale * scale; };
  C plain{unscale(DifferenceOfProducts(n.re, d.re, -n.im, d.im)),
          unscale(DifferenceOfProducts(n.im, d.re, n.re, d.im))};
  return WithSpecialQuotients(x, y, plain);
}

C SqrtC(C z) {
  V most = Larger(Abs(z.re), Abs(z.im));
  V large = most > 0x1p1000, small = most < 0x1p-900;
  V scale = Select(large, most.Const(0x1p-4), Select(small, most.Const(0x1p200), 1.0));
  V unscale = Select(large, most.Const(4), Select(small, most.Const(0x1p-100), 1.0));
  C s{z.re * scale, z.im * scale};
  V t = Sqrt((Abs(s.re) + AbsC(s)) * 0.5);
  V other = Abs(s.im) / (t + t);
  other = Select(t == 0, 0.0, other);
  V left = z.re < 0;
  C root{Select(left, other, t) * unscale, WithSign(Select(left, t, other) * unscale, z.im)};
  // sqrt(x + i inf) is inf + i inf, sqrt(-inf + iy) is 0 + i inf, sqrt(inf + iy) is inf + 0i.
  V im_infinite = Abs(z.im) == kComplexInfinity;
  V re_infinite = (Abs(z.re) == kComplexInfinity) & (z.im == z.im);
  V zero = z.im.Const(0);
  C flat{Select(left, zero, Abs(z.re)), WithSign(Select(left, Abs(z.re), zero), z.im)};
  root = SelectC(re_infinite, flat, root);
  return SelectC(im_infinite, {Abs(z.im), z.im}, root);
}

V LogAbs(C z) {
  V x = Abs(z.re), y = Abs(z.im);
  V a = Larger(x, y), b = Apply(Op::kMin, x, y);
  // Near the unit circle |z|^2 - 1, each product with its error.
  V near = (a > 0.5) & (a < 1.5);
  V aa = a * a, bb = b * b;
  V errors = Fma(a, a, -aa) + Fma(b, b, -bb);
  V small = ((aa - 1) + bb) + errors;
  V tiny = a < 0x1p-900;
  V lift = Select(tiny, a.Const(0x1p200), 1.0);
  auto [scale, square] = Size2({z.re * lift, z.im * lift});
  V log = Log1pOf(Select(near, small, square - 1)) * 0.5;
  V e = FromBits(((Bits(scale) >> 52) + Bits(scale).Int(std::bit_cast<int64_t>(0x1.8p52)))) -
        (0x1.8p52 + 1023) + Select(tiny, a.Const(200), 0.0);
  V result = Select(near, log, Fma(e, -kLn2High, log));
  result = Select(a == 0, -kComplexInfinity, result);
  return Select(EitherInfinite(z), kComplexInfinity, result);
}

V RealAtan2(V y, V x) {
  y.id();  // before x, whatever the order of arguments
  return y.Of(Atan2(*y.b, y.id(), x.id()));
}

C LogC(C z) {
  return {LogAbs(z), RealAtan2(z.im, z.re)};
}

// e^x (cos y + i sin y). A factor is taken out of large e^x, which may be finite once multiplied.
C ExpC(C z) {
  KernelBuilder& b = *z.re.b;
  bool wide = z.re.wide();
  V large = z.re > (wide ? 700 : 80);
  V part = z.re.Of(Exp(b, Select(large, z.re - (wide ? 700 : 80), z.re).id()));
  double rest = wide ? 0x1.d945df4f8ec8ep+1009 : 0x1.55779cp+115;
  V factor = Select(large, z.re.Const(rest), 1.0);
  auto [sine, cosine] = SinCos(z.im);
  V nothing = (z.re == -kComplexInfinity) & (cosine == cosine);  // 0 at any angle that is one
  auto times = [&](V turn) { return Select(nothing, WithSign(part, turn), part * turn * factor); };
  return {times(cosine), Select(z.im == 0, z.im, times(sine))};
}

}  // namespace detail

using namespace detail;  // NOLINT

namespace {

C In(KernelBuilder& b, Complex z) {
  return {{&b, z.re}, {&b, z.im}};
}
Complex Out(C z) {
  return {z.re.id(), z.im.id()};
}
// Computes in f64 and rounds.
template <class F>
Complex InF64(KernelBuilder& b, Complex z, F&& f) {
  C in = In(b, z);
  return Out(NarrowTo(f(Widen(in)), in.re));
}

}  // namespace

// Contracted, the imaginary part of z times its conjugate would not be 0.
Complex Mul(KernelBuilder& b, Complex x, Complex y) {
  C p = In(b, x), q = In(b, y);
  V re = p.re * q.re - p.im * q.im;
  if (x.re == y.re && x.im == y.im) return Out({re, p.re * q.im + p.im * q.re});
  return {re.id(), b.Add(b.MulRounded(x.re, y.im), b.MulRounded(x.im, y.re))};
}

Complex Div(KernelBuilder& b, Complex x, Complex y) {
  C divisor = Widen(In(b, y));
  bool wide = b.type(x.re).dtype == DType::kF64;
  return InF64(b, x, [&](C z) { return wide ? DivC(z, divisor) : DivOfF32(z, divisor); });
}

ValueId Abs(KernelBuilder& b, Complex x) {
  C z = In(b, x);
  return AbsC(z).id();
}

Complex Exp(KernelBuilder& b, Complex x) {
  return Out(ExpC(In(b, x)));
}

// (e^x - 1) cos y - 2 sin^2(y/2) + i e^x sin y.
Complex Expm1(KernelBuilder& b, Complex x) {
  return InF64(b, x, [&](C z) {
    V m = z.re.Of(Expm1(b, z.re.id()));
    auto [half, unused] = SinCos(z.im * 0.5);
    auto [sine, cosine] = SinCos(z.im);
    V real = Select(m == kComplexInfinity, m * cosine, Fma(m, cosine, half * half * -2));
    V flat = z.im == 0;
    return C{Select(flat, m, real), Select(flat, z.im, (m + 1) * sine)};
  });
}

Complex Log(KernelBuilder& b, Complex x) {
  return InF64(b, x, LogC);
}

// |1 + z|^2 - 1 = 2x + x^2 + y^2, each product with its rounding error.
Complex Log1p(KernelBuilder& b, Complex x) {
  return InF64(b, x, [&](C z) {
    V xx = z.re * z.re, yy = z.im * z.im;
    V errors = Fma(z.re, z.re, -xx) + Fma(z.im, z.im, -yy);
    Pair first = TwoSum(z.re + z.re, yy), second = TwoSum(first.high, xx);
    V near_log = Log1pOf(second.high + (second.low + first.low + errors)) * 0.5;
    V near = (z.re > -0.5) & (z.re < 2) & (detail::Abs(z.im) < 2);
    C moved{z.re + 1, z.im};
    V angle = RealAtan2(z.im, moved.re);
    return C{Select(near, near_log, LogAbs(moved)), angle};
  });
}

Complex Sqrt(KernelBuilder& b, Complex x) {
  return InF64(b, x, SqrtC);
}

Complex Rsqrt(KernelBuilder& b, Complex x) {
  return InF64(b, x, [&](C z) {
    C one{z.re.Const(1), z.re.Const(0)};
    C result = DivC(one, SqrtC(z));
    V zero = (z.re == 0) & (z.im == 0);
    result = SelectC(zero, {z.re.Const(kComplexInfinity), z.re.Const(0)}, result);
    V is_nan = (z.re != z.re) | (z.im != z.im);
    V none = z.re.Const(0);
    return SelectC(EitherInfinite(z), {none, Select(is_nan, none, WithSign(none, -z.im))}, result);
  });
}

Complex Cbrt(KernelBuilder& b, Complex x) {
  return InF64(b, x, [&](C z) {
    C log = LogC(z);
    return SelectC((z.re == 0) & (z.im == 0), z, ExpC({log.re / 3, log.im / 3}));
  });
}

Complex Pow(KernelBuilder& b, Complex x, Complex y) {
  C power = Widen(In(b, y));
  return InF64(b, x, [&](C z) {
    C log = LogC(z);
    C product{Fma(power.re, log.re, -(power.im * log.im)),
              Fma(power.re, log.im, power.im * log.re)};
    C result = ExpC(product);
    C zero{z.re.Const(0), z.re.Const(0)}, one{z.re.Const(1), z.re.Const(0)};
    C infinity{z.re.Const(kComplexInfinity), z.re.Const(0)};
    V rises = power.re > 0, falls = (power.re < 0) & (power.im == 0);
    V from_zero = (z.re == 0) & (z.im == 0);
    V from_infinity = (z.re == kComplexInfinity) & (z.im == 0) & (power.im == 0);
    result = SelectC((from_zero & rises) | (from_infinity & falls), zero, result);
    result = SelectC((from_zero & falls) | (from_infinity & rises), infinity, result);
    V to_zero = (power.re == 0) & (power.im == 0);
    return SelectC(to_zero | ((z.re == 1) & (z.im == 0)), one, result);
  });
}

Complex Logistic(KernelBuilder& b, Complex x) {
  return InF64(b, x, [&](C z) {
    C e = ExpC({-z.re, -z.im});
    return DivC({z.re.Const(1), z.re.Const(0)}, {e.re + 1, e.im});
  });
}

Complex Sign(KernelBuilder& b, Complex x) {
  return InF64(b, x, [&](C z) {
    V size = AbsC(z);
    C zero{z.re.Const(0), z.re.Const(0)};
    return SelectC(size == 0, zero, {z.re / size, z.im / size});
  });
}

}  // namespace weft::program::math
