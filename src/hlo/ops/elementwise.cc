#include "hlo/ops/elementwise.h"

#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/instruction.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {

Status ExpectType(Op op, unsigned set, const Shape& shape) {
  unsigned bit = 0;
  switch (Class(shape.dtype())) {
    case DTypeClass::kPred: bit = kTakesPred; break;
    case DTypeClass::kSigned: bit = kTakesSigned; break;
    case DTypeClass::kUnsigned: bit = kTakesUnsigned; break;
    case DTypeClass::kFloat: bit = kTakesFloat; break;
    case DTypeClass::kComplex: bit = kTakesComplex; break;
    default: break;
  }
  if (set & bit) return {};
  std::string names;
  static constexpr std::string_view kNames[] = {"pred", "signed", "unsigned", "float", "complex"};
  for (int i = 0; i < 5; ++i) {
    if (set >> i & 1) StrAppend(names, names.empty() ? "" : ", ", kNames[i]);
  }
  return InvalidArgument(Mnemonic(op), ": element type must be one of ", names, "; got ",
                         shape.ToStringWithoutLayout());
}

Result<Shape> InferSameShape(const InferArgs& args, unsigned set) {
  Shape result;
  for (int64_t i = 0; i < args.size(); ++i) {
    const Shape& shape = args.operand(i);
    TRY(ExpectArray(args.op, "operand", shape));
    TRY(ExpectType(args.op, set, shape));
    if (i == 0) {
      result = WithType(shape, shape.dtype());
      continue;
    }
    if (!SameTypeUpToPrecision(result.dtype(), shape.dtype())) {
      return InvalidArgument(Mnemonic(args.op), ": operands of different element types: ",
                             args.operand(0).ToStringWithoutLayout(), " and ",
                             shape.ToStringWithoutLayout());
    }
    if (!DimsAgree(result, shape)) {
      return InvalidArgument(Mnemonic(args.op), ": operands of different shapes: ",
                             args.operand(0).ToStringWithoutLayout(), " and ",
                             shape.ToStringWithoutLayout());
    }
    result = MergeDims(result, shape);
    result.set_dtype(HigherPrecision(result.dtype(), shape.dtype()));
  }
  return result;
}

Result<Literal> EvaluateElementwise(EvalContext&, const Instruction& i, std::span<Literal>) {
  return Unimplemented(Mnemonic(i.op()), ": not evaluated yet");
}

bool HaveSameShape(const Instruction& a, const Instruction& b) {
  return Shape::Compatible(a.shape(), b.shape());
}

bool IsConstantOf(const Instruction* instruction, double value) {
  while (instruction->op() == Op::kBroadcast) instruction = instruction->operand(0);
  if (!instruction->IsConstant() || instruction->attrs<ConstantAttrs>().elided) return false;
  const Literal& literal = instruction->literal();
  if (!literal.shape().IsArray() || literal.size() == 0) return false;
  for (int64_t i = 0; i < literal.size(); ++i) {
    if (literal.GetDouble(i) != value) return false;
  }
  return true;
}

}  // namespace weft::hlo
