// Random element-by-element ops.
#include <algorithm>
#include <cmath>
#include <limits>

#include "hlo/random/maker.h"

namespace weft::hlo::random {
namespace {

constexpr double kInfiniteMagnitude = std::numeric_limits<double>::infinity();

struct Function {
  Op op;
  double ulps;
  double largest;    // operands of at most this magnitude
  double slope;      // of the function there
  double magnitude;  // of the result
};
constexpr Function kFunctions[] = {
    {Op::kExponential, 4, 4, 55, 55}, {Op::kExpm1, 4, 4, 55, 55},  {Op::kSine, 4, 1e5, 1, 1},
    {Op::kCosine, 4, 1e5, 1, 1},      {Op::kTanh, 4, 1e5, 1, 1},   {Op::kLogistic, 4, 1e5, 1, 1},
    {Op::kErf, 4, 1e5, 1.2, 1},       {Op::kCbrt, 4, 1e5, -1, 50}, {Op::kSinh, 4, 4, 28, 28},
    {Op::kCosh, 4, 4, 28, 28},        {Op::kAtan2, 4, 1e5, -1, 4}, {Op::kTan, 4, 1, 4, 2},
    {Op::kAsinh, 4, 1e5, 1, 13},
};

}  // namespace

// Functions that are not correctly rounded.
bool Maker::FloatFunction(Scope& scope, const Value& x) {
  const Function& f = kFunctions[dice_.Below(std::size(kFunctions))];
  Builder b = scope.builder();
  if (f.op == Op::kAtan2) {
    Value y = Like(scope, x.dtype(), x.shape().dims(), true);
    if (!x.known.exact() || !y.known.exact()) return false;
    if (!HasSignedZeros(x) || !HasSignedZeros(y)) return false;
    return Push(scope, b.Add(f.op, {x.at, y.at}), Inexact(f.ulps, x.dtype(), f.magnitude));
  }
  if (edges_) {
    if (!x.known.exact()) return false;
    return Push(scope, b.Add(f.op, {x.at}), Inexact(f.ulps, x.dtype(), kInfiniteMagnitude));
  }
  Value bounded = Bound(scope, x, f.largest);
  if (bounded.known.magnitude > f.largest) return false;
  Known known = Inexact(f.ulps, x.dtype(), f.magnitude);
  if (!bounded.known.exact()) {
    if (f.slope < 0) return false;
    known.ulps = 0;
    known.error += bounded.known.error * f.slope;
  }
  return Push(scope, b.Add(f.op, {bounded.at}), known);
}

void Maker::Unary(Scope& scope) {
  Value x = Any(scope);
  Builder b = scope.builder();
  DType t = x.dtype();
  if (t == DType::kPred) {
    Push(scope, b.Add(Op::kNot, {x.at}), x.known);
    return;
  }
  if (IsInteger(t)) {
    constexpr Op kOps[] = {
        Op::kNegate, Op::kAbs, Op::kSign, Op::kNot, Op::kPopulationCount, Op::kCountLeadingZeros};
    Op op = dice_.Of(kOps);
    if (IsUnsigned(t) && (op == Op::kAbs || op == Op::kSign || op == Op::kNegate)) op = Op::kNot;
    Push(scope, b.Add(op, {x.at}), Unknown(t));
    return;
  }
  if (!IsUsable(x)) return;
  Known same = x.known;
  if (IsComplex(t)) {
    Push(scope, b.Add(Op::kNegate, {x.at}), same);
    return;
  }
  if (x.known.exact() && dice_.Chance(5)) {
    Push(scope, b.Add(Op::kIsFinite, {x.at}), Unknown(DType::kPred));
    return;
  }
  if (dice_.Chance(45)) {
    FloatFunction(scope, x);
    return;
  }
  constexpr Op kOps[] = {Op::kNegate,
                         Op::kAbs,
                         Op::kFloor,
                         Op::kCeil,
                         Op::kSqrt,
                         Op::kSign,
                         Op::kRoundNearestAfz,
                         Op::kRoundNearestEven,
                         Op::kRsqrt,
                         Op::kLog,
                         Op::kLog1p,
                         Op::kAcos,
                         Op::kAsin,
                         Op::kAcosh,
                         Op::kAtanh};
  Op op = dice_.Of(kOps);
  switch (op) {
    case Op::kNegate:
    case Op::kAbs: same.ulps = 0; break;
    case Op::kSqrt: {
      if (!x.known.exact()) return;
      same.whole = false;
      same.product = false;
      same.magnitude =
          std::isfinite(x.known.magnitude) ? x.known.magnitude + 1 : kInfiniteMagnitude;
      if (!edges_) {  // of what is not negative
        auto positive = b.Add(Op::kAbs, {x.at});
        if (!positive) return;
        x.at = *positive;
      }
      break;
    }
    case Op::kRsqrt:
    case Op::kLog:
    case Op::kLog1p:
    case Op::kAcos:
    case Op::kAsin:
    case Op::kAcosh:
    case Op::kAtanh: {
      if (!x.known.exact() || !HasSignedZeros(x)) return;
      same = Inexact(4, t, kInfiniteMagnitude);  // NaN, too: not to be computed with
      break;
    }
    default:
      if (!x.known.exact()) return;
      same.magnitude += 1;
      same.whole = true;
      same.product = false;
  }
  Push(scope, b.Add(op, {x.at}), same);
}

void Maker::IntegerBinary(Scope& scope, const Value& a) {
  constexpr Op kOps[] = {Op::kAdd,
                         Op::kSubtract,
                         Op::kMultiply,
                         Op::kDivide,
                         Op::kRemainder,
                         Op::kMaximum,
                         Op::kMinimum,
                         Op::kAnd,
                         Op::kOr,
                         Op::kXor,
                         Op::kShiftLeft,
                         Op::kShiftRightLogical,
                         Op::kShiftRightArithmetic,
                         Op::kMulhi,
                         Op::kPower};
  constexpr Op kPredOps[] = {Op::kAnd,     Op::kOr,  Op::kXor,     Op::kMaximum,
                             Op::kMinimum, Op::kAdd, Op::kMultiply};
  Op op = a.dtype() == DType::kPred ? dice_.Of(kPredOps) : dice_.Of(kOps);
  Value c = Like(scope, a.dtype(), a.shape().dims(), true);
  Push(scope, scope.builder().Add(op, {a.at, c.at}), Unknown(a.dtype()));
}

void Maker::Binary(Scope& scope) {
  Value x = Any(scope);
  if (!IsFloat(x.dtype()) && !IsComplex(x.dtype())) return IntegerBinary(scope, x);
  Value y = Like(scope, x.dtype(), x.shape().dims(), false);
  if (!IsUsable(x) || !IsUsable(y)) return;
  Builder b = scope.builder();
  constexpr Op kOps[] = {Op::kAdd,     Op::kAdd,     Op::kSubtract, Op::kMultiply,  Op::kMultiply,
                         Op::kMaximum, Op::kMinimum, Op::kDivide,   Op::kRemainder, Op::kPower};
  Op op = dice_.Of(kOps);
  if (IsComplex(x.dtype()) && op >= Op::kAdd && op != Op::kMultiply && op != Op::kSubtract) {
    op = Op::kAdd;
  }
  bool exact = x.known.exact() && y.known.exact();
  switch (op) {
    case Op::kAdd:
    case Op::kSubtract: {
      if (edges_ && (x.known.product || y.known.product)) return;
      Push(scope, b.Add(op, {x.at, y.at}), Sum(x, y));
      return;
    }
    case Op::kMultiply: {
      if (edges_ && IsComplex(x.dtype())) return;
      Push(scope, b.Add(op, {x.at, y.at}), Product(x, y));
      return;
    }
    case Op::kMaximum:
    case Op::kMinimum: {
      Known known = Union(x.known, y.known);
      known.ulps = 0;
      Push(scope, b.Add(op, {x.at, y.at}), known);
      return;
    }
    case Op::kPower: {
      if (!exact || !HasSignedZeros(x)) return;
      Push(scope, b.Add(op, {x.at, y.at}), Inexact(8, x.dtype(), kInfiniteMagnitude));
      return;
    }
    case Op::kDivide: {
      if (!exact || !HasSignedZeros(y)) return;
      Push(scope, b.Add(op, {x.at, y.at}), Unknown(x.dtype()));  // by zero, too
      return;
    }
    default: {
      if (!exact) return;
      Known known = Unknown(x.dtype());
      Push(scope, b.Add(op, {x.at, y.at}), known);
    }
  }
}

void Maker::CompareAndSelect(Scope& scope) {
  Value x = Exact(scope);
  Value y = Like(scope, x.dtype(), x.shape().dims(), true);
  Builder b = scope.builder();
  auto direction = static_cast<Direction>(dice_.Below(IsComplex(x.dtype()) ? 2 : 6));
  if (x.dtype() == DType::kF8E8M0FNU) return;
  CompareAttrs attrs{.direction = direction};
  if (IsFloat(x.dtype()) && dice_.Chance(15)) attrs.type = ComparisonType::kTotalOrder;
  // The sign of a NaN that an op made is not defined.
  if (attrs.total_order() &&
      !(std::isfinite(x.known.magnitude) && std::isfinite(y.known.magnitude) && HasSignedZeros(x) &&
        HasSignedZeros(y))) {
    attrs.type = ComparisonType::kUnset;
  }
  auto compared = b.Add(Op::kCompare, {x.at, y.at}, attrs);
  if (!Push(scope, compared, Unknown(DType::kPred))) return;
  if (dice_.Chance(25)) return;
  Value u =
      Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); }).value_or(x);
  Value w = Like(scope, u.dtype(), u.shape().dims(), false);
  Push(scope, b.Add(Op::kSelect, {*compared, u.at, w.at}), Union(u.known, w.known));
}

void Maker::Clamp(Scope& scope) {
  Value x = Exact(scope);
  if (IsComplex(x.dtype())) return;
  bool scalar = dice_.Chance(50);
  Dims dims = scalar ? Dims() : x.shape().dims();
  Value low = Like(scope, x.dtype(), dims, true), high = Like(scope, x.dtype(), dims, true);
  Known known = Union(x.known, Union(low.known, high.known));
  Push(scope, scope.builder().Add(Op::kClamp, {low.at, x.at, high.at}), known);
}

void Maker::ConvertAny(Scope& scope) {
  Value x = Exact(scope);
  DType to = dice_.Chance(3) ? DType::kF8E8M0FNU : AnyType();
  if (IsComplex(x.dtype()) && !IsComplex(to)) return;
  Known known = x.known;
  known.product &= IsFloat(to);
  if (IsInteger(to) || to == DType::kPred) known = Unknown(to);
  if (to == DType::kF8E8M0FNU || x.dtype() == DType::kF8E8M0FNU) known = Unknown(to);
  if (IsFloat(to) && known.magnitude > LargestExact(to)) known.whole = false;
  if (IsFloat(to) && !known.whole && std::isfinite(known.magnitude)) known.magnitude *= 2;
  Push(scope, scope.builder().Convert(x.at, to), known);
}

void Maker::BitcastConvert(Scope& scope) {
  Value x = Exact(scope);
  if (!std::isfinite(x.known.magnitude) && (IsFloat(x.dtype()) || IsComplex(x.dtype()))) return;
  if (!HasSignedZeros(x)) return;
  DType to = AnyType();
  if (BitWidth(to) != BitWidth(x.dtype()) || BitWidth(to) < 8 || IsComplex(to) ||
      IsComplex(x.dtype())) {
    return;
  }
  Shape shape = x.shape();
  shape.set_dtype(to);
  Known known = Unknown(to);
  Push(scope, scope.builder().Add(Op::kBitcastConvert, std::span(&x.at, 1), NoAttrs{}, &shape),
       known);
}

void Maker::ReducePrecision(Scope& scope) {
  Value x = Exact(scope);
  if (!IsFloat(x.dtype()) || BitWidth(x.dtype()) < 16) return;
  ReducePrecisionAttrs attrs{.exponent_bits = dice_.Between(2, 8),
                             .mantissa_bits = dice_.Between(1, 23)};
  Known known = Unknown(x.dtype());
  known.whole = false;
  Shape shape = x.shape();
  Push(scope, scope.builder().Add(Op::kReducePrecision, std::span(&x.at, 1), attrs, &shape), known);
}

void Maker::ComplexOps(Scope& scope) {
  Builder b = scope.builder();
  auto c = Find(scope, [](const Value& v) { return IsComplex(v.dtype()); });
  if (c && dice_.Chance(60)) {
    Known part = c->known;
    part.ulps = 0;
    Push(scope, b.Add(dice_.Chance(50) ? Op::kReal : Op::kImag, {c->at}), part);
    return;
  }
  DType t = dice_.Chance(70) ? DType::kF32 : DType::kF64;
  Value x = Like(scope, t, Dims(AnyDims(500)), true);
  Value y = Like(scope, t, x.shape().dims(), true);
  Known known = Union(x.known, y.known);
  known.magnitude *= 2;
  Push(scope, b.Add(Op::kComplex, {x.at, y.at}), known);
}

}  // namespace weft::hlo::random
