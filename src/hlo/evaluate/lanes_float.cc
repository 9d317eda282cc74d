// Kernels of float lanes. Elementary functions of f32 are computed in double and rounded once.
#include <bit>
#include <cmath>
#include <complex>
#include <limits>

#include "hlo/evaluate/lane_loops.h"

namespace weft::hlo {
namespace {

template <class T>
T MaxOf(T x, T y) {
  if (x > y) return x;
  if (x < y) return y;
  if (x == y) return std::signbit(x) ? y : x;
  return std::isnan(x) ? x : y;
}
template <class T>
T MinOf(T x, T y) {
  if (x < y) return x;
  if (x > y) return y;
  if (x == y) return std::signbit(x) ? x : y;
  return std::isnan(x) ? x : y;
}
template <class T>
T ClampOf(T low, T x, T high) {
  if (std::isnan(low)) return low;
  if (std::isnan(x)) return x;
  if (std::isnan(high)) return high;
  return MinOf(MaxOf(x, low), high);
}

double LogisticOf(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  double e = std::exp(x);
  return e / (1 + e);
}

// A kernel of one float function computed in double.
#define WEFT_LANES_F64(expression)     \
  Lanes1<T, T, [](T lane) {            \
    double x = lane;                   \
    return static_cast<T>(expression); \
  }>

template <class T>
LaneKernel ElementaryKernel(Op op) {
  switch (op) {
    case Op::kAcos: return WEFT_LANES_F64(std::acos(x));
    case Op::kAcosh: return WEFT_LANES_F64(std::acosh(x));
    case Op::kAsin: return WEFT_LANES_F64(std::asin(x));
    case Op::kAsinh: return WEFT_LANES_F64(std::asinh(x));
    case Op::kAtanh: return WEFT_LANES_F64(std::atanh(x));
    case Op::kCbrt: return WEFT_LANES_F64(std::cbrt(x));
    case Op::kCosine: return WEFT_LANES_F64(std::cos(x));
    case Op::kCosh: return WEFT_LANES_F64(std::cosh(x));
    case Op::kErf: return WEFT_LANES_F64(std::erf(x));
    case Op::kExponential: return WEFT_LANES_F64(std::exp(x));
    case Op::kExpm1: return WEFT_LANES_F64(std::expm1(x));
    case Op::kLog: return WEFT_LANES_F64(std::log(x));
    case Op::kLog1p: return WEFT_LANES_F64(std::log1p(x));
    case Op::kLogistic: return WEFT_LANES_F64(LogisticOf(x));
    case Op::kRsqrt: return WEFT_LANES_F64(1 / std::sqrt(x));
    case Op::kSine: return WEFT_LANES_F64(std::sin(x));
    case Op::kSinh: return WEFT_LANES_F64(std::sinh(x));
    case Op::kTan: return WEFT_LANES_F64(std::tan(x));
    case Op::kTanh: return WEFT_LANES_F64(std::tanh(x));
    default: return nullptr;
  }
}
#undef WEFT_LANES_F64

template <class T>
LaneKernel FloatKernel(Op op) {
  switch (op) {
    case Op::kAbs: return Lanes1<T, T, [](T x) { return std::fabs(x); }>;
    case Op::kCeil: return Lanes1<T, T, [](T x) { return std::ceil(x); }>;
    case Op::kFloor: return Lanes1<T, T, [](T x) { return std::floor(x); }>;
    case Op::kImag: return Lanes1<T, T, [](T) { return T(0); }>;
    case Op::kIsFinite: return Lanes1<T, uint8_t, [](T x) -> uint8_t { return std::isfinite(x); }>;
    case Op::kNegate: return Lanes1<T, T, [](T x) { return -x; }>;
    case Op::kReal: return Lanes1<T, T, [](T x) { return x; }>;
    case Op::kRoundNearestAfz: return Lanes1<T, T, [](T x) { return std::round(x); }>;
    case Op::kRoundNearestEven: return Lanes1<T, T, [](T x) { return std::nearbyint(x); }>;
    case Op::kSign:
      return Lanes1<T, T, [](T x) { return std::isnan(x) ? x : std::copysign(T(x != 0), x); }>;
    case Op::kSqrt: return Lanes1<T, T, [](T x) { return std::sqrt(x); }>;
    case Op::kAdd: return Lanes2<T, T, [](T x, T y) { return x + y; }>;
    case Op::kAtan2:
      return Lanes2<T, T,
                    [](T y, T x) { return static_cast<T>(std::atan2(double(y), double(x))); }>;
    case Op::kComplex:
      return Lanes2<T, std::complex<T>, [](T x, T y) { return std::complex<T>(x, y); }>;
    case Op::kDivide: return Lanes2<T, T, [](T x, T y) { return x / y; }>;
    case Op::kMaximum: return Lanes2<T, T, MaxOf<T>>;
    case Op::kMinimum: return Lanes2<T, T, MinOf<T>>;
    case Op::kMultiply: return Lanes2<T, T, [](T x, T y) { return x * y; }>;
    case Op::kPower:
      return Lanes2<T, T, [](T x, T y) { return static_cast<T>(std::pow(double(x), double(y))); }>;
    case Op::kRemainder: return Lanes2<T, T, [](T x, T y) { return std::fmod(x, y); }>;
    case Op::kSubtract: return Lanes2<T, T, [](T x, T y) { return x - y; }>;
    case Op::kClamp: return Lanes3<T, T, ClampOf<T>>;
    default: return ElementaryKernel<T>(op);
  }
}

// Orders floats as IEEE's totalOrder: the bits, negative ones flipped.
template <class T>
auto TotalKey(T x) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  Bits bits = std::bit_cast<Bits>(x);
  return bits ^ ((bits >> (8 * sizeof(T) - 1)) & std::numeric_limits<Bits>::max());
}

template <class T, auto key>
LaneKernel OrderKernel(Direction direction) {
  switch (direction) {
    case Direction::kEq:
      return Lanes2<T, uint8_t, [](T x, T y) -> uint8_t { return (key(x) == key(y)); }>;
    case Direction::kNe:
      return Lanes2<T, uint8_t, [](T x, T y) -> uint8_t { return (key(x) != key(y)); }>;
    case Direction::kGe:
      return Lanes2<T, uint8_t, [](T x, T y) -> uint8_t { return (key(x) >= key(y)); }>;
    case Direction::kGt:
      return Lanes2<T, uint8_t, [](T x, T y) -> uint8_t { return (key(x) > key(y)); }>;
    case Direction::kLe:
      return Lanes2<T, uint8_t, [](T x, T y) -> uint8_t { return (key(x) <= key(y)); }>;
    case Direction::kLt:
      return Lanes2<T, uint8_t, [](T x, T y) -> uint8_t { return (key(x) < key(y)); }>;
  }
  return nullptr;
}

template <class T>
LaneKernel ComplexEqualKernel(Direction direction) {
  switch (direction) {
    case Direction::kEq: return Lanes2<T, uint8_t, [](T x, T y) -> uint8_t { return x == y; }>;
    case Direction::kNe: return Lanes2<T, uint8_t, [](T x, T y) -> uint8_t { return x != y; }>;
    default: return nullptr;
  }
}

template <class T>
T SameKey(T x) {
  return x;
}
}  // namespace

LaneKernel FindFloatKernel(Op op, Lane lane) {
  return lane == Lane::kF32 ? FloatKernel<float>(op) : FloatKernel<double>(op);
}

LaneKernel FindCompareKernel(const CompareAttrs& attrs, DType dtype, Lane lane) {
  bool total = attrs.total_order();
  Direction direction = attrs.direction;
  switch (lane) {
    case Lane::kF32:
      return total ? OrderKernel<float, TotalKey<float>>(direction)
                   : OrderKernel<float, SameKey<float>>(direction);
    case Lane::kF64:
      return total ? OrderKernel<double, TotalKey<double>>(direction)
                   : OrderKernel<double, SameKey<double>>(direction);
    case Lane::kPred: return OrderKernel<uint8_t, SameKey<uint8_t>>(direction);
    case Lane::kI32:
      return dtype == DType::kU32 ? OrderKernel<uint32_t, SameKey<uint32_t>>(direction)
                                  : OrderKernel<int32_t, SameKey<int32_t>>(direction);
    case Lane::kI64:
      return dtype == DType::kU64 ? OrderKernel<uint64_t, SameKey<uint64_t>>(direction)
                                  : OrderKernel<int64_t, SameKey<int64_t>>(direction);
    case Lane::kC64: return ComplexEqualKernel<std::complex<float>>(direction);
    case Lane::kC128: return ComplexEqualKernel<std::complex<double>>(direction);
  }
  return nullptr;
}

}  // namespace weft::hlo
