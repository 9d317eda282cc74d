#include "hlo/ops/elementwise.h"

#include <optional>

#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/lanes.h"
#include "hlo/instruction.h"
#include "hlo/ops/array_rules.h"

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
    result.set_dtype(MorePrecise(result.dtype(), shape.dtype()));
  }
  return result;
}

Result<Shape> RunTimeShape(const Instruction& instruction, const Shape& declared,
                           const Literal& like) {
  if (!declared.HasUnboundedDims()) return declared;
  Shape shape = declared;
  for (int64_t i = 0; i < shape.rank() && i < like.shape().rank(); ++i) {
    if (!shape.is_unbounded(i)) continue;
    shape.set_dim(i, like.shape().dim(i));
    shape.set_dynamic(i, like.shape().is_dynamic(i));
  }
  if (shape.HasUnboundedDims()) {
    return InvalidArgument(Mnemonic(instruction.op()), ": the size of ",
                           declared.ToStringWithoutLayout(), " is not known");
  }
  return shape;
}

Result<Literal> NewArray(EvalContext& context, const Instruction& instruction, Shape shape) {
  std::optional<int64_t> n = shape.CheckedElements();
  if (!n || shape.ByteSize() > context.options().max_tensor_bytes) {
    return ResourceExhausted(Mnemonic(instruction.op()), ": a result of shape ",
                             shape.ToStringWithoutLayout(), " is too large to evaluate");
  }
  return Literal::AllocateUnset(std::move(shape));
}

Result<Literal> EvaluateElementwise(EvalContext& context, const Instruction& instruction,
                                    std::span<Literal> operands) {
  InlineVec<DType, 4> types;
  const Literal* full = &operands[0];  // an operand that is not a broadcast scalar
  for (const Literal& operand : operands) {
    types.push_back(operand.dtype());
    if (full->shape().IsScalar()) full = &operand;
  }
  LaneOp op =
      TRY(FindLaneOp(instruction.op(), instruction.attrs(), types, instruction.shape().dtype()));
  Literal out = TRY(
      NewArray(context, instruction, TRY(RunTimeShape(instruction, instruction.shape(), *full))));
  for (const Literal& operand : operands) {
    if (operand.size() == out.size() || operand.shape().IsScalar()) continue;
    return InvalidArgument(Mnemonic(instruction.op()), ": operand ",
                           operand.shape().ToStringWithoutLayout(), " for a result ",
                           out.shape().ToStringWithoutLayout());
  }
  if (out.size() > 0) {
    LaneOperand in[3];
    for (size_t i = 0; i < operands.size(); ++i) {
      in[i] = {operands[i].data(), operands[i].dtype(),
               operands[i].shape().IsScalar() && !out.shape().IsScalar()};
    }
    RunLaneOp(op, instruction.attrs(), std::span(in, operands.size()), out.dtype(),
              out.mutable_data(), out.size());
  }
  CopyDynamicSizes(operands, out);
  return out;
}

void CopyDynamicSizes(std::span<const Literal> operands, Literal& result) {
  for (const Literal& operand : operands) {
    if (!operand.HasDynamicSizes() || operand.shape().rank() != result.shape().rank()) continue;
    for (int64_t d = 0; d < result.shape().rank(); ++d) {
      int64_t size = operand.dynamic_size(d);
      if (size < result.dynamic_size(d)) result.set_dynamic_size(d, size);
    }
  }
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
