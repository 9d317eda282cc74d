// Arithmetic of the interpreter, one lane at a time.
#include <bit>
#include <cmath>
#include <limits>

#include "base/elements.h"
#include "base/extremes.h"
#include "program/interpret.h"

namespace weft::program::detail {

namespace {

uint64_t Wrap(DType dtype, uint64_t v) {
  int shift = 64 - BitWidth(dtype);
  if (IsSigned(dtype)) return static_cast<uint64_t>(static_cast<int64_t>(v << shift) >> shift);
  return (v << shift) >> shift;
}

template <class T>
T EvalFloat(Op op, T a, T b, T c) {
  switch (op) {
    case Op::kNeg: return -a;
    case Op::kAbs: return std::fabs(a);
    case Op::kSqrt: return std::sqrt(a);
    case Op::kExp2: return std::exp2(a);
    case Op::kLog2: return std::log2(a);
    case Op::kSin: return std::sin(a);
    case Op::kCos: return std::cos(a);
    case Op::kFloor: return std::floor(a);
    case Op::kCeil: return std::ceil(a);
    case Op::kTrunc: return std::trunc(a);
    case Op::kRound: return std::nearbyint(a);
    case Op::kAdd: return a + b;
    case Op::kSub: return a - b;
    case Op::kMul: return a * b;
    case Op::kDiv: return a / b;
    case Op::kRem: return std::fmod(a, b);
    case Op::kMin: return Minimum(a, b);
    case Op::kMax: return Maximum(a, b);
    case Op::kFma: return std::fma(a, b, c);
    case Op::kExp: return std::exp(a);
    case Op::kExpm1: return std::expm1(a);
    case Op::kLog: return std::log(a);
    case Op::kLog1p: return std::log1p(a);
    case Op::kTan: return std::tan(a);
    case Op::kAsin: return std::asin(a);
    case Op::kAcos: return std::acos(a);
    case Op::kSinh: return std::sinh(a);
    case Op::kCosh: return std::cosh(a);
    case Op::kTanh: return std::tanh(a);
    case Op::kAsinh: return std::asinh(a);
    case Op::kAcosh: return std::acosh(a);
    case Op::kAtanh: return std::atanh(a);
    case Op::kErf: return std::erf(a);
    case Op::kCbrt: return std::cbrt(a);
    case Op::kRsqrt: return T(1) / std::sqrt(a);
    case Op::kAtan2: return std::atan2(a, b);
    case Op::kPow: return std::pow(a, b);
    default: return a;
  }
}

uint64_t EvalDivide(Op op, DType dtype, uint64_t a, uint64_t b) {
  bool rem = op == Op::kRem;
  if (b == 0) return rem ? a : ~uint64_t{0};
  if (!IsSigned(dtype)) return rem ? a % b : a / b;
  int64_t x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  if (y == -1) return rem ? 0 : 0 - a;
  return static_cast<uint64_t>(rem ? x % y : x / y);
}

bool LessInt(DType dtype, uint64_t a, uint64_t b) {
  return IsSigned(dtype) ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
}

uint64_t EvalInt(Op op, DType dtype, uint64_t a, uint64_t b) {
  int width = BitWidth(dtype);
  uint64_t bits = width == 64 ? a : a & ((uint64_t{1} << width) - 1);
  switch (op) {
    case Op::kNeg: return 0 - a;
    case Op::kAbs: return IsSigned(dtype) && static_cast<int64_t>(a) < 0 ? 0 - a : a;
    case Op::kNot: return dtype == DType::kPred ? !a : ~a;
    case Op::kPopcount: return static_cast<uint64_t>(std::popcount(bits));
    case Op::kClz: return static_cast<uint64_t>(std::countl_zero(bits) - (64 - width));
    case Op::kAdd: return a + b;
    case Op::kSub: return a - b;
    case Op::kMul: return a * b;
    case Op::kDiv:
    case Op::kRem: return EvalDivide(op, dtype, a, b);
    case Op::kMin: return LessInt(dtype, b, a) ? b : a;
    case Op::kMax: return LessInt(dtype, a, b) ? b : a;
    case Op::kAnd: return a & b;
    case Op::kOr: return a | b;
    case Op::kXor: return a ^ b;
    case Op::kShl: return b >= static_cast<uint64_t>(width) ? 0 : a << b;
    case Op::kShr: {
      bool all = b >= static_cast<uint64_t>(width);
      if (!IsSigned(dtype)) return all ? 0 : a >> b;
      return static_cast<uint64_t>(static_cast<int64_t>(a) >> (all ? 63 : b));
    }
    default: return a;
  }
}

template <class T>
bool CompareAs(Op op, T a, T b) {
  switch (op) {
    case Op::kEq: return a == b;
    case Op::kNe: return a != b;
    case Op::kLt: return a < b;
    case Op::kLe: return a <= b;
    case Op::kGt: return a > b;
    default: return a >= b;
  }
}

uint64_t FloatToInt(double value, DType to) {
  if (std::isnan(value)) return 0;
  int width = BitWidth(to);
  double limit = std::ldexp(1.0, IsSigned(to) ? width - 1 : width);
  double low = IsSigned(to) ? -limit : 0;
  if (value >= limit) {
    return IsSigned(to) ? (uint64_t{1} << (width - 1)) - 1 : Wrap(to, ~uint64_t{0});
  }
  if (value <= low) return IsSigned(to) ? Wrap(to, uint64_t{1} << (width - 1)) : 0;
  return IsSigned(to) ? static_cast<uint64_t>(static_cast<int64_t>(value))
                      : static_cast<uint64_t>(value);
}

uint64_t CastLane(DType from, DType to, uint64_t a) {
  if (IsFloat(from)) {
    double value = std::bit_cast<double>(a);
    if (to == DType::kPred) return value != 0;
    if (IsInteger(to)) return FloatToInt(value, to);
    if (to == DType::kF32) value = static_cast<float>(value);
    return std::bit_cast<uint64_t>(value);
  }
  if (to == DType::kPred) return a != 0;
  if (IsInteger(to)) return Wrap(to, a);
  bool is_signed = IsSigned(from);
  double value;
  if (to == DType::kF32) {
    value = is_signed ? static_cast<float>(static_cast<int64_t>(a)) : static_cast<float>(a);
  } else {
    value = is_signed ? static_cast<double>(static_cast<int64_t>(a)) : static_cast<double>(a);
  }
  return std::bit_cast<uint64_t>(value);
}

uint64_t BitcastLane(DType from, DType to, uint64_t a) {
  if (from == DType::kF32) {
    a = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(a)));
  }
  if (to == DType::kF32) {
    float value = std::bit_cast<float>(static_cast<uint32_t>(a));
    return std::bit_cast<uint64_t>(static_cast<double>(value));
  }
  return to == DType::kF64 ? a : Wrap(to, a);
}

uint64_t NarrowLane(DType format, DType type, uint64_t a) {
  std::byte storage[8];
  if (type == DType::kF32) {
    float value = static_cast<float>(std::bit_cast<double>(a));
    StoreF32(format, &value, 1, storage);
    LoadF32(format, storage, 1, &value);
    return std::bit_cast<uint64_t>(static_cast<double>(value));
  }
  int64_t value = static_cast<int64_t>(a);
  StoreI64(format, &value, 1, storage);
  LoadI64(format, storage, 1, &value);
  return Wrap(type, static_cast<uint64_t>(value));
}

}  // namespace

uint64_t EvalLane(const Instr& instr, DType from, uint64_t a, uint64_t b, uint64_t c) {
  DType dtype = instr.type.dtype;
  switch (instr.op) {
    case Op::kSelect: return a ? b : c;
    case Op::kCast: return CastLane(from, dtype, a);
    case Op::kBitcast: return BitcastLane(from, dtype, a);
    case Op::kNarrow: return NarrowLane(instr.format, dtype, a);
    default: break;
  }
  double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b), z = std::bit_cast<double>(c);
  if (Info(instr.op).cls == OpClass::kCompare) {
    if (IsFloat(dtype)) return CompareAs(instr.op, x, y);
    if (!IsSigned(dtype)) return CompareAs(instr.op, a, b);
    return CompareAs(instr.op, static_cast<int64_t>(a), static_cast<int64_t>(b));
  }
  if (dtype == DType::kF64) return std::bit_cast<uint64_t>(EvalFloat(instr.op, x, y, z));
  if (dtype == DType::kF32) {
    float value =
        EvalFloat(instr.op, static_cast<float>(x), static_cast<float>(y), static_cast<float>(z));
    return std::bit_cast<uint64_t>(static_cast<double>(value));
  }
  return Wrap(dtype, EvalInt(instr.op, dtype, a, b));
}

}  // namespace weft::program::detail
