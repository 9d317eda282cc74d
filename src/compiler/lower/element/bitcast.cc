// Bits under another type (bitcast-convert).
#include <algorithm>

#include "compiler/lower/element/elementwise.h"
#include "compiler/lower/element/float_bits.h"
#include "compiler/lower/element/ops.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;

// Same width: the bits under another type. Otherwise the last dimension holds the parts, the low
// bits first.
Result<Element> EmitBitcastConvert(ElementContext& e, const Instruction& convert,
                                   const Index& index) {
  DType from = convert.operand(0)->shape().dtype(), to = convert.shape().dtype();
  if (IsComplex(from) || IsComplex(to)) {
    if (from == to) return EmitElement(e, *convert.operand(0), index);
    return Unimplemented("bitcast-convert: no native lowering from ", Name(from), " to ", Name(to));
  }
  auto stored_bits = [](DType t) { return t == DType::kPred ? 8 : BitWidth(t); };
  int from_bits = stored_bits(from), to_bits = stored_bits(to);
  DType from_int = IntegerType(DTypeClass::kUnsigned, std::max(from_bits, 8));
  DType to_int = IntegerType(DTypeClass::kUnsigned, std::max(to_bits, 8));
  // An element's storage bits as an unsigned integer, and back.
  auto bits_of = [&](ValueId v) -> ValueId {
    if (from == DType::kPred) return e.b.Cast(v, DType::kU8);
    if (IsFloat(from) && BitWidth(e.b.type(v).dtype) != from_bits) {
      return e.b.Cast(BitsOfNarrowFloat(e.b, v, from), from_int);
    }
    ValueId bits = e.b.Bitcast(v, from_int);
    if (from_bits >= 8) return bits;
    return e.b.Emit(Op::kAnd, {bits, e.b.Int((1 << from_bits) - 1, e.b.type(bits))});
  };
  auto value_of = [&](ValueId v) -> ValueId {
    DType compute = program::ComputeType(to);
    if (to == DType::kPred) return e.b.Emit(Op::kNe, {v, e.b.Int(0, e.b.type(v))});
    if (IsFloat(to) && BitWidth(compute) != to_bits) {
      ValueId bits = e.b.Cast(v, DType::kU32);
      if (to_bits < 8)
        bits = e.b.Emit(Op::kAnd, {bits, e.b.Int((1 << to_bits) - 1, e.b.type(bits))});
      return NarrowFloatOfBits(e.b, bits, to);
    }
    return RoundToStorage(e.b, e.b.Bitcast(v, compute), to);
  };
  if (from_bits == to_bits) {
    Element x = TRY(EmitElement(e, *convert.operand(0), index));
    if (from == to) return x;
    return Element{value_of(bits_of(x.re)), -1};
  }
  Index at = Coordinates(e, convert.shape().dims(), index);
  if (from_bits > to_bits) {
    Coord part = at.coords.back();
    at.coords.pop_back();
    ValueId bits = bits_of(TRY(EmitElement(e, *convert.operand(0), at)).re);
    ValueId amount = e.b.Cast(LaneValue(e, ScaleCoord(e, part, to_bits), DType::kS32), from_int);
    MatchLanes(e, bits, amount);
    return Element{value_of(e.b.Cast(e.b.Emit(Op::kShr, {bits, amount}), to_int)), -1};
  }
  ValueId all = -1;
  for (int i = 0; i < to_bits / from_bits; ++i) {
    Index part = at;
    part.coords.push_back(ConstantCoord(e, i));
    ValueId bits = e.b.Cast(bits_of(TRY(EmitElement(e, *convert.operand(0), part)).re), to_int);
    if (i > 0) bits = e.b.Emit(Op::kShl, {bits, e.b.Int(i * from_bits, e.b.type(bits))});
    if (all >= 0) MatchLanes(e, all, bits);
    all = all < 0 ? bits : e.b.Emit(Op::kOr, {all, bits});
  }
  return Element{value_of(all), -1};
}

}  // namespace weft::compiler
