// Conversions between types.
#include "base/float_formats.h"
#include "compiler/passes/simplify/simplify_rules.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

namespace {

// Bits before the point that an exact float of this type can hold.
int ExactIntegerBits(DType dtype) {
  FloatFormat format = FormatOf(dtype);
  return format.specials == FloatSpecials::kIeee && format.bits >= 16 ? format.mantissa_bits + 1
                                                                      : 0;
}

// Every value of one type is a value of the other.
bool IsLossless(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::kPred) {
    return (IsInteger(to) && BitWidth(to) > 1) || ExactIntegerBits(to) > 0;
  }
  if (IsInteger(from) && IsInteger(to)) {
    if (IsSigned(from) && IsUnsigned(to)) return false;
    return BitWidth(from) + (IsUnsigned(from) && IsSigned(to)) <= BitWidth(to);
  }
  if (IsInteger(from) && IsFloat(to)) {
    return ExactIntegerBits(to) > 0 && BitWidth(from) - IsSigned(from) <= ExactIntegerBits(to);
  }
  if (!IsFloat(from) || !IsFloat(to)) return false;
  FloatFormat a = FormatOf(from), z = FormatOf(to);
  if (a.specials == FloatSpecials::kExponentOnly || z.specials != FloatSpecials::kIeee) {
    return false;
  }
  // The exponent of the largest numbers: where there are no infinities, the last one has numbers.
  auto largest = [](const FloatFormat& f) {
    return (1 << f.exponent_bits) - (f.specials == FloatSpecials::kIeee ? 2 : 1) - f.bias;
  };
  return a.mantissa_bits <= z.mantissa_bits && largest(a) <= largest(z) && a.bias <= z.bias;
}

}  // namespace

// convert(convert(x)) = convert(x) when the first one loses nothing. What goes through a float is
// saturated on its way to an integer, what does not wraps.
Result<Instruction*> SimplifyConvert(Instruction& i, Builder& b) {
  Instruction* inner = i.operand(0);
  if (inner->op() != Op::kConvert) return nullptr;
  Instruction* x = inner->operand(0);
  DType first = x->shape().dtype(), middle = inner->shape().dtype(), last = i.shape().dtype();
  if (IsComplex(middle) || !IsLossless(first, middle)) return nullptr;
  if (last == first) return x;
  bool whole = IsInteger(first) || first == DType::kPred;
  bool saturates = whole && IsFloat(middle) && IsInteger(last);
  if (saturates && !IsLossless(first, last)) return nullptr;
  return b.Convert(x, last);
}

}  // namespace weft::compiler
