// Functions of CHLO that HLO has no instruction for, spelled out in instructions.
//
// Everything but next_after is computed in f64 whatever the type, hence correct to the last bits of
// the narrower ones. Such text is what people print and read; programs that JAX sends have these
// functions spelled out already.
#include <cmath>
#include <limits>
#include <numbers>

#include "hlo/import/attr_values.h"
#include "hlo/import/formula.h"

namespace weft::hlo::mlir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Coefficients of Chebyshev's polynomials.
// (1 + 2x) exp(x²) erfc(x) in (x - 3.75) / (x + 3.75).
constexpr double kErfcx[] = {
    1.1775789345674017,     -0.004590054580646478,   -0.08424913336651792,
    0.05920993999819189,    -0.026658668435305753,   0.009074997670705265,
    -0.002413163540417608,  0.0004907758365258086,   -6.916973302501207e-05,
    4.13902798607301e-06,   7.74038306619849e-07,    -2.1886401049234397e-07,
    1.076499946567091e-08,  4.521959811218287e-09,   -7.754400208831351e-10,
    -6.318088340886684e-11, 2.86879501093067e-11,    1.9455868545777347e-13,
    -9.65469674843344e-13,  3.25254814814874e-14,    3.3478119482868056e-14,
    -1.864562880419313e-15, -1.2507950530688648e-15, 7.41823525662404e-17,
    5.068148904796112e-17};
// (4 + x)^(3/2) exp(-x) I₁(x) / x for x up to 8, in x/4 - 1.
constexpr double kBesselNear[] = {
    1.5652362891141827,      -1.3184683945041278,     0.6566509193747436,
    -0.2902458837810422,     0.11396962937823193,     -0.039594992221504,
    0.012033243856000016,    -0.003114304350405361,   0.0006389945118533842,
    -7.734924416673896e-05,  -1.1237132123564694e-05, 1.1631753618159e-05,
    -4.9579106107115845e-06, 1.6049521125787806e-06,  -4.3820147866709584e-07,
    1.0425257866032521e-07,  -2.170642715322716e-08,  3.867368497453769e-09,
    -5.412514316796323e-10,  3.7419195268696205e-11,  1.016904687077528e-11,
    -5.904238046530005e-12,  1.952748691134365e-12,   -5.336104938526596e-13,
    1.3185869642006022e-13,  -3.06677756486323e-14,   6.874589583463885e-15,
    -1.5100678455576855e-15, 3.29095188369337e-16,    -7.181724768106304e-17};
// √x exp(-x) I₁(x) from there on, in 16/x - 1.
constexpr double kBesselFar[] = {
    0.38928811750914005,     -0.009761097491361469,   -0.00011058893876262371,
    -3.882564808877691e-06,  -2.512236237870209e-07,  -2.6314688468895196e-08,
    -3.835380385964237e-09,  -5.589743462196584e-10,  -1.8974958123505413e-11,
    3.2526035830154884e-11,  1.4125807436613782e-11,  2.0356285441470896e-12,
    -7.198551776245908e-13,  -4.0835511110921974e-13, -2.1015418427726643e-14,
    4.272440016711951e-14,   1.0420276984128802e-14,  -3.8144030724370075e-15,
    -1.8803547755107825e-15, 3.3082023109209285e-16,  2.96262899764595e-16,
    -3.209525921993424e-17,  -4.6503053684893586e-17};

// Bernoulli's numbers, the even ones from the second on: over (2k)!, and over 2k.
constexpr double kZetaTail[] = {
    0.08333333333333333,   -0.001388888888888889,  3.306878306878307e-05,  -8.267195767195768e-07,
    2.08767569878681e-08,  -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13,
    8.586062056277845e-15, -2.174868698558062e-16, 5.5090028283602295e-18, -1.3954464685812522e-19};
constexpr double kDigammaTail[] = {
    0.08333333333333333,  -0.008333333333333333, 0.003968253968253968, -0.004166666666666667,
    0.007575757575757576, -0.021092796092796094, 0.08333333333333333,  -0.4432598039215686};

// Of the coefficients of Chebyshev's polynomials, by Clenshaw's recurrence.
Term Chebyshev(Term t, std::span<const double> coefficients) {
  Term twice = t * 2.0, one = t.formula->Constant(coefficients.back()),
       two = t.formula->Constant(0);
  for (size_t i = coefficients.size() - 2; i > 0; --i) {
    Term next = twice * one - two + coefficients[i];
    two = one;
    one = next;
  }
  return t * one - two + coefficients[0];
}

// erfc(x) = exp(-x²) h(x) / (1 + 2x) for x >= 0, h expanded in (x - 3.75) / (x + 3.75). The square
// is taken in two parts, the larger of which is exact.
Term Erfc(Term x) {
  Formula& f = *x.formula;
  Term a = Abs(x);
  Term coarse = f.Convert(f.Convert(a, DType::kF32), DType::kF64);
  Term decay = Exp(-(coarse * coarse)) * Exp((coarse - a) * (coarse + a));
  Term far = Chebyshev((a - 3.75) / (a + 3.75), kErfcx) / (a * 2.0 + 1.0) * decay;
  far = Select(a < 30.0, far, f.Constant(0) * Sign(a));
  return Select(a < 0.5, 1.0 - f.Math(Op::kErf, x), Select(x < 0.0, 2.0 - far, far));
}

// A first guess that is right to 0.003, and three steps of Halley's method.
Term ErfInv(Term x) {
  Formula& f = *x.formula;
  constexpr double kA = 0.147, kHalfRootPi = 0.88622692545275801365;
  Term a = Abs(x), rest = 1.0 - a;
  Term log = Log(rest * (a + 1.0));
  Term b = log * 0.5 + 2 / (std::numbers::pi * kA);
  Term y = Select(a < 0.1, a * kHalfRootPi, Sqrt(Sqrt(b * b - log / kA) - b));
  for (int step = 0; step < 3; ++step) {
    Term error = Select(a < 0.5, f.Math(Op::kErf, y) - a, rest - Erfc(y));
    Term newton = error * kHalfRootPi * Exp(y * y);
    y = y - newton / (y * newton + 1.0);
  }
  y = Select(a == 1.0, kInfinity, Select(f.Constant(1) < a, kNan, y));
  return y * Sign(x);
}

// Lanczos' approximation with g = 7 and nine terms, reflected at 1/2.
Term Lgamma(Term x) {
  Formula& f = *x.formula;
  constexpr double kG = 7;
  constexpr double kTerms[] = {676.5203681218851,     -1259.1392167224028,  771.32342877765313,
                               -176.61502916214059,   12.507343278686905,   -0.13857109526572012,
                               9.9843695780195716e-6, 1.5056327351493116e-7};
  Term reflected = x < 0.5;
  Term z = Select(reflected, -x, x - 1.0);
  Term sum = f.Constant(0.99999999999980993);
  for (size_t k = 0; k < std::size(kTerms); ++k)
    sum = sum + kTerms[k] / (z + (1.0 + static_cast<double>(k)));
  Term t = z + (kG + 0.5);
  // (z + 1/2) log t - t, with t taken out of the product: fewer digits cancel.
  Term value = (z + 0.5 - t / Log(t)) * Log(t) + 0.91893853320467274178 + Log(sum);
  Term part = Abs(x) - Floor(Abs(x));
  part = Select(f.Constant(0.5) < part, 1.0 - part, part);
  Term sine = f.Math(Op::kSine, part * std::numbers::pi);
  Term mirrored = 1.1447298858494001741 - Log(sine) - value;
  value = Select(reflected, Select(sine == 0.0, kInfinity, mirrored), value);
  return Select(Abs(x) == kInfinity, kInfinity, value);
}

// Where x is below ten, recurrence leads there; from ten on the asymptotic series. Reflected at
// 1/2.
Term Digamma(Term x) {
  Formula& f = *x.formula;
  Term reflected = x < 0.5;
  Term y = Select(reflected, 1.0 - x, x), sum = f.Constant(0);
  for (int step = 0; step < 10; ++step) {
    Term small = y < 10.0;
    sum = sum + Select(small, 1.0 / y, f.Constant(0));
    y = Select(small, y + 1.0, y);
  }
  Term square = 1.0 / (y * y), series = f.Constant(0);
  for (size_t k = std::size(kDigammaTail); k-- > 0;) series = (series + kDigammaTail[k]) * square;
  Term value = Log(y) - 0.5 / y - series - sum;
  Term part = (x - Floor(x + 0.5)) * std::numbers::pi;
  Term mirrored = value - f.Math(Op::kCosine, part) / f.Math(Op::kSine, part) * std::numbers::pi;
  return Select(reflected, Select(IsWhole(x), kNan, mirrored), value);
}

// exp(-|x|) I₁(x): x times a series in x up to eight, a series in 1/x over the root of x from there
// on.
Term BesselI1e(Term x) {
  Term a = Abs(x);
  Term near = Chebyshev(a * 0.25 - 1.0, kBesselNear) * a / ((a + 4.0) * Sqrt(a + 4.0));
  Term far = Chebyshev(16.0 / a - 1.0, kBesselFar) / Sqrt(a);
  return Select(a <= 8.0, near, far) * Sign(x);
}

// Hurwitz' zeta function by the formula of Euler and Maclaurin: nine terms, then integral and
// corrections.
Term Zeta(Term s, Term q) {
  Formula& f = *s.formula;
  Term sum = Power(q, -s), power = sum, a = q;
  for (int k = 0; k < 9; ++k) {
    a = a + 1.0;
    power = Power(a, -s);
    sum = sum + power;
  }
  Term whole = sum + power * a / (s - 1.0) - power * 0.5;
  Term factor = s / a, correction = f.Constant(0);
  for (size_t k = 0; k < std::size(kZetaTail); ++k) {
    correction = correction + factor * kZetaTail[k];
    double even = 2 * static_cast<double>(k);
    factor = factor * ((s + (even + 1)) / a) * ((s + (even + 2)) / a);
  }
  whole = whole + power * correction;
  // Terms beyond the sum vanish where the power does, and their factors may not be finite.
  Term value =
      Select(Abs(power) < Abs(sum) * std::numeric_limits<double>::epsilon() * 0.5, sum, whole);
  value = Select((q <= 0.0) & f.Logic(Op::kNot, {IsWhole(s)}), kNan, value);
  value = Select((q <= 0.0) & IsWhole(q), kInfinity, value);
  return Select(s == 1.0, kInfinity, Select(s < 1.0, kNan, value));
}

Term Polygamma(Term n, Term x) {
  Term odd = (n * 0.5) != Floor(n * 0.5);
  Term size = Exp(Lgamma(n + 1.0)) * Zeta(n + 1.0, x);
  Term value = Select(n == 0.0, Digamma(x), Select(odd, size, -size));
  Term defined = n.formula->Logic(Op::kNot, {n < 0.0}) & IsWhole(n);
  return Select(defined, value, n.formula->Constant(kNan));
}

// Rows.

Result<Shape> FloatShape(Converter& c, const Operation& op) {
  Shape shape = TRY(c.ResultShape(op));
  if (!shape.IsArray() || !IsFloat(shape.dtype()) || !shape.IsStatic()) {
    return Unimplemented("is known for static arrays of floating point only");
  }
  return shape;
}

template <Term (*kFunction)(Term)>
Status OfOne(Converter& c, const Operation& op) {
  Shape shape = TRY(FloatShape(c, op));
  Formula narrow(c, shape);
  Formula wide(c, narrow.With(DType::kF64));
  Term x = wide.Convert({&wide, TRY(c.Operand(op, 0))}, DType::kF64);
  return c.Bind(op, wide.Convert(kFunction(x), shape.dtype()).value);
}

template <Term (*kFunction)(Term, Term)>
Status OfTwo(Converter& c, const Operation& op) {
  Shape shape = TRY(FloatShape(c, op));
  Formula narrow(c, shape);
  Formula wide(c, narrow.With(DType::kF64));
  Term x = wide.Convert({&wide, TRY(c.Operand(op, 0))}, DType::kF64);
  Term y = wide.Convert({&wide, TRY(c.Operand(op, 1))}, DType::kF64);
  return c.Bind(op, wide.Convert(kFunction(x, y), shape.dtype()).value);
}

// atan z = -i atanh(i z).
Status ConvertAtan(Converter& c, const Operation& op) {
  Shape shape = TRY(c.ResultShape(op));
  if (!IsComplex(shape.dtype())) {
    shape = TRY(FloatShape(c, op));
    Formula f(c, shape);
    Term x{&f, TRY(c.Operand(op, 0))};
    Term one = f.Convert(f.Constant(1), shape.dtype());
    return c.Bind(op, f.Apply(Op::kAtan2, {x, one}).value);
  }
  if (!shape.IsStatic()) return Unimplemented("is known for static arrays only");
  Shape part = shape;
  part.set_dtype(RealType(shape.dtype()));
  Formula f(c, part);
  Term z{&f, TRY(c.Operand(op, 0))};
  Term real = f.Apply(Op::kReal, {z}), imag = f.Apply(Op::kImag, {z});
  Term turned = f.Typed(Op::kComplex, {-imag, real}, NoAttrs{}, shape);
  Term value = f.Typed(Op::kAtanh, {turned}, UnaryMathAttrs{}, shape);
  real = f.Apply(Op::kReal, {value}), imag = f.Apply(Op::kImag, {value});
  return c.Bind(op, f.Typed(Op::kComplex, {imag, -real}, NoAttrs{}, shape).value);
}

Status ConvertConj(Converter& c, const Operation& op) {
  Shape shape = TRY(c.ResultShape(op));
  Instruction* z = TRY(c.Operand(op, 0));
  if (!IsComplex(shape.dtype())) return c.Bind(op, c.Emit(Op::kCopy, {z}, NoAttrs{}, shape));
  Shape part = shape;
  part.set_dtype(RealType(shape.dtype()));
  Formula f(c, part);
  Term real = f.Apply(Op::kReal, {{&f, z}}), imag = f.Apply(Op::kImag, {{&f, z}});
  return c.Bind(op, f.Typed(Op::kComplex, {real, -imag}, NoAttrs{}, shape).value);
}

// The operand is compared with an infinity; `kSide` is which, 0 for both.
template <int kSide>
Status ConvertIsInf(Converter& c, const Operation& op) {
  Instruction* operand = TRY(c.Operand(op, 0));
  const Shape& shape = operand->shape();
  if (!shape.IsArray() || !IsFloat(shape.dtype()) || !shape.IsStatic()) {
    return Unimplemented("is known for static arrays of floating point only");
  }
  Formula f(c, shape);
  Term x{&f, operand};
  Term limit = f.Convert(f.Constant(kSide < 0 ? -kInfinity : kInfinity), shape.dtype());
  return c.Bind(op, ((kSide == 0 ? Abs(x) : x) == limit).value);
}

// The bits of a floating-point number count from zero outwards: one more or one less is the next
// one.
Status ConvertNextAfter(Converter& c, const Operation& op) {
  Shape shape = TRY(FloatShape(c, op));
  DType bits_type = DType::kInvalid;
  int width = BitWidth(shape.dtype());
  if (width == 16) bits_type = DType::kU16;
  if (width == 32) bits_type = DType::kU32;
  if (width == 64) bits_type = DType::kU64;
  if (bits_type == DType::kInvalid) return Unimplemented("is known for 16, 32 and 64 bits only");
  Formula floats(c, shape);
  Formula f(c, floats.With(bits_type));
  auto whole = [&](uint64_t n) {
    return f.Convert(f.Written(Literal::Scalar<uint64_t>(DType::kU64, n)), bits_type);
  };
  auto bits = [&](Term t) {
    return f.Typed(Op::kBitcastConvert, {t}, NoAttrs{}, f.With(bits_type));
  };
  Term from{&floats, TRY(c.Operand(op, 0))}, to{&floats, TRY(c.Operand(op, 1))};
  Term sign = whole(uint64_t{1} << (width - 1)), size = whole((uint64_t{1} << (width - 1)) - 1);
  Term one = whole(1), x = bits(from), y = bits(to);
  auto both = [&](Term a, Term b) { return f.Apply(Op::kAnd, {a, b}); };
  Term x_size = both(x, size), y_size = both(y, size);
  Term inwards = (both(x, sign) != both(y, sign)) | (y_size < x_size);
  Term moved = Select(inwards, x - one, x + one);
  Term from_zero = f.Apply(Op::kOr, {both(y, sign), one});
  moved = Select(x_size == whole(0), from_zero, moved);
  Term value = f.Typed(Op::kBitcastConvert, {moved}, NoAttrs{}, shape);
  value.formula = &floats;
  value = Select(from == to, to, value);
  return c.Bind(op, Select((from != from) | (to != to), from + to, value).value);
}

constexpr HandlerRow kSpecialRows[] = {
    {"chlo.atan", ConvertAtan},
    {"chlo.bessel_i1e", OfOne<BesselI1e>},
    {"chlo.conj", ConvertConj},
    {"chlo.digamma", OfOne<Digamma>},
    {"chlo.erf_inv", OfOne<ErfInv>},
    {"chlo.erfc", OfOne<Erfc>},
    {"chlo.is_inf", ConvertIsInf<0>},
    {"chlo.is_neg_inf", ConvertIsInf<-1>},
    {"chlo.is_pos_inf", ConvertIsInf<1>},
    {"chlo.lgamma", OfOne<Lgamma>},
    {"chlo.next_after", ConvertNextAfter},
    {"chlo.polygamma", OfTwo<Polygamma>},
    {"chlo.zeta", OfTwo<Zeta>},
};

}  // namespace

std::span<const HandlerRow> SpecialFunctionHandlers() {
  return kSpecialRows;
}

}  // namespace weft::hlo::mlir
