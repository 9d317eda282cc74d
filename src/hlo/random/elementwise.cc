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
bool FloatFunction(Maker& maker, Scope& scope, const Value& x) {
  const Function& f = kFunctions[maker.dice.Below(std::size(kFunctions))];
  Builder b = scope.builder();
  if (f.op == Op::kAtan2) {
    Value y = maker.Like(scope, x.dtype(), x.shape().dims(), true);
    if (!x.known.exact() || !y.known.exact()) return false;
    if (!maker.HasSignedZeros(x) || !maker.HasSignedZeros(y)) return false;
    return maker.Push(scope, b.Add(f.op, {x.at, y.at}),
                      maker.Inexact(f.ulps, x.dtype(), f.magnitude));
  }
  if (maker.edges) {
    if (!x.known.exact()) return false;
    return maker.Push(scope, b.Add(f.op, {x.at}),
                      maker.Inexact(f.ulps, x.dtype(), kInfiniteMagnitude));
  }
  Value bounded = maker.Bound(scope, x, f.largest);
  if (bounded.known.magnitude > f.largest) return false;
  Known known = maker.Inexact(f.ulps, x.dtype(), f.magnitude);
  if (!bounded.known.exact()) {
    if (f.slope < 0) return false;
    known.ulps = 0;
    known.error += bounded.known.error * f.slope;
  }
  return maker.Push(scope, b.Add(f.op, {bounded.at}), known);
}

void IntegerUnary(Maker& maker, Scope& scope, const Value& x) {
  constexpr Op kOps[] = {Op::kNegate,           Op::kAbs, Op::kSign, Op::kNot, Op::kPopulationCount,
                         Op::kCountLeadingZeros};
  Op op = maker.dice.Of(kOps);
  DType t = x.dtype();
  if (IsUnsigned(t) && (op == Op::kAbs || op == Op::kSign || op == Op::kNegate)) op = Op::kNot;
  maker.Push(scope, scope.builder().Add(op, {x.at}), maker.Unknown(t));
}

void Unary(Maker& maker, Scope& scope) {
  Value x = maker.Any(scope);
  Builder b = scope.builder();
  DType t = x.dtype();
  if (t == DType::kPred) {
    maker.Push(scope, b.Add(Op::kNot, {x.at}), x.known);
    return;
  }
  if (IsInteger(t)) return IntegerUnary(maker, scope, x);
  if (!maker.IsUsable(x)) return;
  if (IsComplex(t)) {
    maker.Push(scope, b.Add(Op::kNegate, {x.at}), x.known);
    return;
  }
  if (x.known.exact() && maker.dice.Chance(5)) {
    maker.Push(scope, b.Add(Op::kIsFinite, {x.at}), maker.Unknown(DType::kPred));
    return;
  }
  if (maker.dice.Chance(45)) {
    FloatFunction(maker, scope, x);
    return;
  }
  FloatUnary(maker, scope, x);
}

void FloatUnary(Maker& maker, Scope& scope, Value x) {
  Builder b = scope.builder();
  DType t = x.dtype();
  Known same = x.known;
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
  Op op = maker.dice.Of(kOps);
  switch (op) {
    case Op::kNegate:
    case Op::kAbs: same.ulps = 0; break;
    case Op::kSqrt: {
      if (!x.known.exact()) return;
      same.whole = false;
      same.product = false;
      same.magnitude =
          std::isfinite(x.known.magnitude) ? x.known.magnitude + 1 : kInfiniteMagnitude;
      if (!maker.edges) {  // of what is not negative
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
      if (!x.known.exact() || !maker.HasSignedZeros(x)) return;
      same = maker.Inexact(4, t, kInfiniteMagnitude);  // NaN, too: not to be computed with
      break;
    }
    default:
      if (!x.known.exact()) return;
      same.magnitude += 1;
      same.whole = true;
      same.product = false;
  }
  maker.Push(scope, b.Add(op, {x.at}), same);
}

void IntegerBinary(Maker& maker, Scope& scope, const Value& a) {
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
  Op op = a.dtype() == DType::kPred ? maker.dice.Of(kPredOps) : maker.dice.Of(kOps);
  Value c = maker.Like(scope, a.dtype(), a.shape().dims(), true);
  maker.Push(scope, scope.builder().Add(op, {a.at, c.at}), maker.Unknown(a.dtype()));
}

void Binary(Maker& maker, Scope& scope) {
  Value x = maker.Any(scope);
  if (!IsFloat(x.dtype()) && !IsComplex(x.dtype())) return IntegerBinary(maker, scope, x);
  Value y = maker.Like(scope, x.dtype(), x.shape().dims(), false);
  if (!maker.IsUsable(x) || !maker.IsUsable(y)) return;
  Builder b = scope.builder();
  constexpr Op kOps[] = {Op::kAdd,     Op::kAdd,     Op::kSubtract, Op::kMultiply,  Op::kMultiply,
                         Op::kMaximum, Op::kMinimum, Op::kDivide,   Op::kRemainder, Op::kPower};
  Op op = maker.dice.Of(kOps);
  if (IsComplex(x.dtype()) && op >= Op::kAdd && op != Op::kMultiply && op != Op::kSubtract) {
    op = Op::kAdd;
  }
  bool exact = x.known.exact() && y.known.exact();
  switch (op) {
    case Op::kAdd:
    case Op::kSubtract: {
      if (maker.edges && (x.known.product || y.known.product)) return;
      maker.Push(scope, b.Add(op, {x.at, y.at}), maker.Sum(x, y));
      return;
    }
    case Op::kMultiply: {
      if (maker.edges && IsComplex(x.dtype())) return;
      maker.Push(scope, b.Add(op, {x.at, y.at}), maker.Product(x, y));
      return;
    }
    case Op::kMaximum:
    case Op::kMinimum: {
      Known known = maker.Union(x.known, y.known);
      known.ulps = 0;
      maker.Push(scope, b.Add(op, {x.at, y.at}), known);
      return;
    }
    case Op::kPower: {
      if (!exact || !maker.HasSignedZeros(x)) return;
      maker.Push(scope, b.Add(op, {x.at, y.at}), maker.Inexact(8, x.dtype(), kInfiniteMagnitude));
      return;
    }
    case Op::kDivide: {
      if (!exact || !maker.HasSignedZeros(y)) return;
      maker.Push(scope, b.Add(op, {x.at, y.at}), maker.Unknown(x.dtype()));  // by zero, too
      return;
    }
    default: {
      if (!exact) return;
      Known known = maker.Unknown(x.dtype());
      maker.Push(scope, b.Add(op, {x.at, y.at}), known);
    }
  }
}

void CompareAndSelect(Maker& maker, Scope& scope) {
  Value x = maker.Exact(scope);
  Value y = maker.Like(scope, x.dtype(), x.shape().dims(), true);
  Builder b = scope.builder();
  auto direction = static_cast<Direction>(maker.dice.Below(IsComplex(x.dtype()) ? 2 : 6));
  if (x.dtype() == DType::kF8E8M0FNU) return;
  CompareAttrs attrs{.direction = direction};
  if (IsFloat(x.dtype()) && maker.dice.Chance(15)) attrs.type = ComparisonType::kTotalOrder;
  // The sign of a NaN that an op made is not defined.
  if (attrs.total_order() &&
      !(std::isfinite(x.known.magnitude) && std::isfinite(y.known.magnitude) &&
        maker.HasSignedZeros(x) && maker.HasSignedZeros(y))) {
    attrs.type = ComparisonType::kUnset;
  }
  auto compared = b.Add(Op::kCompare, {x.at, y.at}, attrs);
  if (!maker.Push(scope, compared, maker.Unknown(DType::kPred))) return;
  if (maker.dice.Chance(25)) return;
  Value u = maker.Find(scope, [&](const Value& v) { return v.shape().dims() == x.shape().dims(); })
                .value_or(x);
  Value w = maker.Like(scope, u.dtype(), u.shape().dims(), false);
  maker.Push(scope, b.Add(Op::kSelect, {*compared, u.at, w.at}), maker.Union(u.known, w.known));
}

void Clamp(Maker& maker, Scope& scope) {
  Value x = maker.Exact(scope);
  if (IsComplex(x.dtype())) return;
  bool scalar = maker.dice.Chance(50);
  Dims dims = scalar ? Dims() : x.shape().dims();
  Value low = maker.Like(scope, x.dtype(), dims, true),
        high = maker.Like(scope, x.dtype(), dims, true);
  Known known = maker.Union(x.known, maker.Union(low.known, high.known));
  maker.Push(scope, scope.builder().Add(Op::kClamp, {low.at, x.at, high.at}), known);
}

void ConvertAny(Maker& maker, Scope& scope) {
  Value x = maker.Exact(scope);
  DType to = maker.dice.Chance(3) ? DType::kF8E8M0FNU : maker.AnyType();
  if (IsComplex(x.dtype()) && !IsComplex(to)) return;
  Known known = x.known;
  known.product &= IsFloat(to);
  if (IsInteger(to) || to == DType::kPred) known = maker.Unknown(to);
  if (to == DType::kF8E8M0FNU || x.dtype() == DType::kF8E8M0FNU) known = maker.Unknown(to);
  if (IsFloat(to) && known.magnitude > LargestExact(to)) known.whole = false;
  if (IsFloat(to) && !known.whole && std::isfinite(known.magnitude)) known.magnitude *= 2;
  maker.Push(scope, scope.builder().Convert(x.at, to), known);
}

void BitcastConvert(Maker& maker, Scope& scope) {
  Value x = maker.Exact(scope);
  if (!std::isfinite(x.known.magnitude) && (IsFloat(x.dtype()) || IsComplex(x.dtype()))) return;
  if (!maker.HasSignedZeros(x)) return;
  DType to = maker.AnyType();
  if (BitWidth(to) != BitWidth(x.dtype()) || BitWidth(to) < 8 || IsComplex(to) ||
      IsComplex(x.dtype())) {
    return;
  }
  Shape shape = x.shape();
  shape.set_dtype(to);
  Known known = maker.Unknown(to);
  maker.Push(scope,
             scope.builder().Add(Op::kBitcastConvert, std::span(&x.at, 1), NoAttrs{}, &shape),
             known);
}

void ReducePrecision(Maker& maker, Scope& scope) {
  Value x = maker.Exact(scope);
  if (!IsFloat(x.dtype()) || BitWidth(x.dtype()) < 16) return;
  ReducePrecisionAttrs attrs{.exponent_bits = maker.dice.Between(2, 8),
                             .mantissa_bits = maker.dice.Between(1, 23)};
  Known known = maker.Unknown(x.dtype());
  known.whole = false;
  Shape shape = x.shape();
  maker.Push(scope, scope.builder().Add(Op::kReducePrecision, std::span(&x.at, 1), attrs, &shape),
             known);
}

void ComplexOps(Maker& maker, Scope& scope) {
  Builder b = scope.builder();
  auto c = maker.Find(scope, [](const Value& v) { return IsComplex(v.dtype()); });
  if (c && maker.dice.Chance(60)) {
    Known part = c->known;
    part.ulps = 0;
    maker.Push(scope, b.Add(maker.dice.Chance(50) ? Op::kReal : Op::kImag, {c->at}), part);
    return;
  }
  DType t = maker.dice.Chance(70) ? DType::kF32 : DType::kF64;
  Value x = maker.Like(scope, t, Dims(maker.AnyDims(500)), true);
  Value y = maker.Like(scope, t, x.shape().dims(), true);
  Known known = maker.Union(x.known, y.known);
  known.magnitude *= 2;
  maker.Push(scope, b.Add(Op::kComplex, {x.at, y.at}), known);
}

}  // namespace weft::hlo::random
