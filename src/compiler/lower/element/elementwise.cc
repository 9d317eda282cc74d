// Elementwise ops on elements: floats, integers, preds, complex numbers.
#include <algorithm>
#include <cmath>

#include "base/float_formats.h"
#include "compiler/lower/element/element.h"
#include "compiler/lower/element/float_bits.h"
#include "compiler/lower/reduce.h"
#include "hlo/computation.h"
#include "program/math.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using program::Type;
using HloOp = hlo::Op;
namespace math = program::math;

// Integers of less than a byte live sign- or zero-extended in a byte; f16 and smaller in an f32.
ValueId ElementEmitter::Round(ValueId value, DType to) {
  if (IsFloat(to)) {
    return to == DType::kF32 || to == DType::kF64 ? value : b_.Narrow(value, to);
  }
  if (!IsSubByte(to)) return value;
  Type type = b_.type(value);
  ValueId shift = b_.Int(8 - BitWidth(to), type);
  return b_.Emit(Op::kShr, {b_.Emit(Op::kShl, {value, shift}), shift});
}

Element ElementEmitter::Convert(Element value, DType from, DType to) {
  if (from == to) return value;
  DType part = program::ComputeType(RealType(to));
  if (to == DType::kPred && IsComplex(from)) {
    ValueId zero = b_.Number(0, b_.type(value.re));
    ValueId re = b_.Emit(Op::kNe, {value.re, zero}), im = b_.Emit(Op::kNe, {value.im, zero});
    return {b_.Emit(Op::kOr, {re, im}), -1};
  }
  bool narrow = IsFloat(to) && to != DType::kF32 && to != DType::kF64;
  bool wide = BitWidth(RealType(from)) >= 32 && RealType(from) != DType::kF32;
  ValueId cast = narrow && wide ? ToOddF32(b_, value.re) : b_.Cast(value.re, part);
  if (IsInteger(to) && BitWidth(to) < BitWidth(part) && (IsFloat(from) || IsComplex(from))) {
    // Floats saturate at the bounds of the narrow type, not of the one that computes.
    int bits = BitWidth(to);
    int64_t least = IsSigned(to) ? -(int64_t{1} << (bits - 1)) : 0;
    int64_t greatest = (int64_t{1} << (IsSigned(to) ? bits - 1 : bits)) - 1;
    cast = b_.Max(cast, b_.Int(least, b_.type(cast)));
    cast = b_.Min(cast, b_.Int(greatest, b_.type(cast)));
  }
  Element result{Round(cast, RealType(to)), -1};
  if (IsComplex(to)) {
    result.im = IsComplex(from) ? b_.Cast(value.im, part) : b_.Number(0, b_.type(result.re));
  }
  return result;
}

// The integer whose order is IEEE's totalOrder.
ValueId ElementEmitter::TotalOrderKey(ValueId x, DType dtype) {
  DType integer = dtype == DType::kF64 ? DType::kS64 : DType::kS32;
  ValueId bits = b_.Bitcast(x, integer);
  Type type = b_.type(bits);
  int width = BitWidth(integer);
  ValueId sign = b_.Emit(Op::kShr, {bits, b_.Int(width - 1, type)});
  int64_t all = width == 64 ? INT64_MAX : INT32_MAX;
  return b_.Emit(Op::kXor, {bits, b_.Emit(Op::kAnd, {sign, b_.Int(all, type)})});
}

Result<Element> ElementEmitter::EmitCompare(const Instruction& compare, Args args) {
  const auto& attrs = compare.attrs<hlo::CompareAttrs>();
  DType type = compare.operand(0)->shape().dtype();
  ValueId a = args[0].re, b = args[1].re;
  Match(a, b);
  if (IsComplex(type)) {
    ValueId c = args[0].im, d = args[1].im;
    Match(c, d);
    if (attrs.direction == hlo::Direction::kEq) {
      return Element{b_.Emit(Op::kAnd, {b_.Emit(Op::kEq, {a, b}), b_.Emit(Op::kEq, {c, d})}), -1};
    }
    if (attrs.direction == hlo::Direction::kNe) {
      return Element{b_.Emit(Op::kOr, {b_.Emit(Op::kNe, {a, b}), b_.Emit(Op::kNe, {c, d})}), -1};
    }
    return Unimplemented("compare: complex numbers have no order");
  }
  if (IsFloat(type) && attrs.total_order()) {
    a = TotalOrderKey(a, type);
    b = TotalOrderKey(b, type);
  }
  if (type == DType::kPred) {
    // false < true: logic, so that masks stay masks.
    if (attrs.direction == hlo::Direction::kNe) return Element{b_.Emit(Op::kXor, {a, b}), -1};
    if (attrs.direction == hlo::Direction::kEq) {
      return Element{b_.Emit(Op::kNot, {b_.Emit(Op::kXor, {a, b})}), -1};
    }
    bool or_equal =
        attrs.direction == hlo::Direction::kGe || attrs.direction == hlo::Direction::kLe;
    bool less = attrs.direction == hlo::Direction::kLt || attrs.direction == hlo::Direction::kLe;
    ValueId low = less ? a : b, high = less ? b : a;
    return Element{b_.Emit(or_equal ? Op::kOr : Op::kAnd, {b_.Emit(Op::kNot, {low}), high}), -1};
  }
  static constexpr Op kOps[] = {Op::kEq, Op::kNe, Op::kGe, Op::kGt, Op::kLe, Op::kLt};
  return Element{b_.Emit(kOps[static_cast<int>(attrs.direction)], {a, b}), -1};
}

// The upper half of a product of 64 bits by 64, from products of halves.
ValueId ElementEmitter::HighProduct(ValueId x, ValueId y) {
  DType dtype = b_.type(x).dtype;
  ValueId a = b_.Bitcast(x, DType::kU64), c = b_.Bitcast(y, DType::kU64);
  Type type = b_.type(a);
  ValueId half = b_.Int(32, type), mask = b_.Int(0xffffffff, type);
  auto low = [&](ValueId v) { return b_.Emit(Op::kAnd, {v, mask}); };
  auto high = [&](ValueId v) { return b_.Emit(Op::kShr, {v, half}); };
  ValueId middle = b_.Add(b_.Mul(high(a), low(c)), high(b_.Mul(low(a), low(c))));
  ValueId other = b_.Add(b_.Mul(low(a), high(c)), low(middle));
  ValueId result = b_.Add(b_.Add(b_.Mul(high(a), high(c)), high(middle)), high(other));
  if (IsUnsigned(dtype)) return result;
  result = b_.Bitcast(result, dtype);
  ValueId zero = b_.Int(0, b_.type(x));
  result = b_.Sub(result, b_.Select(b_.Emit(Op::kLt, {x, zero}), y, zero));
  return b_.Sub(result, b_.Select(b_.Emit(Op::kLt, {y, zero}), x, zero));
}

ValueId ElementEmitter::IntegerPower(ValueId x, ValueId y) {
  Type type = b_.type(x);
  DType dtype = type.dtype;
  ValueId zero = b_.Int(0, type), one = b_.Int(1, type);
  KernelBuilder::Carry carry = {b_.Select(b_.Emit(Op::kEq, {x, x}), one, one), x, y};
  std::vector<ValueId> inside = b_.BeginLoop(program::LoopKind::kSerial, b_.Int(0),
                                             b_.Int(BitWidth(dtype)), b_.Int(1), carry);
  ValueId odd = b_.Emit(Op::kNe, {b_.Emit(Op::kAnd, {inside[3], one}), zero});
  ValueId result = b_.Select(odd, b_.Mul(inside[1], inside[2]), inside[1]);
  ValueId rest = b_.Emit(Op::kShr, {inside[3], one});
  KernelBuilder::Carry yield = {result, b_.Mul(inside[2], inside[2]), rest};
  ValueId power = b_.End(yield)[0];
  if (IsUnsigned(dtype)) return power;
  ValueId inverse = b_.Select(b_.Emit(Op::kEq, {x, one}), one, zero);
  return b_.Select(b_.Emit(Op::kLt, {y, zero}), inverse, power);
}

// Rounds to so many exponent and mantissa bits, in the integer bits of the number.
ValueId ElementEmitter::ReducePrecision(const Instruction& instruction, ValueId x) {
  const auto& attrs = instruction.attrs<hlo::ReducePrecisionAttrs>();
  Type type = b_.type(x);
  bool wide = type.dtype == DType::kF64;
  int mantissa = wide ? 52 : 23, exponent = wide ? 11 : 8, width = wide ? 64 : 32;
  DType integer = wide ? DType::kU64 : DType::kU32;
  Type itype{integer, type.lanes};
  uint64_t all = wide ? ~uint64_t{0} : 0xffffffffu;
  auto num = [&](uint64_t v) { return b_.Int(static_cast<int64_t>(v & all), itype); };
  ValueId bits = b_.Bitcast(x, integer), sign_mask = num(uint64_t{1} << (width - 1));
  ValueId sign = b_.Emit(Op::kAnd, {bits, sign_mask});
  ValueId magnitude = b_.Emit(Op::kXor, {bits, sign});
  int drop = mantissa - static_cast<int>(std::min<int64_t>(attrs.mantissa_bits, mantissa));
  if (drop > 0) {
    ValueId last = b_.Emit(Op::kAnd, {b_.Emit(Op::kShr, {magnitude, num(uint64_t(drop))}), num(1)});
    ValueId bias = b_.Add(num((uint64_t{1} << (drop - 1)) - 1), last);
    magnitude = b_.Emit(Op::kAnd, {b_.Add(magnitude, bias), num(~((uint64_t{1} << drop) - 1))});
  }
  // Narrow floats with infinities have their own exponents.
  FloatFormat own = FormatOf(instruction.shape().dtype());
  if (own.HasInfinity() && own.exponent_bits < exponent &&
      attrs.mantissa_bits < own.mantissa_bits && attrs.exponent_bits >= own.exponent_bits) {
    // Their subnormal numbers, which are normal ones here, have all one unit: that of 2^23 of it.
    double normal = std::ldexp(1.0, 1 - own.bias);
    double unit = std::ldexp(normal, -static_cast<int>(attrs.mantissa_bits));
    ValueId exact = b_.Bitcast(b_.Emit(Op::kXor, {bits, sign}), type.dtype);
    ValueId shift = b_.Float(std::ldexp(unit, mantissa), type);
    ValueId even = b_.Bitcast(b_.Sub(b_.Add(exact, shift), shift), integer);
    ValueId subnormal = b_.Emit(Op::kLt, {exact, b_.Float(normal, type)});
    magnitude = b_.Select(subnormal, even, magnitude);
  }
  if (attrs.exponent_bits < (own.HasInfinity() ? own.exponent_bits : exponent)) {
    int64_t bias = (int64_t{1} << (exponent - 1)) - 1;
    int64_t reduced = (int64_t{1} << (attrs.exponent_bits - 1)) - 1;
    uint64_t largest = (static_cast<uint64_t>(bias + reduced) << mantissa) |
                       (((uint64_t{1} << mantissa) - 1) & ~((uint64_t{1} << drop) - 1));
    uint64_t smallest = static_cast<uint64_t>(bias - reduced + 1) << mantissa;
    uint64_t infinity = ((uint64_t{1} << exponent) - 1) << mantissa;
    magnitude = b_.Select(b_.Emit(Op::kGt, {magnitude, num(largest)}), num(infinity), magnitude);
    magnitude = b_.Select(b_.Emit(Op::kLt, {magnitude, num(smallest)}), num(0), magnitude);
  }
  ValueId rounded = b_.Bitcast(b_.Emit(Op::kOr, {magnitude, sign}), type.dtype);
  // Without a mantissa there is no NaN.
  ValueId nan = attrs.mantissa_bits > 0 ? x : b_.Float(INFINITY, type);
  return b_.Select(b_.Emit(Op::kNe, {x, x}), nan, rounded);
}

namespace {

// Whether `i` is the maximum of a row of `of`, for every element of the row.
bool IsMaximumOf(const Instruction& i, const Instruction& of) {
  const Instruction* from = &i;
  while (from->op() == HloOp::kBroadcast || from->op() == HloOp::kReshape) from = from->operand(0);
  if (from->op() != HloOp::kReduce || from->operand(0) != &of || from->operand_count() != 2) {
    return false;
  }
  const hlo::Computation& to_apply = *from->attrs<hlo::ReduceAttrs>().to_apply;
  if (to_apply.root()->op() != HloOp::kMaximum ||
      !AsPlainReducer(to_apply, of.shape().dtype(), 0)) {
    return false;
  }
  // Each element stands in the row whose maximum it meets.
  const auto& reduced = from->attrs<hlo::ReduceAttrs>().dimensions;
  const Dims& dims = of.shape().dims();
  const Instruction* broadcast = &i;
  if (broadcast->op() != HloOp::kBroadcast) return false;
  Dims kept;  // dimensions of `of` that number the rows, but for those of size 1
  for (size_t d = 0; d < dims.size(); ++d) {
    bool is_reduced =
        std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) != reduced.end();
    if (!is_reduced && dims[d] > 1) kept.push_back(static_cast<int64_t>(d));
  }
  Dims met;
  const auto& to = broadcast->attrs<hlo::BroadcastAttrs>().dimensions;
  for (size_t d = 0; d < to.size(); ++d) {
    if (broadcast->operand(0)->shape().dims()[d] > 1) met.push_back(to[d]);
  }
  for (const Instruction* k = broadcast->operand(0); k != from; k = k->operand(0)) {
    if (k->op() != HloOp::kReshape) return false;
  }
  return kept == met;
}

// Known to be at most 0, or NaN: what a softmax and a bell curve take the exponential of.
bool IsNotPositive(const Instruction& i) {
  switch (i.op()) {
    case HloOp::kSubtract: return IsMaximumOf(*i.operand(1), *i.operand(0));
    case HloOp::kNegate: {
      const Instruction& x = *i.operand(0);
      return x.op() == HloOp::kAbs || (x.op() == HloOp::kMultiply && x.operand(0) == x.operand(1));
    }
    case HloOp::kMultiply:
      for (int64_t k = 0; k < 2; ++k) {
        const Instruction &x = *i.operand(k), &y = *i.operand(1 - k);
        if (x.op() == HloOp::kNegate && x.operand(0) == &y) return true;
      }
      return false;
    default: return false;
  }
}

}  // namespace

ValueId ElementEmitter::EmitFloatUnary(const Instruction& instruction, ValueId x) {
  Type type = b_.type(x);
  switch (instruction.op()) {
    case HloOp::kAbs: return b_.Emit(Op::kAbs, {x});
    case HloOp::kNegate: return b_.Emit(Op::kNeg, {x});
    case HloOp::kCeil: return b_.Emit(Op::kCeil, {x});
    case HloOp::kFloor: return b_.Emit(Op::kFloor, {x});
    case HloOp::kRoundNearestEven: return b_.Emit(Op::kRound, {x});
    case HloOp::kRoundNearestAfz: {
      // trunc(x) plus what is at least a half away, with x's sign.
      ValueId t = b_.Emit(Op::kTrunc, {x}), rest = b_.Emit(Op::kAbs, {b_.Sub(x, t)});
      ValueId away = b_.Emit(Op::kGe, {rest, b_.Float(0.5, type)});
      ValueId one = b_.Select(b_.Emit(Op::kLt, {x, b_.Float(0, type)}), b_.Float(-1, type),
                              b_.Float(1, type));
      ValueId rounded = b_.Select(away, b_.Add(t, one), t);
      return b_.Select(b_.Emit(Op::kEq, {x, x}), rounded, x);
    }
    case HloOp::kSign: {
      // 0, -0 and NaN as they are.
      ValueId zero = b_.Float(0, type);
      ValueId one = b_.Select(b_.Emit(Op::kLt, {x, zero}), b_.Float(-1, type), b_.Float(1, type));
      ValueId keeps = b_.Emit(Op::kOr, {b_.Emit(Op::kEq, {x, zero}), b_.Emit(Op::kNe, {x, x})});
      return b_.Select(keeps, x, one);
    }
    case HloOp::kSqrt: return b_.Emit(Op::kSqrt, {x});
    case HloOp::kRsqrt: return math::Rsqrt(b_, x);
    case HloOp::kExponential:
      return IsNotPositive(*instruction.operand(0)) ? math::ExpNotPositive(b_, x)
                                                    : math::Exp(b_, x);
    case HloOp::kExpm1: return math::Expm1(b_, x);
    case HloOp::kLog: return math::Log(b_, x);
    case HloOp::kLog1p: return math::Log1p(b_, x);
    case HloOp::kSine: return math::Sin(b_, x);
    case HloOp::kCosine: return math::Cos(b_, x);
    case HloOp::kTan: return math::Tan(b_, x);
    case HloOp::kAsin: return math::Asin(b_, x);
    case HloOp::kAcos: return math::Acos(b_, x);
    case HloOp::kSinh: return math::Sinh(b_, x);
    case HloOp::kCosh: return math::Cosh(b_, x);
    case HloOp::kTanh: return math::Tanh(b_, x);
    case HloOp::kAsinh: return math::Asinh(b_, x);
    case HloOp::kAcosh: return math::Acosh(b_, x);
    case HloOp::kAtanh: return math::Atanh(b_, x);
    case HloOp::kLogistic: return math::Logistic(b_, x);
    case HloOp::kErf: return math::Erf(b_, x);
    case HloOp::kCbrt: return math::Cbrt(b_, x);
    case HloOp::kReducePrecision: return ReducePrecision(instruction, x);
    default: return -1;
  }
}

namespace {

ValueId EmitShift(KernelBuilder& b, HloOp op, DType from, ValueId x, ValueId y) {
  int bits = BitWidth(from);
  DType dtype = b.type(x).dtype;
  bool arithmetic = op == HloOp::kShiftRightArithmetic;
  DType as = IntegerType(arithmetic ? DTypeClass::kSigned : DTypeClass::kUnsigned, BitWidth(dtype));
  ValueId u = b.Bitcast(x, as), n = b.Bitcast(y, as);
  Type t = b.type(u);
  Op shift = op == HloOp::kShiftLeft ? Op::kShl : Op::kShr;
  if (!IsSubByte(from)) return b.Bitcast(b.Emit(shift, {u, n}), dtype);
  // To the top of the byte, so that the kernel's width rules apply; back afterwards.
  ValueId up = b.Int(8 - bits, t);
  ValueId moved = b.Emit(Op::kShl, {u, up});
  ValueId full = b.Emit(Op::kGe, {b.Bitcast(n, DType::kU8), b.Int(bits, {DType::kU8, t.lanes})});
  n = b.Select(full, b.Int(8, t), n);
  moved = b.Emit(shift, {moved, n});
  ValueId back = b.Bitcast(moved, dtype);
  return b.Emit(Op::kShr, {back, b.Int(8 - bits, b.type(back))});
}

// The upper half of a product of integers of at most 32 bits.
ValueId NarrowHighProduct(KernelBuilder& b, DType from, ValueId x, ValueId y) {
  int bits = BitWidth(from);
  // Not wider than that: LLVM 19 loses the sign between two of 16 bits that are computed in 64.
  DType wide = IntegerType(Class(from), bits <= 16 ? 32 : 64);
  DType type = b.type(x).dtype;
  ValueId a = b.Cast(x, wide), c = b.Cast(y, wide);
  ValueId product = b.Mul(a, c);
  ValueId high = b.Emit(Op::kShr, {product, b.Int(bits, b.type(product))});
  return b.Cast(high, type);
}

// clamp(low, x, high); NaN in any of them is the result.
Element EmitClamp(ElementEmitter& e, DType from, std::span<const Element> args) {
  KernelBuilder& b = e.builder();
  ValueId low = args[0].re, value = args[1].re, high = args[2].re;
  e.Match(low, value);
  if (from == DType::kPred) {
    ValueId either = b.Emit(Op::kOr, {value, low});
    e.Match(either, high);
    return {b.Emit(Op::kAnd, {either, high}), -1};
  }
  ValueId at_least = b.Max(value, low);
  e.Match(at_least, high);
  return {b.Min(at_least, high), -1};
}

// Ones, or zeros before the first of them.
ValueId CountBits(KernelBuilder& b, HloOp op, DType from, ValueId x) {
  int bits = BitWidth(from);
  Type type = b.type(x);
  if (IsSubByte(from)) x = b.Emit(Op::kAnd, {x, b.Int((1 << bits) - 1, type)});
  bool ones = op == HloOp::kPopulationCount;
  ValueId count = b.Emit(ones ? Op::kPopcount : Op::kClz, {x});
  if (!ones && IsSubByte(from)) count = b.Sub(count, b.Int(8 - bits, type));
  return count;
}

ValueId SignOfInteger(KernelBuilder& b, DType from, ValueId x) {
  Type type = b.type(x);
  ValueId zero = b.Int(0, type), one = b.Int(1, type);
  ValueId positive = b.Select(b.Emit(Op::kGt, {x, zero}), one, zero);
  if (IsUnsigned(from)) return positive;
  return b.Select(b.Emit(Op::kLt, {x, zero}), b.Int(-1, type), positive);
}

}  // namespace

Result<Element> ElementEmitter::EmitElementwise(const Instruction& instruction, Args args) {
  HloOp op = instruction.op();
  DType to = instruction.shape().dtype();
  DType from = instruction.operand_count() > 0 ? instruction.operand(0)->shape().dtype() : to;
  if (op == HloOp::kCompare) return EmitCompare(instruction, args);
  if (op == HloOp::kConvert) return Convert(args[0], from, to);
  if (op == HloOp::kSelect) return Select(args[0].re, args[1], args[2]);
  if (IsComplex(from) || IsComplex(to)) return EmitComplex(instruction, args);
  ValueId x = args[0].re, y = args.size() > 1 ? args[1].re : -1;
  if (y >= 0) Match(x, y);
  Type type = b_.type(x);
  auto rounded = [&](ValueId v) { return Element{Round(v, to), -1}; };
  auto binary = [&](Op kernel_op) { return rounded(b_.Emit(kernel_op, {x, y})); };
  // Of single integers, such as indices and what they are compared with.
  auto sum = [&](Op kernel_op) {
    bool fits = value_ranges_ != nullptr && IsInteger(to) && to == type.dtype &&
                instruction.shape().elements() == 1 && value_ranges_->NeverWraps(instruction);
    return fits ? Element{b_.EmitNoWrap(kernel_op, x, y), -1} : binary(kernel_op);
  };
  switch (op) {
    case HloOp::kAdd:
      if (from == DType::kPred) return Element{b_.Emit(Op::kOr, {x, y}), -1};
      return sum(Op::kAdd);
    case HloOp::kSubtract: return sum(Op::kSub);
    case HloOp::kMultiply:
      if (from == DType::kPred) return Element{b_.Emit(Op::kAnd, {x, y}), -1};
      return sum(Op::kMul);
    case HloOp::kDivide:
      if (IsFloat(type.dtype) && b_.value(args[1].re).is_constant) {
        return rounded(math::DivideByNumber(b_, x, b_.value(args[1].re).AsDouble()));
      }
      if (auto it = lane_numbers_.find(y); it != lane_numbers_.end()) {
        return rounded(math::DivideByNumbers(b_, x, it->second));
      }
      return binary(Op::kDiv);
    case HloOp::kRemainder: return IsFloat(from) ? rounded(math::Rem(b_, x, y)) : binary(Op::kRem);
    case HloOp::kMaximum:
      if (from == DType::kPred) return Element{b_.Emit(Op::kOr, {x, y}), -1};
      return Element{b_.Emit(Op::kMax, {x, y}), -1};
    case HloOp::kMinimum:
      if (from == DType::kPred) return Element{b_.Emit(Op::kAnd, {x, y}), -1};
      return Element{b_.Emit(Op::kMin, {x, y}), -1};
    case HloOp::kAnd: return Element{b_.Emit(Op::kAnd, {x, y}), -1};
    case HloOp::kOr: return Element{b_.Emit(Op::kOr, {x, y}), -1};
    case HloOp::kXor: return Element{b_.Emit(Op::kXor, {x, y}), -1};
    case HloOp::kAtan2: return rounded(math::Atan2(b_, x, y));
    case HloOp::kPower: return rounded(IsFloat(from) ? math::Pow(b_, x, y) : IntegerPower(x, y));
    case HloOp::kShiftLeft:
    case HloOp::kShiftRightArithmetic:
    case HloOp::kShiftRightLogical: return Element{EmitShift(b_, op, from, x, y), -1};
    case HloOp::kMulhi:
      if (BitWidth(from) > 32) return Element{HighProduct(x, y), -1};
      return rounded(NarrowHighProduct(b_, from, x, y));
    case HloOp::kClamp: return EmitClamp(*this, from, args);
    case HloOp::kNot: return rounded(b_.Emit(Op::kNot, {x}));
    case HloOp::kReal: return args[0];
    case HloOp::kImag: return Element{b_.Number(0, type), -1};
    case HloOp::kIsFinite: {
      if (!IsFloat(from)) return Element{b_.Pred(true, type.lanes), -1};
      ValueId magnitude = b_.Emit(Op::kAbs, {x});
      return Element{b_.Emit(Op::kLt, {magnitude, b_.Float(INFINITY, type)}), -1};
    }
    case HloOp::kPopulationCount:
    case HloOp::kCountLeadingZeros: return rounded(CountBits(b_, op, from, x));
    default: break;
  }
  if (IsFloat(from)) {
    ValueId value = EmitFloatUnary(instruction, x);
    if (value >= 0) return rounded(value);
  } else if (op == HloOp::kAbs) {
    return IsUnsigned(from) ? args[0] : rounded(b_.Emit(Op::kAbs, {x}));
  } else if (op == HloOp::kNegate) {
    return rounded(b_.Emit(Op::kNeg, {x}));
  } else if (op == HloOp::kSign) {
    return Element{SignOfInteger(b_, from, x), -1};
  } else if (op == HloOp::kCeil || op == HloOp::kFloor || op == HloOp::kRoundNearestAfz ||
             op == HloOp::kRoundNearestEven) {
    return args[0];
  }
  return Unimplemented(hlo::Mnemonic(op), ": no native lowering for ", Name(from));
}

Result<Element> ElementEmitter::EmitComplex(const Instruction& instruction, Args args) {
  DType from = instruction.operand(0)->shape().dtype();
  if (instruction.op() == HloOp::kComplex) {
    Match(args[0].re, args[1].re);
    return Element{args[0].re, args[1].re};
  }
  if (!IsComplex(from)) {
    return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering for ", Name(from));
  }
  if (args.size() == 2) {
    Match(args[0].re, args[1].re);
    Match(args[0].im, args[1].im);
  }
  math::Complex x{args[0].re, args[0].im}, y{-1, -1};
  if (args.size() == 2) y = {args[1].re, args[1].im};
  auto make = [](math::Complex c) { return Element{c.re, c.im}; };
  switch (instruction.op()) {
    case HloOp::kAdd: return Element{b_.Add(x.re, y.re), b_.Add(x.im, y.im)};
    case HloOp::kSubtract: return Element{b_.Sub(x.re, y.re), b_.Sub(x.im, y.im)};
    case HloOp::kMultiply: return make(math::Mul(b_, x, y));
    case HloOp::kDivide: return make(math::Div(b_, x, y));
    case HloOp::kPower: return make(math::Pow(b_, x, y));
    case HloOp::kAtan2: {
      // -i log((y + i x) / sqrt(x^2 + y^2))
      math::Complex xx = math::Mul(b_, x, x), yy = math::Mul(b_, y, y);
      math::Complex size = math::Sqrt(b_, {b_.Add(xx.re, yy.re), b_.Add(xx.im, yy.im)});
      math::Complex sum{b_.Sub(y.re, x.im), b_.Add(y.im, x.re)};
      math::Complex log = math::Log(b_, math::Div(b_, sum, size));
      return Element{log.im, b_.Emit(Op::kNeg, {log.re})};
    }
    case HloOp::kNegate: return Element{b_.Emit(Op::kNeg, {x.re}), b_.Emit(Op::kNeg, {x.im})};
    case HloOp::kReal: return Element{x.re, -1};
    case HloOp::kImag: return Element{x.im, -1};
    case HloOp::kAbs: return Element{math::Abs(b_, x), -1};
    case HloOp::kSign: return make(math::Sign(b_, x));
    case HloOp::kExponential: return make(math::Exp(b_, x));
    case HloOp::kExpm1: return make(math::Expm1(b_, x));
    case HloOp::kLog: return make(math::Log(b_, x));
    case HloOp::kLog1p: return make(math::Log1p(b_, x));
    case HloOp::kSqrt: return make(math::Sqrt(b_, x));
    case HloOp::kRsqrt: return make(math::Rsqrt(b_, x));
    case HloOp::kCbrt: return make(math::Cbrt(b_, x));
    case HloOp::kSine: return make(math::Sin(b_, x));
    case HloOp::kCosine: return make(math::Cos(b_, x));
    case HloOp::kTan: return make(math::Tan(b_, x));
    case HloOp::kTanh: return make(math::Tanh(b_, x));
    case HloOp::kSinh: return make(math::Sinh(b_, x));
    case HloOp::kCosh: return make(math::Cosh(b_, x));
    case HloOp::kAsin: return make(math::Asin(b_, x));
    case HloOp::kAcos: return make(math::Acos(b_, x));
    case HloOp::kAsinh: return make(math::Asinh(b_, x));
    case HloOp::kAcosh: return make(math::Acosh(b_, x));
    case HloOp::kAtanh: return make(math::Atanh(b_, x));
    case HloOp::kLogistic: return make(math::Logistic(b_, x));
    default:
      return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering for ",
                           Name(from));
  }
}

}  // namespace weft::compiler
