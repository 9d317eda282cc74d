// Control flow: call, while, conditional, fusion, and ops that order or mark values.
#include <algorithm>

#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/called.h"
#include "hlo/ops/dim_rules.h"

namespace weft::hlo {
namespace {

Result<Shape> InferMarkedValue(const InferArgs& args) {
  return StripLayout(args.operand(0));
}

Result<Literal> EvaluateMarkedValue(EvalContext&, const Instruction&, std::span<Literal> operands) {
  return std::move(operands[0]);
}

Result<Shape> InferCall(const InferArgs& args) {
  const Computation* callee = args.attrs.As<CallAttrs>().to_apply;
  TRY(CheckParameters("call", callee, args.operands));
  return ResultShape("call", callee);
}

Status CheckCall(const Instruction& call) {
  if (!call.attrs<CallAttrs>().is_composite) return {};
  const std::string* name = call.FrontendAttributeValue("composite.name");
  if (name == nullptr || name->empty()) {
    return InvalidArgument("call: a composite needs the frontend attribute composite.name");
  }
  if (const std::string* version = call.FrontendAttributeValue("composite.version")) {
    std::optional<int64_t> number = ParseInt(*version);
    if (!number || *number < 0) {
      return InvalidArgument("call: composite.version must be a number of at least 0, got ",
                             *version);
    }
  }
  return {};
}

Result<Literal> EvaluateCall(EvalContext& context, const Instruction& call,
                             std::span<Literal> operands) {
  return context.Call(*call.attrs<CallAttrs>().to_apply, operands);
}

Result<Shape> InferWhile(const InferArgs& args) {
  const auto& attrs = args.attrs.As<WhileAttrs>();
  TRY(CheckParameters("while condition", attrs.condition, args.operands));
  TRY(CheckParameters("while body", attrs.body, args.operands));
  Shape condition = TRY(ResultShape("while condition", attrs.condition));
  if (!condition.IsScalar() || condition.dtype() != DType::kPred) {
    return InvalidArgument("while: the condition returns ", condition.ToStringWithoutLayout(),
                           ", not pred[]");
  }
  Shape body = TRY(ResultShape("while body", attrs.body));
  if (!ShapesMatch(body, args.operand(0))) {
    return InvalidArgument("while: the body returns ", body.ToStringWithoutLayout(),
                           ", the initial value is ", args.operand(0).ToStringWithoutLayout());
  }
  return body;
}

// The loop's value is the sole owner of its bytes between iterations, so that the body can update
// it in place.
Result<Literal> EvaluateWhile(EvalContext& context, const Instruction& loop,
                              std::span<Literal> operands) {
  const auto& attrs = loop.attrs<WhileAttrs>();
  Literal state = std::move(operands[0]);
  while (true) {
    Literal go_on = TRY(context.CallReading(*attrs.condition, std::span<const Literal>(&state, 1)));
    if (go_on.dtype() != DType::kPred || go_on.size() != 1) {
      return InvalidArgument("while: the condition returned ", go_on.shape());
    }
    if (!std::as_const(go_on).values<bool>()[0]) return state;
    TRY(context.CountLoopStep(loop));
    state = TRY(context.Call(*attrs.body, std::span<Literal>(&state, 1)));
  }
}

Result<Shape> InferConditional(const InferArgs& args) {
  if (args.size() < 1) return InvalidArgument("conditional: has no operands");
  const auto& attrs = args.attrs.As<ConditionalAttrs>();
  const Shape& selector = args.operand(0);
  std::vector<Computation*> branches = attrs.branches();
  if (!selector.IsScalar() ||
      (selector.dtype() != DType::kPred && selector.dtype() != DType::kS32)) {
    return InvalidArgument("conditional: operand 0 must be pred[] or s32[], got ",
                           selector.ToStringWithoutLayout());
  }
  if (branches.empty() || (selector.dtype() == DType::kPred && branches.size() != 2)) {
    return InvalidArgument("conditional: ", branches.size(), " branches for a selector of type ",
                           Name(selector.dtype()));
  }
  if (args.size() != static_cast<int64_t>(branches.size()) + 1) {
    return InvalidArgument("conditional: takes a selector and one operand per branch, got ",
                           args.size(), " operands for ", branches.size(), " branches");
  }
  Shape result;
  for (size_t b = 0; b < branches.size(); ++b) {
    TRY(CheckParameters(StrCat("conditional branch ", b), branches[b],
                        args.operands.subspan(b + 1, 1)));
    Shape returned = TRY(ResultShape("conditional", branches[b]));
    if (b == 0) {
      result = std::move(returned);
    } else if (!ShapesMatch(result, returned)) {
      return InvalidArgument("conditional: branch ", b, " returns ",
                             returned.ToStringWithoutLayout(), ", branch 0 returns ",
                             result.ToStringWithoutLayout());
    }
  }
  return result;
}

// An index out of range selects the last branch.
Result<Literal> EvaluateConditional(EvalContext& context, const Instruction& conditional,
                                    std::span<Literal> operands) {
  std::vector<Computation*> branches = conditional.attrs<ConditionalAttrs>().branches();
  int64_t selected = operands[0].GetInt(0);
  if (operands[0].dtype() == DType::kPred) selected = selected != 0 ? 0 : 1;
  int64_t count = static_cast<int64_t>(branches.size());
  if (selected < 0 || selected >= count) selected = count - 1;
  for (int64_t b = 0; b < count; ++b) {
    if (b != selected) operands[static_cast<size_t>(b) + 1] = Literal();
  }
  return context.Call(*branches[static_cast<size_t>(selected)],
                      operands.subspan(static_cast<size_t>(selected) + 1, 1));
}

// Operands beyond the parameters are allowed and not used.
Result<Shape> InferFusion(const InferArgs& args) {
  const Computation* fused = args.attrs.As<FusionAttrs>().calls;
  if (fused == nullptr) return InvalidArgument("fusion: calls no computation");
  size_t used = std::min(fused->parameters().size(), args.operands.size());
  TRY(CheckParameters("fusion", fused, args.operands.first(used)));
  return ResultShape("fusion", fused);
}

Result<Literal> EvaluateFusion(EvalContext& context, const Instruction& fusion,
                               std::span<Literal> operands) {
  const Computation& fused = *fusion.attrs<FusionAttrs>().calls;
  return context.Call(fused, operands.first(std::min(fused.parameters().size(), operands.size())));
}

Result<Shape> InferAddDependency(const InferArgs& args) {
  TRY(CheckTokenOperand(args, 1));
  return StripLayout(args.operand(0));
}

Result<Shape> InferAfterAll(const InferArgs&) {
  return Shape::Token();
}

}  // namespace

template <>
OpRow Define<Op::kCall>() {
  return {.doc = "Applies a computation to the operands.",
          .infer = InferCall,
          .check = CheckCall,
          .evaluate = EvaluateCall,
          .no_dim_rule = "values go through the callee"};
}

template <>
OpRow Define<Op::kWhile>() {
  return {.doc = "Applies `body` to the value while `condition` of it is true.",
          .infer = InferWhile,
          .evaluate = EvaluateWhile,
          .no_dim_rule = "values go through the body"};
}

template <>
OpRow Define<Op::kConditional>() {
  return {.doc =
              "Applies the branch that operand 0 selects (pred: true first; s32: by index, the "
              "last one when out of range) to that branch's operand.",
          .infer = InferConditional,
          .evaluate = EvaluateConditional,
          .no_dim_rule = "values go through the branches"};
}

template <>
OpRow Define<Op::kFusion>() {
  return {.doc = "A call that is to be compiled as one kernel.",
          .infer = InferFusion,
          .check = [](const Instruction& fusion) -> Status {
            return CheckOperandAliases(fusion,
                                       fusion.attrs<FusionAttrs>().output_to_operand_aliasing);
          },
          .evaluate = EvaluateFusion,
          .no_dim_rule = "its computation is what has dimensions; inlined before partitioning"};
}

template <>
OpRow Define<Op::kOptBarrier>() {
  return {.doc = "The operand; nothing is moved or merged across it.",
          .infer = InferMarkedValue,
          .evaluate = EvaluateMarkedValue,
          .no_dim_rule = "elements of tuples go through as they are"};
}

template <>
OpRow Define<Op::kDomain>() {
  return {.doc = "The operand; its users and it may have different metadata (shardings).",
          .infer = InferMarkedValue,
          .evaluate = EvaluateMarkedValue,
          .dim_rule = RuleElementwise};
}

template <>
OpRow Define<Op::kAddDependency>() {
  return {.doc = "Operand 0, available only after the token of operand 1.",
          .infer = InferAddDependency,
          .evaluate = EvaluateMarkedValue,
          .no_dim_rule = "elements of tuples go through as they are"};
}

template <>
OpRow Define<Op::kAfterAll>() {
  return {.doc = "A token that comes after all operands, tokens or not.",
          .infer = InferAfterAll,
          .evaluate = [](EvalContext&, const Instruction&, std::span<Literal>) -> Result<Literal> {
            return Literal::Token();
          },
          .no_dim_rule = "a token"};
}

}  // namespace weft::hlo
