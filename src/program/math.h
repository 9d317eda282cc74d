// Elementary functions written once in kernel operations: polynomials over any number of lanes, the
// same for every backend. f32 and f64 (narrower floats are computed in f32 by the caller). Accuracy
// against the true value: f32 and f64 <= 2 ULP unless said (4 where the
// builder says that scalars are latency-bound); infinities, NaNs, zeros, subnormals and
// signs as in C's <math.h>. Right also when mul and add are contracted. Sin, Cos, Tan, Rem, complex
// Div and what uses them have an `if` as a slow path; so has Exp in lanes where subnormal
// results are slow.
#pragma once

#include "program/builder.h"

namespace weft::program::math {

// One argument; the result has the argument's type.
ValueId Exp(KernelBuilder& b, ValueId x);
ValueId ExpNotPositive(KernelBuilder& b, ValueId x);  // for x <= 0, and NaN
ValueId Exp2(KernelBuilder& b, ValueId x);
ValueId Expm1(KernelBuilder& b, ValueId x);
ValueId Log(KernelBuilder& b, ValueId x);
ValueId Log1p(KernelBuilder& b, ValueId x);
ValueId Sin(KernelBuilder& b, ValueId x);  // any finite argument, huge ones too
ValueId Cos(KernelBuilder& b, ValueId x);
ValueId Tan(KernelBuilder& b, ValueId x);
ValueId Asin(KernelBuilder& b, ValueId x);
ValueId Acos(KernelBuilder& b, ValueId x);
ValueId Sinh(KernelBuilder& b, ValueId x);
ValueId Cosh(KernelBuilder& b, ValueId x);
ValueId Tanh(KernelBuilder& b, ValueId x);
ValueId Asinh(KernelBuilder& b, ValueId x);  // this and the next two <= 3 ULP
ValueId Acosh(KernelBuilder& b, ValueId x);
ValueId Atanh(KernelBuilder& b, ValueId x);
ValueId Logistic(KernelBuilder& b, ValueId x);  // 1 / (1 + e^-x), <= 2.5 ULP
ValueId Erf(KernelBuilder& b, ValueId x);
ValueId Cbrt(KernelBuilder& b, ValueId x);
ValueId Rsqrt(KernelBuilder& b, ValueId x);

ValueId Atan2(KernelBuilder& b, ValueId y, ValueId x);
ValueId Pow(KernelBuilder& b, ValueId x, ValueId y);  // <= 4 ULP; C's special cases
ValueId Rem(KernelBuilder& b, ValueId x, ValueId y);  // fmod, exact
// Correctly rounded, unless the quotient is tiny: then within one in the last place.
ValueId DivideByNumber(KernelBuilder& b, ValueId x, double divisor);
// The same with a divisor for each lane.
ValueId DivideByNumbers(KernelBuilder& b, ValueId x, std::span<const double> divisors);
// A number for each lane.
ValueId LaneNumbers(KernelBuilder& b, std::span<const double> numbers, DType dtype);

// Complex numbers as pairs; the functions of HLO on c64 and c128 (evaluate/lanes_complex.cc has the
// reference), careful about overflow where the reference is.
struct Complex {
  ValueId re, im;
};
Complex Mul(KernelBuilder& b, Complex x, Complex y);
Complex Div(KernelBuilder& b, Complex x, Complex y);
ValueId Abs(KernelBuilder& b, Complex x);
Complex Exp(KernelBuilder& b, Complex x);
Complex Expm1(KernelBuilder& b, Complex x);
Complex Log(KernelBuilder& b, Complex x);
Complex Log1p(KernelBuilder& b, Complex x);
Complex Sqrt(KernelBuilder& b, Complex x);
Complex Rsqrt(KernelBuilder& b, Complex x);
Complex Cbrt(KernelBuilder& b, Complex x);
Complex Pow(KernelBuilder& b, Complex x, Complex y);
Complex Sin(KernelBuilder& b, Complex x);
Complex Cos(KernelBuilder& b, Complex x);
Complex Tan(KernelBuilder& b, Complex x);
Complex Tanh(KernelBuilder& b, Complex x);
Complex Sinh(KernelBuilder& b, Complex x);
Complex Cosh(KernelBuilder& b, Complex x);
Complex Asin(KernelBuilder& b, Complex x);
Complex Acos(KernelBuilder& b, Complex x);
Complex Asinh(KernelBuilder& b, Complex x);
Complex Acosh(KernelBuilder& b, Complex x);
Complex Atanh(KernelBuilder& b, Complex x);
Complex Logistic(KernelBuilder& b, Complex x);
Complex Sign(KernelBuilder& b, Complex x);

}  // namespace weft::program::math
