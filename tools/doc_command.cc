// weft doc: the op reference, from the rows of the op table.
#include <cstdio>

#include "base/nearest.h"
#include "commands.h"
#include "hlo/attrs.h"
#include "hlo/op.h"

namespace weft::tools {
namespace {

std::string_view FieldTypeName(hlo::FieldType type) {
  using enum hlo::FieldType;
  switch (type) {
    case kBool: return "bool";
    case kInt: return "integer";
    case kOptionalInt: return "integer";
    case kDouble: return "number";
    case kString: return "string";
    case kIntList: return "integers";
    case kIntListList: return "lists of integers";
    case kIntPairs: return "pairs of integers";
    case kEnum: return "one of";
    case kPrecisionList: return "precisions";
    case kWindow: return "window";
    case kConvDims: return "dimension labels";
    case kPadding: return "padding";
    case kSliceDims: return "slice";
    case kReplicaGroups: return "replica groups";
    case kSharding: return "sharding";
    case kComputation: return "computation";
    case kComputationList: return "computations";
    case kShape: return "shape";
    case kShapeList: return "shapes";
    case kLiteral: return "literal";
    case kOperandAliases: return "operand aliases";
    case kResultAccuracy: return "result accuracy";
    case kSparsity: return "sparsity";
  }
  return "";
}

std::string TraitList(uint32_t traits) {
  static constexpr std::pair<uint32_t, std::string_view> kNames[] = {
      {hlo::kElementwise, "elementwise"},  {hlo::kCommutative, "commutative"},
      {hlo::kAssociative, "associative"},  {hlo::kCollective, "collective"},
      {hlo::kAsyncStart, "async start"},   {hlo::kAsyncDone, "async done"},
      {hlo::kSideEffect, "side effect"},   {hlo::kShapeWritten, "result shape must be written"},
      {hlo::kCalls, "calls computations"},
  };
  std::string out;
  for (auto [bit, name] : kNames) {
    if (traits & bit) StrAppend(out, out.empty() ? "" : ", ", name);
  }
  return out;
}

std::string DescribeOp(const hlo::OpDef& def) {
  std::string out = StrCat("## ", def.mnemonic, "\n\n");
  if (!def.doc.empty()) StrAppend(out, def.doc, "\n\n");
  out += "- operands: ";
  out += def.arity < 0 ? std::string("any number") : StrCat(def.arity);
  out += '\n';
  if (std::string traits = TraitList(def.traits); !traits.empty()) {
    StrAppend(out, "- traits: ", traits, "\n");
  }
  if (def.evaluate == nullptr) out += "- not evaluated alone\n";
  hlo::Attrs attrs(def.attrs);
  for (const hlo::FieldRef& field : attrs.Fields()) {
    StrAppend(out, "- `", field.name, "`: ", FieldTypeName(field.type));
    if (field.type == hlo::FieldType::kEnum) {
      bool first = true;
      for (std::string_view name : field.enum_names) {
        if (name.empty()) continue;
        StrAppend(out, first ? " " : ", ", name);
        first = false;
      }
    }
    out += field.required ? "; required\n" : "\n";
  }
  return out + "\n";
}

Result<int> RunDoc(Args args) {
  std::vector<std::string> ops = TRY(args.Finish(0));
  std::string out;
  if (ops.empty()) {
    StrAppend(out, "# Ops of HLO\n\n", hlo::kOpCount, " ops, by name.\n\n");
    for (int i = 0; i < hlo::kOpCount; ++i) out += DescribeOp(hlo::GetOp(static_cast<hlo::Op>(i)));
  }
  int status = kOk;
  for (const std::string& name : ops) {
    if (std::optional<hlo::Op> op = hlo::FindOp(name)) {
      out += DescribeOp(hlo::GetOp(*op));
    } else {
      std::vector<std::string_view> known;
      for (int i = 0; i < hlo::kOpCount; ++i) known.push_back(Mnemonic(static_cast<hlo::Op>(i)));
      std::fprintf(stderr, "weft doc: no op is called %s%s\n", name.c_str(),
                   DidYouMean(name, known).c_str());
      status = kFailed;
    }
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
  return status;
}

}  // namespace

constexpr Command kDocCommand = {"doc", "prints the op reference",
                                 R"(usage: weft doc [OP]...

Prints what each op does, its operands, attributes and traits, as Markdown; all ops when none is
named.

examples:
  weft doc reduce-window
  weft doc > ops.md
)",
                                 RunDoc};

}  // namespace weft::tools
