// Bit-level conversion between floating-point formats.
#include "compiler/lower/element/float_bits.h"

#include <cmath>
#include <limits>

#include "base/float_formats.h"

namespace weft::compiler {

using program::KernelBuilder;
using program::Op;
using program::Type;
using program::ValueId;

namespace {

struct FormatNumbers {
  explicit FormatNumbers(DType dtype) : f(FormatOf(dtype)) {
    shift = 23 - f.mantissa_bits;
    rebias = static_cast<int64_t>(127 - f.bias) << f.mantissa_bits;
    smallest_normal = std::ldexp(1.0, 1 - f.bias);
    step = std::ldexp(1.0, 1 - f.bias - f.mantissa_bits);  // between subnormals
  }
  FloatFormat f;
  int shift;
  int64_t rebias;  // of the exponent, in units of the format's last place
  double smallest_normal, step;
};

}  // namespace

ValueId BitsOfNarrowFloat(KernelBuilder& b, ValueId x, DType format) {
  FormatNumbers n(format);
  Type type = b.type(x), integer{DType::kU32, type.lanes};
  auto num = [&](uint64_t v) { return b.Int(static_cast<int64_t>(v & 0xffffffffu), integer); };
  ValueId all = b.Bitcast(x, DType::kU32);
  ValueId sign = b.Emit(Op::kAnd, {all, num(0x80000000u)});
  ValueId size = b.Bitcast(b.Emit(Op::kXor, {all, sign}), DType::kF32);
  ValueId scaled = b.Emit(Op::kShr, {b.Bitcast(size, DType::kU32), num(uint64_t(n.shift))});
  ValueId bits = b.Sub(scaled, num(static_cast<uint64_t>(n.rebias)));
  if (n.f.exponent_bits < 8 || n.f.mantissa_bits == 0) {
    ValueId low = b.Emit(Op::kLt, {size, b.Float(n.smallest_normal, type)});
    ValueId steps = b.Cast(b.Mul(size, b.Float(1 / n.step, type)), DType::kU32);
    if (n.f.HasSign()) bits = b.Select(low, steps, bits);
  }
  ValueId is_nan = b.Emit(Op::kNe, {x, x});
  if (n.f.HasInfinity()) {
    ValueId infinite = b.Emit(Op::kEq, {size, b.Float(INFINITY, type)});
    bits = b.Select(infinite, num(n.f.Infinity()), bits);
  }
  ValueId moved = b.Emit(Op::kShr, {sign, num(uint64_t(32 - n.f.bits))});
  if (n.f.HasSign()) bits = b.Emit(Op::kOr, {bits, moved});
  if (!n.f.HasNan()) return bits;
  ValueId nan = num(n.f.QuietNan(false));
  if (n.f.HasInfinity()) {
    // The payload stays: all the bits that fit.
    ValueId mantissa = b.Emit(Op::kAnd, {scaled, num(n.f.MantissaMask())});
    nan = b.Emit(Op::kOr, {b.Emit(Op::kOr, {num(n.f.Infinity()), mantissa}), moved});
  }
  return b.Select(is_nan, nan, bits);
}

ValueId NarrowFloatOfBits(KernelBuilder& b, ValueId bits, DType format) {
  FormatNumbers n(format);
  Type integer = b.type(bits), type{DType::kF32, integer.lanes};
  auto num = [&](uint64_t v) { return b.Int(static_cast<int64_t>(v & 0xffffffffu), integer); };
  // The upper half of an f32.
  if (format == DType::kBF16) return b.Bitcast(b.Emit(Op::kShl, {bits, num(16)}), DType::kF32);
  ValueId sign = b.Emit(Op::kAnd, {bits, num(n.f.SignMask())});
  ValueId magnitude = b.Emit(Op::kAnd, {bits, num(n.f.MagnitudeMask())});
  ValueId wide = b.Emit(
      Op::kShl, {b.Add(magnitude, num(static_cast<uint64_t>(n.rebias))), num(uint64_t(n.shift))});
  if (n.f.HasSign()) {
    ValueId low = b.Emit(Op::kLt, {magnitude, num(uint64_t{1} << n.f.mantissa_bits)});
    ValueId small = b.Mul(b.Cast(magnitude, DType::kF32), b.Float(n.step, type));
    wide = b.Select(low, b.Bitcast(small, DType::kU32), wide);
  } else {
    ValueId none = b.Emit(Op::kEq, {magnitude, num(0)});  // 2^-127
    wide = b.Select(none, num(0x00400000u), wide);
  }
  if (n.f.HasInfinity()) {
    // Infinity, and NaN with what it carries.
    ValueId special = b.Emit(Op::kGe, {magnitude, num(n.f.Infinity())});
    ValueId payload = b.Emit(
        Op::kShl, {b.Emit(Op::kAnd, {magnitude, num(n.f.MantissaMask())}), num(uint64_t(n.shift))});
    wide = b.Select(special, b.Emit(Op::kOr, {payload, num(0x7f800000u)}), wide);
  }
  ValueId moved = b.Emit(Op::kShl, {sign, num(uint64_t(32 - n.f.bits))});
  ValueId value = b.Emit(Op::kOr, {wide, moved});
  if (n.f.HasNan() && !n.f.HasInfinity()) {
    ValueId nan = b.Emit(Op::kEq, {bits, num(n.f.QuietNan(false))});
    if (n.f.IsNan(n.f.MagnitudeMask() | n.f.SignMask())) {
      nan = b.Emit(Op::kOr,
                   {nan, b.Emit(Op::kEq, {bits, num(n.f.MagnitudeMask() | n.f.SignMask())})});
    }
    value = b.Select(nan, num(0x7fc00000u), value);
  }
  return b.Bitcast(value, DType::kF32);
}

namespace {

// Integers of more bits than the float has: cut to as many as it holds. That leaves at least 16,
// three more than any narrow float has.
ValueId CutInteger(KernelBuilder& b, ValueId x, int kept) {
  Type type = b.type(x);
  int lost = BitWidth(type.dtype) - kept;
  ValueId step = b.Int(int64_t{1} << lost, type), zero = b.Int(0, type);
  ValueId rest = b.Emit(Op::kAnd, {x, b.Int((int64_t{1} << lost) - 1, type)});
  ValueId cut = b.Emit(Op::kXor, {x, rest});
  ValueId trace = b.Select(b.Emit(Op::kNe, {rest, zero}), step, zero);
  ValueId limit = b.Int(int64_t{1} << kept, type);
  ValueId fits = b.Emit(Op::kLt, {x, limit});
  if (IsSigned(type.dtype)) {
    ValueId minus = b.Int(-(int64_t{1} << kept), type);
    fits = b.Emit(Op::kAnd, {fits, b.Emit(Op::kGt, {x, minus})});
  }
  return b.Select(fits, x, b.Emit(Op::kOr, {cut, trace}));
}

}  // namespace

ValueId ToOddF32(KernelBuilder& b, ValueId x) {
  DType from = b.type(x).dtype;
  if (IsInteger(from) && BitWidth(from) == 32) return b.Cast(CutInteger(b, x, 24), DType::kF32);
  if (IsInteger(from)) x = b.Cast(CutInteger(b, x, 53), DType::kF64);
  ValueId near = b.Cast(x, DType::kF32), back = b.Cast(near, DType::kF64);
  ValueId bits = b.Bitcast(near, DType::kU32);
  Type type = b.type(bits);
  ValueId zero = b.Int(0, type), one = b.Int(1, type);
  ValueId above = b.Emit(Op::kGt, {b.Emit(Op::kAbs, {back}), b.Emit(Op::kAbs, {x})});
  bits = b.Sub(bits, b.Select(above, one, zero));
  bits = b.Emit(Op::kOr, {bits, b.Select(b.Emit(Op::kNe, {back, x}), one, zero)});
  return b.Bitcast(bits, DType::kF32);
}

}  // namespace weft::compiler
