// Trigonometric and hyperbolic functions of complex numbers and their inverses.
#include <limits>

#include "program/math_complex.h"

namespace weft::program::math {
namespace detail {
namespace {

constexpr double kTrigInfinity = std::numeric_limits<double>::infinity();
constexpr double kTrigHalfPi = 0x1.921fb54442d18p+0;
constexpr double kTrigTenLog2 = 0x1.bb9d3beb8c86bp+2;

}  // namespace

Hyperbolic SinhCosh(V x) {
  KernelBuilder& b = *x.b;
  double limit = x.wide() ? 700 : 80;
  V large = Abs(x) > limit;
  V far = x.Of(Exp(b, (Abs(x) - limit).id())) * 0.5;
  V sine = x.Of(Sinh(b, x.id())), cosine = x.Of(Cosh(b, x.id()));
  double rest = x.wide() ? 0x1.d945df4f8ec8ep+1009 : 0x1.55779cp+115;
  return {Select(large, WithSign(far, x), sine), Select(large, far, cosine),
          Select(large, x.Const(rest), 1.0)};
}

namespace {

// A zero stays one when the other factor is infinite or NaN.
V ZeroWins(V a, V b, V factor) {
  V product = a * b * factor;
  V lost = product != product;
  product = Select(lost & (a == 0), a, product);
  return Select(lost & (b == 0), b, product);
}

// An infinite real part with an angle that is NaN: infinity in some direction.
V Unbounded(C z, V product) {
  V any_direction = (Abs(z.re) == kTrigInfinity) & (z.im != z.im);
  return Select(any_direction, kTrigInfinity, product);
}

C SinhC(C z) {
  auto [sinh, cosh, factor] = SinhCosh(z.re);
  auto [sine, cosine] = SinCos(z.im);
  return {Unbounded(z, ZeroWins(sinh, cosine, factor)), ZeroWins(cosh, sine, factor)};
}

C CoshC(C z) {
  auto [sinh, cosh, factor] = SinhCosh(z.re);
  auto [sine, cosine] = SinCos(z.im);
  return {Unbounded(z, ZeroWins(cosh, cosine, factor)), ZeroWins(sinh, sine, factor)};
}

// With t = tan y, s = sinh x, d = 1 + (1 + t^2) s^2:
// (1 + t^2) s sqrt(1 + s^2) / d + i t / d. Far out +-1 + 4i sin y cos y e^-2|x|.
C TanhC(C z) {
  KernelBuilder& b = *z.re.b;
  V a = Abs(z.re);
  V s = z.re.Of(Sinh(b, Min(a, 25).id())), t = z.re.Of(Tan(b, z.im.id()));
  V beta = Fma(t, t, 1.0), d = Fma(beta * s, s, 1.0);
  C result{beta * s * Sqrt(Fma(s, s, 1.0)) / d, t / d};
  V far = a > 22;
  auto [sine, cosine] = SinCos(z.im);
  V decay = sine * cosine * 4 * z.re.Of(Exp(b, (a * -2).id()));
  V no_angle = decay != decay;  // at x = inf any y will do
  V bounded = a < kTrigInfinity;
  C end{Select(bounded & no_angle, decay, 1.0), Select(bounded | !no_angle, decay, 0.0)};
  result = SelectC(far, end, result);
  V re = WithSign(Abs(result.re), z.re);
  return {Select(z.re == 0, z.re, re), Select(z.im == 0, z.im, result.im)};
}

V RealAsinh(V x) {
  return x.Of(Asinh(*x.b, x.id()));
}
V IsInfinite(C z) {
  return (Abs(z.re) == kTrigInfinity) | (Abs(z.im) == kTrigInfinity);
}

// A number so large that the functions below are a logarithm of it, divided so that products of
// two roots stay finite; `less` is what the logarithm lost by that.
struct Divided {
  C z;
  V less;
};
Divided DivideLarge(C z) {
  V far = Apply(Op::kMax, Abs(z.re), Abs(z.im)) > 0x1p500;
  V factor = Select(far, z.re.Const(0x1p-10), 1.0);
  return {{z.re * factor, z.im * factor}, Select(far, z.re.Const(kTrigTenLog2), 0.0)};
}
V LongerBy(V x, V length) {
  return x + WithSign(length, x);
}

// After Kahan, "Branch cuts for complex elementary functions": through sqrt(1 - z), sqrt(1 + z).
C AsinC(C z) {
  auto [w, less] = DivideLarge(z);
  C p = SqrtC({1 - w.re, -w.im}), q = SqrtC({1 + w.re, w.im});
  V re = RealAtan2(w.re, Fma(p.re, q.re, -(p.im * q.im)));
  V im = LongerBy(RealAsinh(Fma(p.re, q.im, -(p.im * q.re))), less);
  re = Select(z.re == 0, z.re, re);
  C infinite{RealAtan2(z.re, Abs(z.im)), WithSign(z.im.Const(kTrigInfinity), z.im)};
  return SelectC(IsInfinite(z), infinite, {re, im});
}

C AcosC(C z) {
  auto [w, less] = DivideLarge(z);
  C p = SqrtC({1 - w.re, -w.im}), q = SqrtC({1 + w.re, w.im});
  V re = RealAtan2(p.re, q.re) * 2;
  V im = LongerBy(RealAsinh(Fma(q.re, p.im, -(q.im * p.re))), less);
  C infinite{RealAtan2(Abs(z.im), z.re), WithSign(z.im.Const(kTrigInfinity), -z.im)};
  return SelectC(IsInfinite(z), infinite, {re, im});
}

C AcoshC(C z) {
  auto [w, less] = DivideLarge(z);
  C p = SqrtC({w.re - 1, w.im}), q = SqrtC({w.re + 1, w.im});
  V re = LongerBy(RealAsinh(Fma(p.re, q.re, p.im * q.im)), less);
  V im = RealAtan2(p.im, q.re) * 2;
  C infinite{z.re.Const(kTrigInfinity), RealAtan2(z.im, z.re)};
  return SelectC(IsInfinite(z), infinite, {re, im});
}

// log1p(4|x| / ((1-|x|)^2 + y^2)) / 4 and atan2(2y, (1-x)(1+x) - y^2) / 2; far out x / |z|^2 and
// +-pi/2.
C AtanhC(C z) {
  V x = Abs(z.re), y = Abs(z.im);
  V less = 1 - x;
  V re = Log1pOf(4 * x / Fma(less, less, y * y)) * 0.25;
  V im = RealAtan2(y + y, Fma(less, x + 1, -(y * y))) * 0.5;
  V infinite = IsInfinite(z);
  V far = infinite | (Apply(Op::kMax, x, y) > 0x1p500);
  V size = AbsC(z);
  V end_re = Select(infinite, x.Const(0), x / size / size);
  V end_im = Select(y == y, x.Const(kTrigHalfPi), y);
  C result = SelectC(far, {end_re, end_im}, {Select(x == 0, x, re), im});
  return {WithSign(result.re, z.re), WithSign(result.im, z.im)};
}

}  // namespace
}  // namespace detail

using namespace detail;  // NOLINT

namespace {

C Parts(KernelBuilder& b, Complex z) {
  return {{&b, z.re}, {&b, z.im}};
}
Complex Ids(C z) {
  return {z.re.id(), z.im.id()};
}
C TimesI(C z) {
  return {-z.im, z.re};
}
C OverI(C z) {
  return {z.im, -z.re};
}
template <class F>
Complex ThroughF64(KernelBuilder& b, Complex z, F&& f) {
  C in = Parts(b, z);
  return Ids(NarrowTo(f(Widen(in)), in.re));
}

}  // namespace

// sin z = -i sinh(iz), cos z = cosh(iz), tan z = -i tanh(iz), asinh z = -i asin(iz).
Complex Sin(KernelBuilder& b, Complex x) {
  return Ids(OverI(SinhC(TimesI(Parts(b, x)))));
}
Complex Cos(KernelBuilder& b, Complex x) {
  return Ids(CoshC(TimesI(Parts(b, x))));
}
Complex Sinh(KernelBuilder& b, Complex x) {
  return Ids(SinhC(Parts(b, x)));
}
Complex Cosh(KernelBuilder& b, Complex x) {
  return Ids(CoshC(Parts(b, x)));
}
Complex Tan(KernelBuilder& b, Complex x) {
  return ThroughF64(b, x, [](C z) {
    C result = OverI(TanhC(TimesI(z)));
    V no_angle = (detail::Abs(z.re) == kTrigInfinity) & (detail::Abs(z.im) < kTrigInfinity);
    V nan = z.re - z.re;
    return SelectC(no_angle, {nan, nan}, result);
  });
}
Complex Tanh(KernelBuilder& b, Complex x) {
  return ThroughF64(b, x, TanhC);
}
Complex Asin(KernelBuilder& b, Complex x) {
  return ThroughF64(b, x, AsinC);
}
Complex Acos(KernelBuilder& b, Complex x) {
  return ThroughF64(b, x, AcosC);
}
Complex Asinh(KernelBuilder& b, Complex x) {
  return ThroughF64(b, x, [](C z) { return OverI(AsinC(TimesI(z))); });
}
Complex Acosh(KernelBuilder& b, Complex x) {
  return ThroughF64(b, x, AcoshC);
}
Complex Atanh(KernelBuilder& b, Complex x) {
  return ThroughF64(b, x, AtanhC);
}

}  // namespace weft::program::math
