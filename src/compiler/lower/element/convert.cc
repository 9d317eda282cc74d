// Conversions between number formats, and rounding to what they hold.
#include <algorithm>
#include <cmath>

#include "base/float_formats.h"
#include "compiler/analysis/queries.h"
#include "compiler/lower/element/elementwise.h"
#include "compiler/lower/element/float_bits.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using program::Type;

// Integers of less than a byte live sign- or zero-extended in a byte; f16 and smaller in an f32.
ValueId RoundToStorage(KernelBuilder& b, ValueId value, DType to) {
  if (IsFloat(to)) {
    return to == DType::kF32 || to == DType::kF64 ? value : b.Narrow(value, to);
  }
  if (!IsSubByte(to)) return value;
  Type type = b.type(value);
  ValueId shift = b.Int(8 - BitWidth(to), type);
  return b.Emit(Op::kShr, {b.Emit(Op::kShl, {value, shift}), shift});
}

Element ConvertElement(ElementContext& e, Element value, DType from, DType to) {
  if (from == to) return value;
  DType part = program::ComputeType(RealType(to));
  if (to == DType::kPred && IsComplex(from)) {
    ValueId zero = e.b.Number(0, e.b.type(value.re));
    ValueId re = e.b.Emit(Op::kNe, {value.re, zero}), im = e.b.Emit(Op::kNe, {value.im, zero});
    return {e.b.Emit(Op::kOr, {re, im}), -1};
  }
  bool narrow = IsFloat(to) && to != DType::kF32 && to != DType::kF64;
  bool wide = BitWidth(RealType(from)) >= 32 && RealType(from) != DType::kF32;
  ValueId cast = narrow && wide ? ToOddF32(e.b, value.re) : e.b.Cast(value.re, part);
  if (IsInteger(to) && BitWidth(to) < BitWidth(part) && (IsFloat(from) || IsComplex(from))) {
    // Floats saturate at the bounds of the narrow type, not of the one that computes.
    int bits = BitWidth(to);
    int64_t least = IsSigned(to) ? -(int64_t{1} << (bits - 1)) : 0;
    int64_t greatest = (int64_t{1} << (IsSigned(to) ? bits - 1 : bits)) - 1;
    cast = e.b.Max(cast, e.b.Int(least, e.b.type(cast)));
    cast = e.b.Min(cast, e.b.Int(greatest, e.b.type(cast)));
  }
  Element result{RoundToStorage(e.b, cast, RealType(to)), -1};
  if (IsComplex(to)) {
    result.im = IsComplex(from) ? e.b.Cast(value.im, part) : e.b.Number(0, e.b.type(result.re));
  }
  return result;
}

// Rounds to so many exponent and mantissa bits, in the integer bits of the number.
ValueId ReducePrecision(KernelBuilder& b, const Instruction& instruction, ValueId x) {
  if (IsWholePrecision(instruction)) return x;
  const auto& attrs = instruction.attrs<hlo::ReducePrecisionAttrs>();
  Type type = b.type(x);
  bool wide = type.dtype == DType::kF64;
  int mantissa = wide ? 52 : 23, exponent = wide ? 11 : 8, width = wide ? 64 : 32;
  DType integer = wide ? DType::kU64 : DType::kU32;
  Type itype{integer, type.lanes};
  uint64_t all = wide ? ~uint64_t{0} : 0xffffffffu;
  auto num = [&](uint64_t v) { return b.Int(static_cast<int64_t>(v & all), itype); };
  ValueId bits = b.Bitcast(x, integer), sign_mask = num(uint64_t{1} << (width - 1));
  ValueId sign = b.Emit(Op::kAnd, {bits, sign_mask});
  ValueId magnitude = b.Emit(Op::kXor, {bits, sign});
  int drop = mantissa - static_cast<int>(std::min<int64_t>(attrs.mantissa_bits, mantissa));
  if (drop > 0) {
    ValueId last = b.Emit(Op::kAnd, {b.Emit(Op::kShr, {magnitude, num(uint64_t(drop))}), num(1)});
    ValueId bias = b.Add(num((uint64_t{1} << (drop - 1)) - 1), last);
    magnitude = b.Emit(Op::kAnd, {b.Add(magnitude, bias), num(~((uint64_t{1} << drop) - 1))});
  }
  // Narrow floats with infinities have their own exponents.
  FloatFormat own = FormatOf(instruction.shape().dtype());
  if (own.HasInfinity() && own.exponent_bits < exponent &&
      attrs.mantissa_bits < own.mantissa_bits && attrs.exponent_bits >= own.exponent_bits) {
    // Their subnormal numbers, which are normal ones here, have all one unit: that of 2^23 of it.
    double normal = std::ldexp(1.0, 1 - own.bias);
    double unit = std::ldexp(normal, -static_cast<int>(attrs.mantissa_bits));
    ValueId exact = b.Bitcast(b.Emit(Op::kXor, {bits, sign}), type.dtype);
    ValueId shift = b.Float(std::ldexp(unit, mantissa), type);
    ValueId even = b.Bitcast(b.Sub(b.Add(exact, shift), shift), integer);
    ValueId subnormal = b.Emit(Op::kLt, {exact, b.Float(normal, type)});
    magnitude = b.Select(subnormal, even, magnitude);
  }
  if (attrs.exponent_bits < (own.HasInfinity() ? own.exponent_bits : exponent)) {
    int64_t bias = (int64_t{1} << (exponent - 1)) - 1;
    int64_t reduced = (int64_t{1} << (attrs.exponent_bits - 1)) - 1;
    uint64_t largest = (static_cast<uint64_t>(bias + reduced) << mantissa) |
                       (((uint64_t{1} << mantissa) - 1) & ~((uint64_t{1} << drop) - 1));
    uint64_t smallest = static_cast<uint64_t>(bias - reduced + 1) << mantissa;
    uint64_t infinity = ((uint64_t{1} << exponent) - 1) << mantissa;
    magnitude = b.Select(b.Emit(Op::kGt, {magnitude, num(largest)}), num(infinity), magnitude);
    magnitude = b.Select(b.Emit(Op::kLt, {magnitude, num(smallest)}), num(0), magnitude);
  }
  ValueId rounded = b.Bitcast(b.Emit(Op::kOr, {magnitude, sign}), type.dtype);
  // Without a mantissa there is no NaN.
  ValueId nan = attrs.mantissa_bits > 0 ? x : b.Float(INFINITY, type);
  return b.Select(b.Emit(Op::kNe, {x, x}), nan, rounded);
}

}  // namespace weft::compiler
