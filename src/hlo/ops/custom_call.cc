// custom-call: known targets, then whatever the evaluation's options bring.
#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/custom_calls.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/called.h"
#include "hlo/ops/dim_rules.h"

namespace weft::hlo {
namespace {

Result<Shape> InferCustomCall(const InferArgs& args) {
  if (args.declared == nullptr) {
    return InvalidArgument("custom-call: the result shape must be written");
  }
  return StripLayout(*args.declared);
}

Status CheckCustomCall(const Instruction& call) {
  const auto& attrs = call.attrs<CustomCallAttrs>();
  TRY(CheckOperandAliases(call, attrs.output_to_operand_aliasing));
  const std::vector<Shape>& constraints = attrs.operand_layout_constraints;
  if (!constraints.empty() && attrs.custom_call_target != "LayoutConstraint" &&
      attrs.custom_call_target != "control_dep") {
    if (static_cast<int64_t>(constraints.size()) != call.operand_count()) {
      return InvalidArgument("custom-call: ", constraints.size(), " layout constraints for ",
                             call.operand_count(), " operands");
    }
    for (int64_t i = 0; i < call.operand_count(); ++i) {
      if (!ShapesMatch(constraints[static_cast<size_t>(i)], call.operand(i)->shape())) {
        return InvalidArgument("custom-call: operand ", i, " has shape ",
                               call.operand(i)->shape().ToStringWithoutLayout(),
                               ", its layout constraint is ",
                               constraints[static_cast<size_t>(i)].ToStringWithoutLayout());
      }
    }
  }
  if (attrs.custom_call_target == "GetRngSeed" &&
      (call.operand_count() != 0 || !call.shape().IsScalar() ||
       call.shape().dtype() != DType::kU64)) {
    return InvalidArgument("custom-call: GetRngSeed takes nothing and returns u64[], got ",
                           call.shape().ToStringWithoutLayout());
  }
  return {};
}

Result<Literal> EvaluateCustomCall(EvalContext& context, const Instruction& call,
                                   std::span<Literal> operands) {
  std::optional<Literal> known = TRY(EvaluateKnownCustomCall(context, call, operands));
  if (known) return std::move(*known);
  const std::string& target = call.attrs<CustomCallAttrs>().custom_call_target;
  if (context.options().custom_call) {
    Result<Literal> value = context.options().custom_call(call, operands);
    if (value || value.error().code() != Code::kUnimplemented) return value;
  }
  return Unimplemented("custom-call: target ", target, " is not known for ",
                       call.shape().ToStringWithoutLayout());
}

}  // namespace

template <>
OpRow Define<Op::kCustomCall>() {
  return {.doc = "Code from outside, found by the name of its target.",
          .infer = InferCustomCall,
          .check = CheckCustomCall,
          .evaluate = EvaluateCustomCall,
          .dim_rule = RuleCustomCall};
}

}  // namespace weft::hlo
