// Operations on integers that no single kernel operation does.
#include "compiler/lower/element/elementwise.h"
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
