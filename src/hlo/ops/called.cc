#include "hlo/ops/called.h"

namespace weft::hlo {
namespace {

const Shape& BufferContent(const Shape& shape) {
  return shape.IsBuffer() ? shape.buffer_content() : shape;
}

}  // namespace

bool ShapesMatch(const Shape& a, const Shape& b, MatchPrecision precision) {
  bool any_float =
      precision == MatchPrecision::kAnyFloat && IsFloat(a.dtype()) && IsFloat(b.dtype());
  if (a.dtype() != b.dtype() && !any_float) return false;
  if (a.rank() != b.rank() || a.tuple_size() != b.tuple_size()) return false;
  for (int64_t i = 0; i < a.rank(); ++i) {
    if (a.dim(i) != b.dim(i) && !a.is_unbounded(i) && !b.is_unbounded(i)) return false;
  }
  for (int64_t i = 0; i < a.tuple_size(); ++i) {
    if (!ShapesMatch(a.tuple_element(i), b.tuple_element(i), precision)) return false;
  }
  return true;
}

Shape StripLayout(Shape shape) {
  shape.ClearLayout();
  return shape;
}

Result<Shape> ResultShape(std::string_view op, const Computation* computation) {
  if (computation == nullptr) return InvalidArgument(op, ": calls no computation");
  if (computation->root() == nullptr) {
    return InvalidArgument(op, ": computation ", computation->name(), " has no root");
  }
  return StripLayout(computation->root()->shape());
}

Status CheckParameters(std::string_view op, const Computation* computation,
                       std::span<const Shape* const> arguments) {
  if (computation == nullptr) return InvalidArgument(op, ": calls no computation");
  std::span<Instruction* const> parameters = computation->parameters();
  if (parameters.size() != arguments.size()) {
    return InvalidArgument(op, ": computation ", computation->name(), " takes ", parameters.size(),
                           " parameters, got ", arguments.size(), " operands");
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i] == nullptr) {
      return InvalidArgument(op, ": computation ", computation->name(), " has no parameter ", i);
    }
    if (!ShapesMatch(parameters[i]->shape(), *arguments[i])) {
      return InvalidArgument(op, ": operand ", i, " has shape ",
                             arguments[i]->ToStringWithoutLayout(), ", parameter ", i, " of ",
                             computation->name(), " has shape ",
                             parameters[i]->shape().ToStringWithoutLayout());
    }
  }
  return {};
}

Status CheckOperandAliases(const Instruction& call, const OperandAliases& aliases) {
  std::string_view op = Mnemonic(call.op());
  for (const OperandAlias& alias : aliases) {
    if (alias.operand < 0 || alias.operand >= call.operand_count()) {
      return InvalidArgument(op, ": aliases operand ", alias.operand, " of ", call.operand_count());
    }
    const Shape* output = call.shape().SubShape(alias.output);
    const Shape* operand = call.operand(alias.operand)->shape().SubShape(alias.operand_index);
    if (output == nullptr || operand == nullptr) {
      return InvalidArgument(op, ": aliases ", ShapeIndexToString(alias.output), " with index ",
                             ShapeIndexToString(alias.operand_index), " of operand ", alias.operand,
                             ", which are not there");
    }
    if (call.FrontendAttributeValue("xla_skip_custom_call_alias_shape_check") != nullptr) {
      return {};
    }
    if (!ShapesMatch(BufferContent(*output), BufferContent(*operand))) {
      return InvalidArgument(op, ": aliases different shapes: ", output->ToStringWithoutLayout(),
                             " and ", operand->ToStringWithoutLayout());
    }
  }
  return {};
}

Status CheckTokenOperand(const InferArgs& args, int64_t i) {
  if (args.operand(i).IsToken()) return {};
  return InvalidArgument(Mnemonic(args.op), ": operand ", i, " must be a token, got ",
                         args.operand(i).ToStringWithoutLayout());
}

Result<Shape> MatchDeclared(const InferArgs& args, const Shape& inferred) {
  if (args.declared == nullptr) return inferred;
  if (!ShapesMatch(*args.declared, inferred)) {
    return InvalidArgument(Mnemonic(args.op), ": the result has shape ",
                           inferred.ToStringWithoutLayout(), ", not ",
                           args.declared->ToStringWithoutLayout());
  }
  return StripLayout(*args.declared);
}

}  // namespace weft::hlo
