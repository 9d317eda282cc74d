// What the reader itself asks of operands and attributes together; the rest is the verifier's.
#include "hlo/text/parse_pending.h"
#include "hlo/text/parser.h"

namespace weft::hlo::text {
namespace {

const std::vector<int64_t>* DimensionsOf(const Attrs& attrs) {
  const FieldList fields = attrs.Fields();
  const FieldRef* f = fields.Find("dimensions");
  return f != nullptr ? &f->As<std::vector<int64_t>>() : nullptr;
}

std::string CheckConditional(const ConditionalAttrs& a, std::span<Instruction* const> operands) {
  if (operands.empty()) return "takes at least one operand, got 0";
  const Shape& selector = operands[0]->shape();
  bool pred = selector.dtype() == DType::kPred;
  if (!selector.IsScalar() || (!pred && selector.dtype() != DType::kS32)) {
    return StrCat("the selector is pred[] or s32[], not ", selector);
  }
  bool two = a.true_computation != nullptr && a.false_computation != nullptr;
  bool any = a.true_computation != nullptr || a.false_computation != nullptr;
  if (pred && (!two || !a.branch_computations.empty())) {
    return "a pred selector takes true_computation and false_computation";
  }
  if (!pred && (any || a.branch_computations.empty())) {
    return "an s32 selector takes branch_computations";
  }
  size_t branches = a.branches().size();
  if (branches + 1 == operands.size()) return "";
  return StrCat(branches, " branches, ", operands.size() - 1, " operands for them");
}

std::string CheckCustomCall(const CustomCallAttrs& a, bool version_written,
                            std::span<Instruction* const> operands) {
  if (a.to_apply != nullptr && !a.called_computations.empty()) {
    return "both to_apply and called_computations";
  }
  if (version_written && a.api_version == ApiVersion::kUnspecified) {
    return "api_version=API_VERSION_UNSPECIFIED is not a version";
  }
  const std::vector<Shape>& constraints = a.operand_layout_constraints;
  if (constraints.empty()) return "";
  if (constraints.size() != operands.size()) {
    return StrCat(constraints.size(), " operand_layout_constraints for ", operands.size(),
                  " operands");
  }
  for (size_t i = 0; i < constraints.size(); ++i) {
    if (!Shape::CompatibleIgnoringDynamic(constraints[i], operands[i]->shape())) {
      return StrCat("operand ", i, " is ", operands[i]->shape().ToStringWithoutLayout(),
                    ", its layout constraint ", constraints[i].ToStringWithoutLayout());
    }
  }
  return "";
}

std::string CheckReshape(const Shape& from, const Shape& to) {
  if (from.IsArray() && to.IsArray() &&
      (from.HasUnboundedDims() || from.CheckedElements() == to.CheckedElements())) {
    return "";
  }
  return StrCat(from.ToStringWithoutLayout(), " and ", to.ToStringWithoutLayout(),
                " differ in number of elements");
}

}  // namespace

// Empty: fine.
std::string Parser::WhatIsWrong(const Pending& p) const {
  size_t count = p.operands.size();
  int arity = Arity(p.op);
  if (arity >= 0 && count != static_cast<size_t>(arity)) {
    return StrCat("takes ", arity, " operand", arity == 1 ? "" : "s", ", got ", count);
  }
  switch (p.op) {
    case Op::kTuple:
      if (!p.has_shape ||
          (p.shape.IsTuple() && p.shape.tuple_size() == static_cast<int64_t>(count))) {
        return "";
      }
      return StrCat(count, " operands do not make the shape ", p.shape.ToStringWithoutLayout());
    case Op::kBroadcast:
      if (p.operands[0]->shape().rank() == 0 || p.common.seen_fields != 0) return "";
      return StrCat("attribute dimensions is missing for operand ",
                    p.operands[0]->shape().ToStringWithoutLayout());
    case Op::kReshape: return CheckReshape(p.operands[0]->shape(), p.shape);
    case Op::kDynamicReshape:
      if (count == 0) return "takes at least one operand, got 0";
      if (static_cast<int64_t>(count) - 1 != p.shape.rank()) {
        return StrCat(count - 1, " sizes for the ", p.shape.rank(), " dimensions of ",
                      p.shape.ToStringWithoutLayout());
      }
      return CheckReshape(p.operands[0]->shape(), p.shape);
    case Op::kConditional: return CheckConditional(p.attrs.As<ConditionalAttrs>(), p.operands);
    case Op::kCustomCall: {
      const FieldList fields = p.attrs.Fields();
      bool version_written =
          (p.common.seen_fields >> (fields.Find("api_version") - fields.begin()) & 1) != 0;
      return CheckCustomCall(p.attrs.As<CustomCallAttrs>(), version_written, p.operands);
    }
    case Op::kInfeed:
    case Op::kRecv:
      if (!p.has_shape || (p.shape.IsTuple() && p.shape.tuple_size() > 0)) return "";
      return StrCat("the result is a tuple, not ", p.shape.ToStringWithoutLayout());
    case Op::kAllGather:
    case Op::kAllGatherStart:
    case Op::kReduceScatter:
    case Op::kSort:
    case Op::kConcatenate:
    case Op::kScan:
    case Op::kGetDimensionSize:
    case Op::kSetDimensionSize: {
      const std::vector<int64_t>* dimensions = DimensionsOf(p.attrs);
      if (dimensions == nullptr || dimensions->size() == 1) return "";
      return StrCat("takes one dimension, got ", dimensions->size());
    }
    case Op::kAllToAll:
    case Op::kRaggedAllToAll: {
      const std::vector<int64_t>* dimensions = DimensionsOf(p.attrs);
      if (dimensions == nullptr || dimensions->size() <= 1) return "";
      return StrCat("takes one dimension, got ", dimensions->size());
    }
    default: return "";
  }
}

Status Parser::CheckInstruction(const Pending& p) {
  std::string wrong = WhatIsWrong(p);
  if (wrong.empty()) return {};
  return FailAt(p.op_at, Mnemonic(p.op), ": ", wrong);
}

}  // namespace weft::hlo::text
