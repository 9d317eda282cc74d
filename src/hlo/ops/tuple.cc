#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

Result<Shape> InferParameter(const InferArgs& args) {
  TRY(ExpectDeclaredShape(args));
  return WithoutLayout(*args.declared);
}

Result<Shape> InferConstant(const InferArgs& args) {
  TRY(ExpectDeclaredShape(args));
  const Literal& literal = args.attrs.As<ConstantAttrs>().literal;
  if (!literal.IsValid() && args.attrs.As<ConstantAttrs>().elided) {
    return WithoutLayout(*args.declared);  // too large to fill in
  }
  if (!Shape::Compatible(literal.shape(), *args.declared)) {
    return InvalidArgument("constant: the value has shape ",
                           literal.shape().ToStringWithoutLayout(), ", not ",
                           args.declared->ToStringWithoutLayout());
  }
  return WithoutLayout(*args.declared);
}

Result<Literal> EvaluateConstant(EvalContext&, const Instruction& instruction, std::span<Literal>) {
  const Literal& literal = instruction.literal();
  if (!literal.IsValid()) return InvalidArgument("constant: no value is given");
  return literal;
}

Result<Shape> InferTuple(const InferArgs& args) {
  std::vector<Shape> elements;
  elements.reserve(static_cast<size_t>(args.size()));
  for (int64_t i = 0; i < args.size(); ++i) elements.push_back(args.operand(i));
  return WithoutLayout(Shape::Tuple(std::move(elements)));
}

Result<Literal> EvaluateTuple(EvalContext&, const Instruction&, std::span<Literal> operands) {
  std::vector<Literal> elements;
  elements.reserve(operands.size());
  for (Literal& operand : operands) elements.push_back(std::move(operand));
  return Literal::Tuple(std::move(elements));
}

// tuple(gte(t, 0), gte(t, 1), ...) of all elements of t is t.
Instruction* FoldTuple(Instruction& tuple) {
  if (tuple.operand_count() == 0) return nullptr;
  Instruction* source = nullptr;
  for (int64_t i = 0; i < tuple.operand_count(); ++i) {
    Instruction* element = tuple.operand(i);
    if (element->op() != Op::kGetTupleElement || element->tuple_index() != i) return nullptr;
    if (source == nullptr) source = element->operand(0);
    if (element->operand(0) != source) return nullptr;
  }
  return source->shape() == tuple.shape() ? source : nullptr;
}

Result<Shape> InferGetTupleElement(const InferArgs& args) {
  const Shape& tuple = args.operand(0);
  int64_t index = args.attrs.As<GetTupleElementAttrs>().index;
  if (!tuple.IsTuple() || index < 0 || index >= tuple.tuple_size()) {
    return InvalidArgument("get-tuple-element: there is no element ", index, " in ",
                           tuple.ToStringWithoutLayout());
  }
  return WithoutLayout(tuple.tuple_element(index));
}

Result<Literal> EvaluateGetTupleElement(EvalContext&, const Instruction& instruction,
                                        std::span<Literal> operands) {
  size_t index = static_cast<size_t>(instruction.tuple_index());
  if (index >= operands[0].tuple().size()) {
    return InvalidArgument("get-tuple-element: there is no element ", index, " in ",
                           operands[0].shape().ToStringWithoutLayout());
  }
  return std::move(operands[0].mutable_tuple()[index]);
}

Instruction* FoldGetTupleElement(Instruction& instruction) {
  Instruction* tuple = instruction.operand(0);
  int64_t index = instruction.tuple_index();
  if (tuple->op() != Op::kTuple || index < 0 || index >= tuple->operand_count()) return nullptr;
  return tuple->operand(index);
}

}  // namespace

template <>
OpRow Define<Op::kParameter>() {
  return {.doc = "An argument of the computation; its number stands between the parentheses.",
          .infer = InferParameter,
          .no_dim_rule = "the caller says how it lies"};
}

template <>
OpRow Define<Op::kConstant>() {
  return {.doc = "A value written in the program.",
          .infer = InferConstant,
          .evaluate = EvaluateConstant,
          .dim_rule = RuleSource};
}

template <>
OpRow Define<Op::kTuple>() {
  return {.doc = "Operands bundled into one value.",
          .infer = InferTuple,
          .evaluate = EvaluateTuple,
          .fold = FoldTuple,
          .no_dim_rule = "elements of tuples go through as they are"};
}

template <>
OpRow Define<Op::kGetTupleElement>() {
  return {.doc = "Element `index` of a tuple.",
          .infer = InferGetTupleElement,
          .evaluate = EvaluateGetTupleElement,
          .fold = FoldGetTupleElement,
          .no_dim_rule = "elements of tuples go through as they are"};
}

}  // namespace weft::hlo
