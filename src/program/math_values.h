// Formulas over kernel values: operators, constants of the operand's type, polynomials. For the
// math_*.cc files only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "program/builder.h"

namespace weft::program::math::detail {

// A formula, so that code reads as one. Instructions are appended when id() asks for the value:
// operands from left to right, each once, so that the order does not depend on the compiler that
// built this, and what is not used is not there. What is needed both inside and after an `if` must
// have been asked for before it. Numbers become constants of the other operand's type.
class V {
 public:
  // Not inlined, as Apply: there are thousands of them, and code that shares nothing takes long to
  // compile.
  [[gnu::noinline]] V(KernelBuilder* b, ValueId id);
  [[gnu::noinline]] V(Type type, Op op, std::initializer_list<V> args);
  [[gnu::noinline]] V(const V&);
  [[gnu::noinline]] V(V&&) noexcept;
  [[gnu::noinline]] V& operator=(const V&);
  [[gnu::noinline]] V& operator=(V&&) noexcept;
  [[gnu::noinline]] ~V();

  ValueId id() const;
  Type type() const { return node_->type; }
  bool wide() const { return type().dtype == DType::kF64; }
  V Of(ValueId other) const { return {b, other}; }
  [[gnu::noinline]] V Const(double value) const;
  [[gnu::noinline]] V Int(int64_t value) const;
  // The first in f32, the second in f64.
  V Pick(double f32, double f64) const { return Const(wide() ? f64 : f32); }

  KernelBuilder* b;

 private:
  struct Node {
    Type type;
    Op op = Op::kAdd;
    std::vector<V> args;
    ValueId id = -1;  // once there is an instruction
  };
  std::shared_ptr<Node> node_;
};

[[gnu::noinline]] inline V Apply(Op op, const V& a) {
  return V(a.type(), op, {a});
}
[[gnu::noinline]] inline V Apply(Op op, const V& a, const V& b) {
  bool compares = Info(op).cls == OpClass::kCompare;
  return V(compares ? Type{DType::kPred, a.type().lanes} : a.type(), op, {a, b});
}
#define WEFT_MATH_OPERATOR(symbol, op)               \
  inline V operator symbol(const V& a, const V& b) { \
    return Apply(Op::op, a, b);                      \
  }                                                  \
  inline V operator symbol(const V& a, double b) {   \
    return Apply(Op::op, a, a.Const(b));             \
  }                                                  \
  inline V operator symbol(double a, const V& b) {   \
    return Apply(Op::op, b.Const(a), b);             \
  }
WEFT_MATH_OPERATOR(+, kAdd)
WEFT_MATH_OPERATOR(-, kSub)
WEFT_MATH_OPERATOR(*, kMul)
WEFT_MATH_OPERATOR(/, kDiv)
WEFT_MATH_OPERATOR(<, kLt)
WEFT_MATH_OPERATOR(<=, kLe)
WEFT_MATH_OPERATOR(>, kGt)
WEFT_MATH_OPERATOR(>=, kGe)
WEFT_MATH_OPERATOR(==, kEq)
WEFT_MATH_OPERATOR(!=, kNe)
#undef WEFT_MATH_OPERATOR
inline V operator-(const V& a) {
  return Apply(Op::kNeg, a);
}
inline V operator!(const V& a) {
  return Apply(Op::kNot, a);
}
inline V operator&(const V& a, const V& b) {
  return Apply(Op::kAnd, a, b);
}
inline V operator|(const V& a, const V& b) {
  return Apply(Op::kOr, a, b);
}
inline V operator^(const V& a, const V& b) {
  return Apply(Op::kXor, a, b);
}
inline V operator<<(const V& a, int64_t n) {
  return Apply(Op::kShl, a, a.Int(n));
}
inline V operator>>(const V& a, int64_t n) {
  return Apply(Op::kShr, a, a.Int(n));
}
[[gnu::noinline]] inline V Fma(const V& a, const V& b, const V& c) {
  return V(a.type(), Op::kFma, {a, b, c});
}
inline V Fma(const V& a, double b, const V& c) {
  return Fma(a, a.Const(b), c);
}
inline V Fma(const V& a, const V& b, double c) {
  return Fma(a, b, a.Const(c));
}
inline V Fma(const V& a, double b, double c) {
  return Fma(a, a.Const(b), a.Const(c));
}
[[gnu::noinline]] inline V Select(const V& p, const V& a, const V& b) {
  return V(a.type(), Op::kSelect, {p, a, b});
}
inline V Select(const V& p, const V& a, double b) {
  return Select(p, a, a.Const(b));
}
inline V Select(const V& p, double a, const V& b) {
  return Select(p, b.Const(a), b);
}
inline V Min(const V& a, double b) {
  return Apply(Op::kMin, a, a.Const(b));
}
inline V Max(const V& a, double b) {
  return Apply(Op::kMax, a, a.Const(b));
}
inline V Abs(const V& a) {
  return Apply(Op::kAbs, a);
}
inline V Sqrt(const V& a) {
  return Apply(Op::kSqrt, a);
}
inline V Round(const V& a) {
  return Apply(Op::kRound, a);
}
inline V Cast(const V& a, DType to) {
  return a.type().dtype == to ? a : V({to, a.type().lanes}, Op::kCast, {a});
}

// The bits of a float as a signed integer of the same width, and back.
inline V Bits(V a) {
  return V({a.wide() ? DType::kS64 : DType::kS32, a.type().lanes}, Op::kBitcast, {a});
}
inline V FromBits(V a) {
  bool wide = a.type().dtype == DType::kS64;
  return V({wide ? DType::kF64 : DType::kF32, a.type().lanes}, Op::kBitcast, {a});
}
inline int MantissaBits(V a) {
  return a.wide() ? 52 : 23;
}
inline V SignBit(V bits) {  // of the integer's type
  bool wide = bits.type().dtype == DType::kS64;
  return bits.Int(wide ? INT64_MIN : INT32_MIN);
}
// The sign of `sign` put on a magnitude whose sign bit is clear.
V WithSign(V magnitude, V sign);

// c[0] + c[1] x + ... by Estrin's scheme: a chain of about log2(n) steps, few extra products.
V Poly(V x, std::span<const double> c);
V Poly(V x, V square, std::span<const double> c);  // x^2 is there already
// The coefficients for the type of x.
inline V Poly(V x, std::span<const double> f32, std::span<const double> f64) {
  return Poly(x, x.wide() ? f64 : f32);
}

// base + factor * (c[0] + c[1] x + ...): the last step of the polynomial and the sum are one.
V PolySum(V base, V factor, V x, V square, std::span<const double> c);
// Whether x is a scalar that is latency-bound (KernelBuilder::SetLatencyBound).
inline bool IsLatencyBound(V x) {
  return x.b->latency_bound() && x.type().lanes == 1;
}
// The first value, or the second on an unlikely path, which is branched to.
template <class Other>
V Unless(V unlikely, V value, const Other& other) {
  KernelBuilder& b = *value.b;
  value.id();
  b.BeginIf(b.Any(unlikely.id()), Branch::kUnlikely);
  b.BeginElse(std::vector{other().id()});
  return value.Of(b.End(std::vector{value.id()})[0]);
}

// An unevaluated sum, low much smaller than high.
struct Pair {
  V high, low;
};
// a + b exactly, for any a and b; also when the sum is contracted with a product that made b.
Pair TwoSum(V a, V b);
// The same where |a| >= |b|, or a is 0.
Pair FastTwoSum(V a, V b);

// e^x = 2^n * (1 + m): n is the low bits of `exponent` less the bias asked for, m = e^r - 1 with
// |r| <= ln 2 / 2. x must be in the range where n + bias is an exponent.
struct ExpParts {
  V exponent, m;
};
ExpParts SplitExp(V x, int bias);
// 2^k from an exponent k + bias (127 or 1023) in the low bits of an integer.
V PowerOfTwo(V exponent);
// 2^n * v with one rounding; exponent holds n + 254 (n + 2046), |n| < 250 (2000).
V Scale(V v, V exponent);
V Scale(V exponent);  // 2^n
// e^x for x within the range where the result is finite and then some: [-176, 89], [-1418, 710].
V ExpInRange(V x);
// 2^(high + low) in f64 for high in [-2046, 1100], |low| much smaller.
V Exp2Split(V high, V low);
// 2^x times a factor in f64, |x| <= 1000, with the precision of f32.
V Exp2ForF32(V x, V factor);
// 2^n and 2^n r for 2^(n + r), the r of high + low, likewise.
V Exp2SplitLowLatency(V high, V low);

// x = 2^e m with m in [1/sqrt 2, sqrt 2), for positive finite x.
struct Exponent {
  V e, m;
};
Exponent SplitExponent(V x, bool has_subnormals = true);
// log(1 + f) for 1 + f in [1/sqrt 2, sqrt 2].
V LogOnePlus(V f);
// Natural logarithm of a value that is positive and finite (subnormals included).
V LogPositive(V x);
V Log1pOf(V x);

// x = n pi/2 + r with |r| <= pi/4, for x >= 0. n is s32 or s64, of which the low two bits count.
// With `low`: what r lacks.
struct Quadrant {
  V n, r, low;
};
Quadrant ReduceTrig(V x, bool with_low);
V SinPoly(V r), CosPoly(V r);

}  // namespace weft::program::math::detail
