// Kernels of complex lanes. Functions of c64 are computed in double and rounded once.
#include <cmath>
#include <complex>
#include <limits>

#include "hlo/evaluate/lane_loops.h"

namespace weft::hlo {
namespace {

using Wide = std::complex<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();

// log|1 + x + iy| needs the sum of squares without cancellation where |1 + z| is close to 1.
Wide Log1pOf(Wide z) {
  double x = z.real(), y = z.imag();
  double angle = std::atan2(y, 1 + x);
  // 1 + x is exact from -2 to -1/2.
  if (!(x > -0.5 && x < 2 && std::fabs(y) < 2)) return {std::log(Wide(1 + x, y)).real(), angle};
  // |1+z|^2 - 1 = 2x + x^2 + y^2, each product with its rounding error.
  double xx = x * x, yy = y * y;
  double xx_error = std::fma(x, x, -xx), yy_error = std::fma(y, y, -yy);
  double s = 2 * x + yy;
  double part = s - 2 * x;
  double s_error = (2 * x - (s - part)) + (yy - part);
  double total = s + xx;
  double tail = s - (total - xx) + (xx - (total - (total - xx)));
  double sum = total + (tail + s_error + xx_error + yy_error);
  return {0.5 * std::log1p(sum), angle};
}

Wide Expm1Of(Wide z) {
  double x = z.real(), y = z.imag();
  if (y == 0) return {std::expm1(x), y};
  double half = std::sin(y / 2);
  double em1 = std::expm1(x);
  double real = std::isinf(em1) ? em1 * std::cos(y) : em1 * std::cos(y) - 2 * half * half;
  return {real, (em1 + 1) * std::sin(y)};
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// sin, cos, sinh, cosh of two infinite parts have no direction, and no size either.
template <Wide (*kFunction)(const Wide&)>
Wide Directed(Wide z) {
  if (std::isinf(z.real()) && std::isinf(z.imag())) return {kNan, kNan};
  return kFunction(z);
}

// Without an angle there is no direction, and no size either.
Wide ExpComplex(Wide z) {
  if (std::isinf(z.real()) && !std::isfinite(z.imag())) return {kNan, kNan};
  return std::exp(z);
}

Wide TanComplex(Wide z) {
  if (std::isinf(z.real()) && std::isfinite(z.imag())) return {kNan, kNan};
  return std::tan(z);
}

Wide LogisticComplex(Wide z) {
  return Wide(1) / (Wide(1) + std::exp(-z));
}

Wide RsqrtOf(Wide z) {
  if (std::isinf(z.real()) || std::isinf(z.imag())) {
    return std::isnan(z.real()) || std::isnan(z.imag()) ? Wide(0, 0)
                                                        : Wide(0, std::copysign(0.0, -z.imag()));
  }
  if (z == Wide(0)) return {kInf, std::isnan(z.imag()) ? z.imag() : 0};
  return Wide(1) / std::sqrt(z);
}

Wide PowerComplex(Wide x, Wide y) {
  if (x == Wide(1) || y == Wide(0)) return Wide(1);
  if (x == Wide(0)) {
    if (y.real() > 0) return Wide(0);
    if (y.real() < 0 && y.imag() == 0) return {kInf, 0};
  }
  if (x.imag() == 0 && x.real() == kInf && y.imag() == 0) {
    return y.real() > 0 ? x : y.real() < 0 ? Wide(0) : std::pow(x, y);
  }
  return std::pow(x, y);
}

Wide Atan2Complex(Wide y, Wide x) {
  Wide i(0, 1);
  return -i * std::log((x + i * y) / std::sqrt(x * x + y * y));
}

Wide SignOf(Wide z) {
  double size = std::hypot(z.real(), z.imag());
  return size == 0 ? Wide(0) : Wide(z.real() / size, z.imag() / size);
}

#define WEFT_LANES_WIDE(expression)                                               \
  Lanes1<C, C, [](C lane) {                                                       \
    Wide z(lane.real(), lane.imag());                                             \
    Wide result = expression;                                                     \
    using Part = typename C::value_type;                                          \
    return C(static_cast<Part>(result.real()), static_cast<Part>(result.imag())); \
  }>
#define WEFT_LANES_WIDE2(expression)                                              \
  Lanes2<C, C, [](C lane_x, C lane_y) {                                           \
    Wide x(lane_x.real(), lane_x.imag()), y(lane_y.real(), lane_y.imag());        \
    Wide result = expression;                                                     \
    using Part = typename C::value_type;                                          \
    return C(static_cast<Part>(result.real()), static_cast<Part>(result.imag())); \
  }>

template <class C>
LaneKernel ComplexKernel(Op op) {
  using T = typename C::value_type;
  switch (op) {
    case Op::kAbs:
      return Lanes1<C, T, [](C z) {
        return static_cast<T>(std::hypot(double(z.real()), double(z.imag())));
      }>;
    case Op::kReal: return Lanes1<C, T, [](C z) { return z.real(); }>;
    case Op::kImag: return Lanes1<C, T, [](C z) { return z.imag(); }>;
    case Op::kNegate: return Lanes1<C, C, [](C z) { return -z; }>;
    case Op::kAcos: return WEFT_LANES_WIDE(std::acos(z));
    case Op::kAcosh: return WEFT_LANES_WIDE(std::acosh(z));
    case Op::kAsin: return WEFT_LANES_WIDE(std::asin(z));
    case Op::kAsinh: return WEFT_LANES_WIDE(std::asinh(z));
    case Op::kAtanh: return WEFT_LANES_WIDE(std::atanh(z));
    case Op::kCosine: return WEFT_LANES_WIDE(Directed<std::cos>(z));
    case Op::kCosh: return WEFT_LANES_WIDE(Directed<std::cosh>(z));
    case Op::kExponential: return WEFT_LANES_WIDE(ExpComplex(z));
    case Op::kExpm1: return WEFT_LANES_WIDE(Expm1Of(z));
    case Op::kLog: return WEFT_LANES_WIDE(std::log(z));
    case Op::kLog1p: return WEFT_LANES_WIDE(Log1pOf(z));
    case Op::kLogistic: return WEFT_LANES_WIDE(LogisticComplex(z));
    case Op::kRsqrt: return WEFT_LANES_WIDE(RsqrtOf(z));
    case Op::kSign: return WEFT_LANES_WIDE(SignOf(z));
    case Op::kSine: return WEFT_LANES_WIDE(Directed<std::sin>(z));
    case Op::kSinh: return WEFT_LANES_WIDE(Directed<std::sinh>(z));
    case Op::kSqrt: return WEFT_LANES_WIDE(std::sqrt(z));
    case Op::kTan: return WEFT_LANES_WIDE(TanComplex(z));
    case Op::kTanh: return WEFT_LANES_WIDE(std::tanh(z));
    case Op::kAdd: return Lanes2<C, C, [](C x, C y) { return x + y; }>;
    case Op::kSubtract: return Lanes2<C, C, [](C x, C y) { return x - y; }>;
    case Op::kMultiply:
      return Lanes2<C, C, [](C x, C y) {
        return C(x.real() * y.real() - x.imag() * y.imag(),
                 x.real() * y.imag() + x.imag() * y.real());
      }>;
    case Op::kDivide: return WEFT_LANES_WIDE2(x / y);
    case Op::kPower: return WEFT_LANES_WIDE2(PowerComplex(x, y));
    case Op::kAtan2: return WEFT_LANES_WIDE2(Atan2Complex(x, y));
    default: return nullptr;
  }
}
#undef WEFT_LANES_WIDE
#undef WEFT_LANES_WIDE2

}  // namespace

LaneKernel FindComplexKernel(Op op, Lane lane) {
  return lane == Lane::kC64 ? ComplexKernel<std::complex<float>>(op)
                            : ComplexKernel<std::complex<double>>(op);
}

}  // namespace weft::hlo
