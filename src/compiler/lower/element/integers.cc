// Operations on integers that no single kernel operation does.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/lower/element/elementwise.h"
#include "compiler/lower/element/values.h"
#include "program/kernel.h"

namespace weft::compiler {

using program::Op;
using program::Type;
using HloOp = hlo::Op;

// The upper half of a product of 64 bits by 64, from products of halves.
ValueId HighProduct(KernelBuilder& b, ValueId x, ValueId y) {
  DType dtype = b.type(x).dtype;
  ValueId a = b.Bitcast(x, DType::kU64), c = b.Bitcast(y, DType::kU64);
  Type type = b.type(a);
  ValueId half = b.Int(32, type), mask = b.Int(0xffffffff, type);
  auto low = [&](ValueId v) { return b.Emit(Op::kAnd, {v, mask}); };
  auto high = [&](ValueId v) { return b.Emit(Op::kShr, {v, half}); };
  ValueId middle = b.Add(b.Mul(high(a), low(c)), high(b.Mul(low(a), low(c))));
  ValueId other = b.Add(b.Mul(low(a), high(c)), low(middle));
  ValueId result = b.Add(b.Add(b.Mul(high(a), high(c)), high(middle)), high(other));
  if (IsUnsigned(dtype)) return result;
  result = b.Bitcast(result, dtype);
  ValueId zero = b.Int(0, b.type(x));
  result = b.Sub(result, b.Select(b.Emit(Op::kLt, {x, zero}), y, zero));
  return b.Sub(result, b.Select(b.Emit(Op::kLt, {y, zero}), x, zero));
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

// Division by floats (strength reduction): NEON, AVX and AVX-512 divide no integers, but f32 in all
// lanes. Magnitudes up to 2^20 and the divisor, rounded, make a correctly rounded quotient that
// does not reach the next integer: that is further than 1 part in 2^21. A divisor that all lanes
// share is inverted once. Raised by 3 units in the last place, the inverse is above the exact one,
// whatever was rounded, and by less than 6 units: n < 2^20 is no multiple short of the next one.
ValueId DivideSmall(ElementContext& e, const hlo::Instruction& instruction,
                    std::span<const Element> args) {
  constexpr int64_t kMost = int64_t{1} << (std::numeric_limits<float>::digits - 4);
  if (instruction.op() != HloOp::kDivide && instruction.op() != HloOp::kRemainder) return -1;
  KernelBuilder& b = e.b;
  DType dtype = instruction.shape().dtype();
  ValueId n = args[0].re, d = args[1].re;
  int lanes = std::max(b.type(n).lanes, b.type(d).lanes);
  bool takes = lanes > 1 && IsInteger(dtype) && BitWidth(dtype) == 32 && !b.value(d).is_constant;
  if (!takes || e.value_ranges == nullptr || e.Leaves(kDivisionByFloats)) return -1;
  std::optional<ValueRange> range = e.value_ranges->Of(*instruction.operand(0));
  if (!range || range->low < -kMost || range->high > kMost) return -1;
  bool shared = b.type(d).lanes == 1;
  Type real{DType::kF32, b.type(d).lanes};
  ValueId none = b.Emit(Op::kEq, {d, b.Int(0, b.type(d))});  // x / 0 is all ones, x rem 0 is x
  ValueId safe = b.Cast(b.Select(none, b.Int(1, b.type(d)), d), DType::kF32);
  ValueId dividend = b.Cast(n, DType::kF32), quotient;
  if (shared) {
    ValueId inverse = b.Mul(b.Div(b.Float(1, real), safe), b.Float(1 + std::ldexp(3, -23), real));
    inverse = b.Select(none, b.Float(0, real), inverse);
    MatchLanes(e, dividend, inverse);
    quotient = b.Mul(dividend, inverse);
  } else {
    MatchLanes(e, dividend, safe);
    quotient = b.Div(dividend, safe);
  }
  quotient = b.CastNoWrap(quotient, dtype);
  MatchLanes(e, n, d);
  if (instruction.op() == HloOp::kRemainder) {
    ValueId rest = b.Sub(n, b.Mul(quotient, d));
    return shared ? rest : b.Select(none, n, rest);
  }
  if (shared) none = b.Splat(none, lanes);
  const int64_t ones = IsSigned(dtype) ? -1 : (int64_t{1} << BitWidth(dtype)) - 1;
  return b.Select(none, b.Int(ones, b.type(n)), quotient);
}

ValueId IntegerPower(KernelBuilder& b, ValueId x, ValueId y) {
  Type type = b.type(x);
  DType dtype = type.dtype;
  ValueId zero = b.Int(0, type), one = b.Int(1, type);
  KernelBuilder::Carry carry = {b.Select(b.Emit(Op::kEq, {x, x}), one, one), x, y};
  std::vector<ValueId> inside =
      b.BeginLoop(program::LoopKind::kSerial, b.Int(0), b.Int(BitWidth(dtype)), b.Int(1), carry);
  ValueId odd = b.Emit(Op::kNe, {b.Emit(Op::kAnd, {inside[3], one}), zero});
  ValueId result = b.Select(odd, b.Mul(inside[1], inside[2]), inside[1]);
  ValueId rest = b.Emit(Op::kShr, {inside[3], one});
  KernelBuilder::Carry yield = {result, b.Mul(inside[2], inside[2]), rest};
  ValueId power = b.End(yield)[0];
  if (IsUnsigned(dtype)) return power;
  ValueId inverse = b.Select(b.Emit(Op::kEq, {x, one}), one, zero);
  return b.Select(b.Emit(Op::kLt, {y, zero}), inverse, power);
}

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

}  // namespace weft::compiler
