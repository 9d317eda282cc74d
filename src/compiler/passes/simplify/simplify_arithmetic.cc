// Rules of simplify about numbers. Floats keep every bit but those of NaNs.
#include <bit>
#include <cmath>
#include <limits>

#include "base/float_formats.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/match.h"

namespace weft::compiler {
namespace {

namespace m = hlo::m;
using hlo::Builder;
using hlo::Instruction;
using hlo::Match;
using hlo::Op;

bool IsIntegerArray(const Instruction& i) {
  return i.shape().IsArray() && IsInteger(i.shape().dtype());
}
// Floats of which each value has its negative, zeros included.
bool IsSignedFloatArray(const Instruction& i) {
  return i.shape().IsArray() && IsFloat(i.shape().dtype()) &&
         FormatOf(i.shape().dtype()).specials == FloatSpecials::kIeee;
}
// Operands and result are of one type, so that no op rounds twice.
bool HasOneType(const Instruction& i) {
  for (const Instruction* operand : i.operands()) {
    if (operand->shape().dtype() != i.shape().dtype()) return false;
  }
  return true;
}

Result<Instruction*> ConstantLike(Builder& b, const Shape& shape, int64_t value) {
  Literal literal{Shape::Scalar(shape.dtype())};
  literal.SetInt(0, value);
  return FillWith(b, b.Constant(std::move(literal)), shape);
}

// The exponent of a power of two, positive or negative; nullopt: it is none.
std::optional<int64_t> PowerOfTwo(double value) {
  int exponent = 0;
  if (!std::isfinite(value) || std::fabs(std::frexp(value, &exponent)) != 0.5) return std::nullopt;
  return exponent - 1;
}

// 1 / value is a normal number of the type, exactly.
bool HasExactReciprocal(DType dtype, double value) {
  FloatFormat format = FormatOf(dtype);
  std::optional<int64_t> exponent = PowerOfTwo(value);
  if (!exponent || format.specials != FloatSpecials::kIeee) return false;
  return *exponent < format.bias && *exponent > -format.bias;
}

// a + -0 = a;  a + -b = a - b;  -a + b = b - a;  (x + c) + d = x + (c + d) for integers
Result<Instruction*> SimplifyAdd(Instruction& i, Builder& b) {
  Instruction *x, *y;
  bool numbers = IsIntegerArray(i) || IsSignedFloatArray(i);
  if (!numbers || !HasOneType(i)) return nullptr;
  if (IsSignedFloatArray(i)) {
    const Literal* zero = SplatValue(*i.operand(1));
    if (zero != nullptr && zero->GetDouble(0) == 0 && std::signbit(zero->GetDouble(0))) {
      return i.operand(0);
    }
  }
  if (Match(i.operand(1), m::Negate(m::Op(&y)))) return b.Add(Op::kSubtract, {i.operand(0), y});
  if (Match(i.operand(0), m::Negate(m::Op(&x)))) return b.Add(Op::kSubtract, {i.operand(1), x});
  return nullptr;
}

// a - 0 = a;  a - -b = a + b;  x - x = 0 for integers;  x - c = x + -c for integers
Result<Instruction*> SimplifySubtract(Instruction& i, Builder& b) {
  Instruction* y;
  bool numbers = IsIntegerArray(i) || IsSignedFloatArray(i);
  if (!numbers || !HasOneType(i)) return nullptr;
  const Literal* c = SplatValue(*i.operand(1));
  if (IsSignedFloatArray(i)) {
    if (c != nullptr && c->GetDouble(0) == 0 && !std::signbit(c->GetDouble(0))) {
      return i.operand(0);
    }
  }
  if (Match(i.operand(1), m::Negate(m::Op(&y)))) return b.Add(Op::kAdd, {i.operand(0), y});
  if (!IsIntegerArray(i) || !IsStaticArray(i)) return nullptr;
  if (i.operand(0) == i.operand(1)) return ConstantLike(b, i.shape(), 0);
  if (c != nullptr && SplatValue(*i.operand(0)) == nullptr) {
    int64_t negated = static_cast<int64_t>(-static_cast<uint64_t>(c->GetInt(0)));
    return b.Add(Op::kAdd, {i.operand(0), TRY(ConstantLike(b, i.shape(), negated))});
  }
  return nullptr;
}

// -a * -b = a * b;  a * -1 = -a
Result<Instruction*> SimplifyMultiply(Instruction& i, Builder& b) {
  Instruction *x, *y;
  bool numbers = IsIntegerArray(i) || IsSignedFloatArray(i);
  if (!numbers || !HasOneType(i)) return nullptr;
  if (Match(&i, m::Multiply(m::Negate(m::Op(&x)), m::Negate(m::Op(&y))))) {
    return b.Add(Op::kMultiply, {x, y});
  }
  const Literal* c = SplatValue(*i.operand(1));
  if (c == nullptr || IsUnsigned(i.shape().dtype()) || c->GetDouble(0) != -1) return nullptr;
  return b.Add(Op::kNegate, {i.operand(0)});
}

// (x + c) + d = x + (c + d), (x * c) * d = x * (c * d): integers wrap, so any order is right.
Result<Instruction*> MergeIntegerConstants(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  if (!IsIntegerArray(i) || inner.op() != i.op() || !HasOneType(i)) return nullptr;
  if (!IsStaticArray(i) || !HasOneType(inner)) return nullptr;
  const Literal *c = SplatValue(*inner.operand(1)), *d = SplatValue(*i.operand(1));
  if (c == nullptr || d == nullptr || SplatValue(*inner.operand(0)) != nullptr) return nullptr;
  uint64_t x = static_cast<uint64_t>(c->GetInt(0)), y = static_cast<uint64_t>(d->GetInt(0));
  int64_t both = static_cast<int64_t>(i.op() == Op::kAdd ? x + y : x * y);
  return b.Add(i.op(), {inner.operand(0), TRY(ConstantLike(b, i.shape(), both))});
}

// -a / -b = a / b for floats;  a / 2^k = a * 2^-k for floats;  a / 2^k = a >> k for unsigned
Result<Instruction*> SimplifyDivide(Instruction& i, Builder& b) {
  Instruction *x, *y;
  if (!HasOneType(i) || !IsStaticArray(i)) return nullptr;
  DType dtype = i.shape().dtype();
  const Literal* c = SplatValue(*i.operand(1));
  if (IsSignedFloatArray(i)) {
    if (Match(&i, m::Divide(m::Negate(m::Op(&x)), m::Negate(m::Op(&y))))) {
      return b.Add(Op::kDivide, {x, y});
    }
    if (c == nullptr || !HasExactReciprocal(dtype, c->GetDouble(0))) return nullptr;
    Instruction* reciprocal = b.ScalarConstant(dtype, 1 / c->GetDouble(0));
    return b.Add(Op::kMultiply, {i.operand(0), TRY(FillWith(b, reciprocal, i.shape()))});
  }
  if (!IsUnsigned(dtype) || c == nullptr) return nullptr;
  uint64_t divisor = static_cast<uint64_t>(c->GetInt(0));
  if (!std::has_single_bit(divisor) || divisor == 1) return nullptr;
  Instruction* amount = TRY(ConstantLike(b, i.shape(), std::countr_zero(divisor)));
  return b.Add(Op::kShiftRightLogical, {i.operand(0), amount});
}

// a % 2^k = a & (2^k - 1) for unsigned
Result<Instruction*> SimplifyRemainder(Instruction& i, Builder& b) {
  const Literal* c = SplatValue(*i.operand(1));
  if (c == nullptr || !HasOneType(i) || !IsStaticArray(i)) return nullptr;
  if (!IsUnsigned(i.shape().dtype())) return nullptr;
  uint64_t divisor = static_cast<uint64_t>(c->GetInt(0));
  if (!std::has_single_bit(divisor)) return nullptr;
  Instruction* mask = TRY(ConstantLike(b, i.shape(), static_cast<int64_t>(divisor - 1)));
  return b.Add(Op::kAnd, {i.operand(0), mask});
}

bool IsSplatOf(const Instruction& i, int64_t value) {
  const Literal* c = SplatValue(i);
  return c != nullptr && IsInteger(c->shape().dtype()) && c->GetInt(0) == value;
}

// x is compared with the integer.
bool Compares(const Instruction& i, hlo::Direction direction, const Instruction& x, int64_t with) {
  return i.op() == Op::kCompare && i.attrs<hlo::CompareAttrs>().direction == direction &&
         i.operand(0) == &x && IsSplatOf(*i.operand(1), with);
}

// Division that rounds down, and its remainder, as they are written with division that rounds to
// zero, of signed x and a power of two c:
//   x % c is negative ? x % c + c : x % c  =  x & (c - 1)
//   x is not positive (or negative), x % c is not 0 ? x / c - 1 : x / c  =  x >> log2(c)
Result<Instruction*> SimplifyFloorDivision(Instruction& i, Builder& b) {
  Instruction *p = i.operand(0), *lower = i.operand(1), *towards_0 = i.operand(2);
  if (!IsStaticArray(i) || !Shape::SameDims(p->shape(), i.shape())) return nullptr;
  bool remains = towards_0->op() == Op::kRemainder, divides = towards_0->op() == Op::kDivide;
  if ((!remains && !divides) || !IsSigned(i.shape().dtype()) || !IsInteger(i.shape().dtype())) {
    return nullptr;
  }
  Instruction *x = towards_0->operand(0), *divisor = towards_0->operand(1);
  const Literal* c = SplatValue(*divisor);
  if (c == nullptr || c->GetInt(0) < 2 ||
      !std::has_single_bit(static_cast<uint64_t>(c->GetInt(0)))) {
    return nullptr;
  }
  int64_t change = remains ? c->GetInt(0) : -1;
  if (lower->op() != Op::kAdd || lower->operand(0) != towards_0 ||
      !IsSplatOf(*lower->operand(1), change)) {
    return nullptr;
  }
  auto is_remainder = [&](const Instruction& r) {
    return r.op() == Op::kRemainder && r.operand(0) == x && IsSplatOf(*r.operand(1), c->GetInt(0));
  };
  auto is_rest = [&](const Instruction& q) {  // x % c is not 0
    return q.operand_count() == 2 && is_remainder(*q.operand(0)) &&
           Compares(q, hlo::Direction::kNe, *q.operand(0), 0);
  };
  auto is_low = [&](const Instruction& q) {
    if (remains) return Compares(q, hlo::Direction::kLt, *towards_0, 0);
    if (Compares(q, hlo::Direction::kLt, *x, 0)) return true;
    return q.operand_count() == 2 && q.operand(0)->op() == Op::kSign &&
           q.operand(0)->operand(0) == x && Compares(q, hlo::Direction::kNe, *q.operand(0), 1);
  };
  bool rounds_down = p->op() == Op::kAnd && ((is_low(*p->operand(0)) && is_rest(*p->operand(1))) ||
                                             (is_low(*p->operand(1)) && is_rest(*p->operand(0))));
  if (!rounds_down && !(remains && is_low(*p))) return nullptr;
  if (remains) return b.Add(Op::kAnd, {x, TRY(ConstantLike(b, i.shape(), c->GetInt(0) - 1))});
  int amount = std::countr_zero(static_cast<uint64_t>(c->GetInt(0)));
  return b.Add(Op::kShiftRightArithmetic, {x, TRY(ConstantLike(b, i.shape(), amount))});
}

// x^0 = 1;  x^1 = x;  x^2 = x * x;  x^-1 = 1 / x (floats). Each is rounded once, as the power is.
// x^0.5 is not sqrt(x): they differ at -0 and -infinity.
// x^(n + 1/2) = x^n sqrt(x), and 1/x in the place of x for negative exponents. Only a finite
// negative x gives NaN: zeros and infinities lose their signs first.
Result<Instruction*> HalfIntegerPower(Instruction* x, double exponent, Builder& b) {
  const Shape& shape = x->shape();
  auto splat = [&](double value) {
    return FillWith(b, b.ScalarConstant(shape.dtype(), value), shape);
  };
  Instruction* below = TRY(b.Compare(x, TRY(splat(0)), hlo::Direction::kLt));
  Instruction* least = TRY(splat(-std::numeric_limits<double>::infinity()));
  Instruction* finite = TRY(b.Compare(x, least, hlo::Direction::kGt));
  Instruction* keep = TRY(b.Add(Op::kAnd, {below, finite}));
  Instruction* base = TRY(b.Add(Op::kSelect, {keep, x, TRY(b.Add(Op::kAbs, {x}))}));
  if (exponent < -0.5) base = TRY(b.Add(Op::kDivide, {TRY(splat(1)), base}));
  Instruction* result = TRY(b.Add(Op::kSqrt, {base}));
  if (exponent == -0.5) return b.Add(Op::kDivide, {TRY(splat(1)), result});
  for (double n = std::fabs(exponent); n > 1; --n) {
    result = TRY(b.Add(Op::kMultiply, {result, base}));
  }
  return result;
}

Result<Instruction*> SimplifyPower(Instruction& i, Builder& b) {
  const Literal* c = SplatValue(*i.operand(1));
  Instruction* x = i.operand(0);
  if (c == nullptr || !HasOneType(i) || !IsStaticArray(i)) return nullptr;
  DType dtype = i.shape().dtype();
  bool ieee = IsFloat(dtype) && FormatOf(dtype).specials == FloatSpecials::kIeee;
  if ((!ieee && !IsInteger(dtype)) || dtype == DType::kS1) return nullptr;  // s1 has no 1
  double exponent = c->GetDouble(0);
  if (exponent == 0) return FillWith(b, b.ScalarConstant(dtype, 1), i.shape());
  if (exponent == 1) return x;
  if (exponent == 2) return b.Add(Op::kMultiply, {x, x});
  if (exponent == -1 && ieee) {
    return b.Add(Op::kDivide, {TRY(FillWith(b, b.ScalarConstant(dtype, 1), i.shape())), x});
  }
  double whole;
  if ((dtype == DType::kF32 || dtype == DType::kF64) && std::fabs(exponent) < 3 &&
      std::fabs(std::modf(exponent, &whole)) == 0.5) {
    return HalfIntegerPower(x, exponent, b);
  }
  return nullptr;
}

// |-x| = |x|
Result<Instruction*> SimplifyAbs(Instruction& i, Builder& b) {
  Instruction* x;
  if (!Match(i.operand(0), m::Negate(m::Op(&x))) || IsComplex(x->shape().dtype()) ||
      x->shape().dtype() == DType::kF8E8M0FNU) {
    return nullptr;
  }
  return b.Add(Op::kAbs, {x});
}

// -(a - b) = b - a for integers
Result<Instruction*> SimplifyNegate(Instruction& i, Builder& b) {
  Instruction *x, *y;
  if (!IsIntegerArray(i)) return nullptr;
  if (!Match(i.operand(0), m::Subtract(m::Op(&x), m::Op(&y)).OneUser())) return nullptr;
  return b.Add(Op::kSubtract, {y, x});
}

// The least and the greatest integer of a type.
std::pair<int64_t, int64_t> IntegerRange(DType dtype) {
  int bits = BitWidth(dtype);
  uint64_t ones = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (IsUnsigned(dtype)) return {0, static_cast<int64_t>(ones)};
  int64_t greatest = static_cast<int64_t>(ones >> 1);
  return {-greatest - 1, greatest};
}

// max(x, least) = x;  min(x, greatest) = x, infinities for floats
Instruction* WithoutBound(Instruction& i) {
  const Literal* c = SplatValue(*i.operand(1));
  if (c == nullptr || !HasOneType(i)) return nullptr;
  bool is_max = i.op() == Op::kMaximum;
  bool unbounded = false;
  if (IsIntegerArray(i)) {
    auto [least, greatest] = IntegerRange(i.shape().dtype());
    unbounded = c->GetInt(0) == (is_max ? least : greatest);
  } else if (IsSignedFloatArray(i)) {
    double value = c->GetDouble(0);
    unbounded = std::isinf(value) && std::signbit(value) == is_max;
  }
  return unbounded ? i.operand(0) : nullptr;
}

// min(max(x, low), high) = clamp(low, x, high) for integers
Result<Instruction*> SimplifyMinimum(Instruction& i, Builder& b) {
  if (Instruction* x = WithoutBound(i)) return x;
  if (!IsIntegerArray(i)) return nullptr;
  for (int64_t side = 0; side < 2; ++side) {
    Instruction* inner = i.operand(side);
    Instruction* high = i.operand(1 - side);
    if (inner->op() != Op::kMaximum || !IsReadOnce(*inner)) continue;
    if (SplatValue(*high) == nullptr || SplatValue(*inner->operand(1)) == nullptr) continue;
    return b.Add(Op::kClamp, {inner->operand(1), inner->operand(0), high});
  }
  return nullptr;
}

// clamp(least, x, high) = min(x, high);  clamp(low, x, greatest) = max(x, low), for integers
Result<Instruction*> SimplifyClamp(Instruction& i, Builder& b) {
  if (!IsIntegerArray(i) || !IsStaticArray(i)) return nullptr;
  auto [least, greatest] = IntegerRange(i.shape().dtype());
  const Literal *low = SplatValue(*i.operand(0)), *high = SplatValue(*i.operand(2));
  bool no_low = low != nullptr && low->GetInt(0) == least;
  bool no_high = high != nullptr && high->GetInt(0) == greatest;
  if (no_low && no_high) return i.operand(1);
  if (!no_low && !no_high) return nullptr;
  Instruction* scalar = FillScalar(*i.operand(no_low ? 2 : 0));
  Instruction* bound = i.operand(no_low ? 2 : 0);
  if (scalar != nullptr) bound = TRY(FillWith(b, scalar, i.shape()));
  return b.Add(no_low ? Op::kMinimum : Op::kMaximum, {i.operand(1), bound});
}

// constant op x = x op constant: one form for the other rules.
Result<Instruction*> ConstantToTheRight(Instruction& i, Builder& b) {
  if (!HasTrait(i.op(), hlo::kCommutative) || i.operand_count() != 2) return nullptr;
  auto is_constant = [](const Instruction& x) {
    return x.IsConstant() || SplatValue(x) != nullptr;
  };
  if (!is_constant(*i.operand(0)) || is_constant(*i.operand(1))) return nullptr;
  Shape shape = WithoutLayoutOf(i.shape());
  Instruction* swapped[] = {i.operand(1), i.operand(0)};
  return b.Add(i.op(), swapped, i.attrs(), &shape);
}

}  // namespace

Result<Instruction*> SimplifyArithmetic(Instruction& i, Builder& b) {
  if (!IsElementwise(i.op())) return nullptr;
  if (Instruction* swapped = TRY(ConstantToTheRight(i, b))) return swapped;
  switch (i.op()) {
    case Op::kAdd: {
      if (Instruction* merged = TRY(MergeIntegerConstants(i, b))) return merged;
      return SimplifyAdd(i, b);
    }
    case Op::kMultiply: {
      if (Instruction* merged = TRY(MergeIntegerConstants(i, b))) return merged;
      return SimplifyMultiply(i, b);
    }
    case Op::kSubtract: return SimplifySubtract(i, b);
    case Op::kDivide: return SimplifyDivide(i, b);
    case Op::kRemainder: return SimplifyRemainder(i, b);
    case Op::kSelect: return SimplifyFloorDivision(i, b);
    case Op::kPower: return SimplifyPower(i, b);
    case Op::kAbs: return SimplifyAbs(i, b);
    case Op::kNegate: return SimplifyNegate(i, b);
    case Op::kMaximum: return WithoutBound(i);
    case Op::kMinimum: return SimplifyMinimum(i, b);
    case Op::kClamp: return SimplifyClamp(i, b);
    case Op::kConvert: return SimplifyConvert(i, b);
    default: return nullptr;
  }
}

}  // namespace weft::compiler
