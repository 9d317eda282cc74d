// Inverses of the trigonometric and hyperbolic functions.
#include <limits>

#include "program/math.h"
#include "program/math_values.h"

namespace weft::program::math {

using namespace detail;  // NOLINT

namespace {

// (asin s - s) / s^3 in z = s^2 on [0, 0.25], the error times z: 2^-27.6, 2^-55.9.
constexpr double kAsinF32[] = {0x1.5555cap-3, 0x1.33016ap-4, 0x1.748a28p-5, 0x1.8bb598p-6,
                               0x1.59cc0cp-5};
constexpr double kAsinF64[] = {0x1.5555555555387p-3, 0x1.333333336f87ep-4,  0x1.6db6db41d4436p-5,
                               0x1.f1c72c6d2902ap-6, 0x1.6e89ef7e0bdddp-6,  0x1.1c6c27735c86ep-6,
                               0x1.c6f88470ebc2fp-7, 0x1.8ee4750678132p-7,  0x1.aab5816e48a27p-8,
                               0x1.40b0898a50416p-6, -0x1.0af29d6a2aecdp-6, 0x1.05cd9010d2189p-5};
// (atan t - t) / t^3 in z = t^2 on [0, 1], the error times z: 2^-26.0, 2^-57.7.
constexpr double kAtanF32[] = {-0x1.5554e6p-2, 0x1.997aeap-3, -0x1.231bcap-3, 0x1.b56bc6p-4,
                               -0x1.368636p-4, 0x1.64d858p-5, -0x1.0fbb4cp-6, 0x1.8603a4p-9};
constexpr double kAtanF64[] = {
    -0x1.555555555552ap-2, 0x1.9999999995aebp-3,  -0x1.24924923923f9p-3,  0x1.c71c718428a07p-4,
    -0x1.745d11fb3ef56p-4, 0x1.3b136a181500dp-4,  -0x1.110e6d988bed1p-4,  0x1.e1bcf7ed11feep-5,
    -0x1.ae644dfb23851p-5, 0x1.82eeb0f739883p-5,  -0x1.59d7f516dd675p-5,  0x1.2c981dc550bc5p-5,
    -0x1.eb492f3b2917fp-6, 0x1.69d875828816ep-6,  -0x1.ca977a2d77b1ap-7,  0x1.dc042fcc431dap-8,
    -0x1.7ea6042a7f91fp-9, 0x1.ba3c0bd7c0259p-11, -0x1.44a32aac727a4p-13, 0x1.c4a1a64906f0ep-17};

constexpr double kPi = 0x1.921fb54442d18p+1;
constexpr double kHalfPi = 0x1.921fb54442d18p+0;
constexpr double kQuietNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInverseInfinity = std::numeric_limits<double>::infinity();

// What the type's pi/2 lacks.
V HalfPiRest(V x) {
  return x.Pick(-0x1.777a5cp-25, 0x1.1a62633145c07p-54);
}

// For |x| <= 1/2: asin |x|. Above: half of acos |x| = asin(sqrt((1 - |x|) / 2)). NaN above 1.
struct AsinParts {
  V large, s, rest;  // the value is s + rest
};
AsinParts SplitAsin(V a) {
  V large = a > 0.5;
  V z = Select(large, Fma(a, -0.5, 0.5), a * a);
  V s = Select(large, Sqrt(z), a);
  return {large, s, s * z * Poly(z, kAsinF32, kAsinF64)};
}

}  // namespace

ValueId Asin(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kAsin, {id});
  V x{&b, id};
  auto [large, s, rest] = SplitAsin(Abs(x));
  V head = Fma(s, -2, kHalfPi);
  V head_error = Fma(s, -2, kHalfPi - head);
  V complement = head + (head_error + Fma(rest, -2, HalfPiRest(x)));
  return WithSign(Select(large, complement, s + rest), x).id();
}

ValueId Acos(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kAcos, {id});
  V x{&b, id};
  auto [large, s, rest] = SplitAsin(Abs(x));
  V negative = x < 0;
  V value = s + rest, twice = value + value;
  V near = Select(negative, (HalfPiRest(x) * 2 - twice) + kPi, twice);
  V signed_value = Select(negative, -value, value);
  return Select(large, near, (HalfPiRest(x) - signed_value) + kHalfPi).id();
}

ValueId Atan2(KernelBuilder& b, ValueId y_id, ValueId x_id) {
  if (b.functions()) return b.Emit(Op::kAtan2, {y_id, x_id});
  V y{&b, y_id}, x{&b, x_id};
  V above = Abs(y), along = Abs(x);
  V steep = above > along;
  V low = Apply(Op::kMin, above, along), high = Apply(Op::kMax, above, along);
  V t = low / high;
  t = Select(high == 0, 0.0, t);
  t = Select(low == kInverseInfinity, 1.0, t);  // both infinite
  V z = t * t;
  V angle = Fma(z * t, Poly(z, kAtanF32, kAtanF64), t);
  angle = Select(steep, (HalfPiRest(x) - angle) + kHalfPi, angle);
  V left = Bits(x) < Bits(x).Int(0);  // -0 too
  angle = Select(left, (HalfPiRest(x) * 2 - angle) + kPi, angle);
  return WithSign(angle, y).id();
}

// log(a + sqrt(a^2 + 1)); for large a log(a) + ln 2.
ValueId Asinh(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kAsinh, {id});
  V x{&b, id};
  V a = Abs(x);
  V large = a > x.Pick(0x1p30, 0x1p60);
  V square = a * a;
  V w = a + square / (Sqrt(square + 1) + 1);
  V result = Log1pOf(Select(large, a, w)) + Select(large, x.Const(0x1.62e42fefa39efp-1), 0.0);
  return WithSign(result, x).id();
}

ValueId Acosh(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kAcosh, {id});
  V x{&b, id};
  V large = x > x.Pick(0x1p30, 0x1p60);
  V t = x - 1;
  V w = t + Sqrt(Fma(t, t, t + t));
  V result = Log1pOf(Select(large, t, w)) + Select(large, x.Const(0x1.62e42fefa39efp-1), 0.0);
  return Select(x < 1, kQuietNan, result).id();
}

// log((1 + a) / (1 - a)) / 2.
ValueId Atanh(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kAtanh, {id});
  V x{&b, id};
  V a = Abs(x);
  return WithSign(Log1pOf((a + a) / (1 - a)) * 0.5, x).id();
}

}  // namespace weft::program::math
