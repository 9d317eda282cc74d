// Calls of functions, composites and custom calls, and attributes that any operation may carry.
#include "hlo/import/attr_values.h"
#include "hlo/import/to_hlo.h"

namespace weft::hlo::mlir {

// Shardings and frontend attributes.
Status Converter::ApplyDiscardable(const Operation& op, Instruction* value) {
  for (const NamedAttr& attr : op.attrs) {
    if (attr.name.find('.') == std::string_view::npos) continue;
    if (attr.name == "mhlo.frontend_attributes" && attr.value->kind == Attr::Kind::kDict) {
      for (size_t i = 0; i < attr.value->elements.size(); ++i) {
        value->mutable_extras().frontend_attributes.push_back(
            {std::string(attr.value->names[i]), std::string(attr.value->elements[i]->text)});
      }
    } else if (attr.name == "sdy.sharding_rule" && value->op() == Op::kCustomCall) {
      value->mutable_extras().frontend_attributes.push_back(
          {std::string(kShardingRule), TRY(ShardingRuleOf(*attr.value)).ToString()});
    } else if (attr.name == "mhlo.sharding" || attr.name == "sdy.sharding") {
      if (value->sharding() != nullptr || value->IsParameter()) continue;
      const Attr* shardings = attr.value->Find("shardings");
      if (shardings == nullptr) {
        value->mutable_extras().sharding.Make() = TRY(ShardingOf(*attr.value));
      } else if (shardings->elements.size() == 1 && op.results.size() == 1) {
        value->mutable_extras().sharding.Make() = TRY(ShardingOf(*shardings->elements[0]));
      } else if (shardings->elements.size() == op.results.size() && value->shape().IsTuple()) {
        Sharding all;
        all.kind = Sharding::Kind::kTuple;
        for (const Attr* one : shardings->elements) {
          all.elements.push_back(TRY(ShardingOf(*one)));
        }
        value->mutable_extras().sharding.Make() = std::move(all);
      }
    }
  }
  return {};
}

namespace {

Status ConvertCall(Converter& c, const Operation& op) {
  std::vector<Instruction*> operands = TRY(c.Operands(op));
  CallAttrs attrs;
  attrs.to_apply = TRY(c.Function(TextAttr(op, "callee")));
  return c.Bind(op, c.Emit(Op::kCall, operands, attrs, TRY(c.ResultShape(op))));
}

Status ConvertComposite(Converter& c, const Operation& op) {
  std::vector<Instruction*> operands = TRY(c.Operands(op));
  CallAttrs attrs{.is_composite = true};
  attrs.to_apply = TRY(c.Function(TextAttr(op, "decomposition")));
  Instruction* call = c.Emit(Op::kCall, operands, attrs, TRY(c.ResultShape(op)));
  std::string dictionary = "{}";
  if (const Attr* all = op.Find("composite_attributes"); all != nullptr && !all->elements.empty()) {
    dictionary.clear();
    AppendAttr(dictionary, *all);
  }
  FrontendAttributes& frontend = call->mutable_extras().frontend_attributes;
  frontend.push_back({"composite.attributes", std::move(dictionary), true});
  frontend.push_back({"composite.name", std::string(TextAttr(op, "name"))});
  frontend.push_back({"composite.version", StrCat(TRY(IntAttr(op, "version", 0)))});
  return c.Bind(op, call);
}

// `shape` with the dimensions in this order, minor first.
Result<Shape> WithLayout(Shape shape, const Attr& attr) {
  if (!shape.IsArray()) return shape;
  Ints order = TRY(IntsOf(attr));
  std::vector<bool> seen(static_cast<size_t>(shape.rank()));
  bool fits = order.size() == seen.size();
  for (int64_t d : order) {
    fits = fits && d >= 0 && d < shape.rank() && !seen[static_cast<size_t>(d)];
    if (fits) seen[static_cast<size_t>(d)] = true;
  }
  if (!fits) {
    return InvalidArgument("a layout does not fit ", shape.ToStringWithoutLayout());
  }
  shape.set_layout(Layout{.minor_to_major = Dims(order), .extras = {}});
  return shape;
}

Result<ApiVersion> ApiVersionOf(const Operation& op) {
  const Attr* attr = op.Find("api_version");
  if (attr == nullptr) return ApiVersion::kUnspecified;
  if (attr->kind == Attr::Kind::kInt) {
    if (attr->integer < 0 || attr->integer > 4) {
      return InvalidArgument("api_version is ", attr->integer);
    }
    return static_cast<ApiVersion>(attr->integer);
  }
  return EnumOf("api_version", attr->text, ApiVersion());
}

Status SetLayouts(const Operation& op, std::span<Instruction* const> operands,
                  CustomCallAttrs& attrs, Shape& shape) {
  if (const Attr* layouts = op.Find("operand_layouts");
      layouts != nullptr && !layouts->elements.empty()) {
    if (layouts->elements.size() != operands.size()) {
      return InvalidArgument("operand_layouts has ", layouts->elements.size(), " entries for ",
                             operands.size(), " operands");
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      attrs.operand_layout_constraints.push_back(
          TRY(WithLayout(operands[i]->shape(), *layouts->elements[i])));
    }
  }
  const Attr* layouts = op.Find("result_layouts");
  if (layouts == nullptr || layouts->elements.empty()) return {};
  if (!shape.IsTuple()) {
    shape = TRY(WithLayout(shape, *layouts->elements[0]));
    return {};
  }
  if (static_cast<int64_t>(layouts->elements.size()) != shape.tuple_size()) {
    return InvalidArgument("result_layouts has ", layouts->elements.size(), " entries for ",
                           shape.ToStringWithoutLayout());
  }
  for (size_t i = 0; i < layouts->elements.size(); ++i) {
    Shape& element = shape.mutable_tuple()[i];
    element = TRY(WithLayout(element, *layouts->elements[i]));
  }
  return {};
}

Result<OperandAliases> AliasesOf(const Operation& op) {
  OperandAliases aliases;
  const Attr* all = op.Find("output_operand_aliases");
  if (all == nullptr) return aliases;
  for (const Attr* one : all->elements) {
    const Attr* output = one->Find("output_tuple_indices");
    const Attr* operand = one->Find("operand_index");
    const Attr* inner = one->Find("operand_tuple_indices");
    if (operand == nullptr) return InvalidArgument("output_operand_aliases is malformed");
    OperandAlias& alias = aliases.emplace_back();
    alias.operand = IntOf(*operand).value_or(-1);
    if (output != nullptr) alias.output = ShapeIndex(TRY(IntsOf(*output)));
    if (inner != nullptr) alias.operand_index = ShapeIndex(TRY(IntsOf(*inner)));
  }
  return aliases;
}

void SetBackendConfig(const Operation& op, Instruction* call) {
  const Attr* config = op.Find("backend_config");
  const Attr* more = op.Find("mhlo.backend_config");
  if (more != nullptr && (config == nullptr || config->text.empty())) config = more;
  if (config == nullptr) return;
  BackendConfig to;
  if (config->kind == Attr::Kind::kDict) {
    to.is_dict = true;
    AppendAttr(to.text, *config);
  } else {
    to.text = config->text;
  }
  if (!to.text.empty()) call->mutable_extras().backend_config = std::move(to);
}

// JAX has no operation of StableHLO for it: groups and channel stand in the call's dictionary.
Status ConvertRaggedAllToAll(Converter& c, const Operation& op, const Attr& config) {
  RaggedAllToAllAttrs attrs;
  if (const Attr* groups = config.Find("replica_groups")) {
    attrs.replica_groups.groups = TRY(IntRowsOf(*groups));
  }
  if (const Attr* channel = config.Find("channel_id")) {
    const int64_t id = IntOf(*channel).value_or(0);
    if (id > 0) attrs.channel_id = id;
  }
  return c.EmitAndBind(op, Op::kRaggedAllToAll, std::move(attrs));
}

Status ConvertCustomCall(Converter& c, const Operation& op) {
  std::vector<Instruction*> operands = TRY(c.Operands(op));
  if (const Attr* config = op.Find("backend_config");
      TextAttr(op, "call_target_name") == "ragged_all_to_all" && operands.size() == 6 &&
      config != nullptr && config->kind == Attr::Kind::kDict) {
    return ConvertRaggedAllToAll(c, op, *config);
  }
  CustomCallAttrs attrs;
  attrs.custom_call_target = TextAttr(op, "call_target_name");
  attrs.custom_call_has_side_effect = BoolAttr(op, "has_side_effect");
  attrs.api_version = TRY(ApiVersionOf(op));
  attrs.output_to_operand_aliasing = TRY(AliasesOf(op));
  if (const Attr* called = op.Find("called_computations")) {
    for (const Attr* name : called->elements) {
      attrs.called_computations.push_back(TRY(c.Function(name->text)));
    }
  }
  Shape shape = TRY(c.ResultShape(op));
  TRY(SetLayouts(op, operands, attrs, shape));
  Instruction* call = c.Emit(Op::kCustomCall, operands, std::move(attrs), std::move(shape));
  SetBackendConfig(op, call);
  return c.Bind(op, call);
}

constexpr HandlerRow kCallRows[] = {
    {"call", ConvertCall},
    {"composite", ConvertComposite},
    {"custom_call", ConvertCustomCall},
};

}  // namespace

std::span<const HandlerRow> CallHandlers() {
  return kCallRows;
}

}  // namespace weft::hlo::mlir
