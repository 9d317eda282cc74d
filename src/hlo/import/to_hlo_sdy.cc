// Shardy: meshes, shardings, and operations that state shardings.
#include <algorithm>

#include "hlo/import/attr_values.h"
#include "hlo/import/import.h"
#include "hlo/import/to_hlo.h"
#include "hlo/text.h"

namespace weft::hlo::mlir {
namespace {

// Lists are written as an array, or as a dictionary of one.
std::span<const Attr* const> ItemsOf(const Attr& attr) {
  if (attr.kind == Attr::Kind::kDict) {
    for (std::string_view name : {"value", "shardings"}) {
      if (const Attr* list = attr.Find(name)) return list->elements;
    }
    return {};
  }
  return attr.elements;
}

Sharding OfKind(Sharding::Kind kind) {
  Sharding sharding;
  sharding.kind = kind;
  return sharding;
}

Result<int64_t> MeshSize(const Mesh& mesh) {
  int64_t size = 1;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.size < 1 || size > (int64_t{1} << 32) / axis.size) {
      return InvalidArgument("mesh axis ", axis.name, " has size ", axis.size);
    }
    size *= axis.size;
  }
  return size;
}

}  // namespace

Result<Mesh> Converter::MeshOf(const Attr& mesh_or_name) {
  const Attr* attr = &mesh_or_name;
  if (attr->kind == Attr::Kind::kSymbol || attr->kind == Attr::Kind::kString) {
    auto it = meshes_.find(attr->text);
    if (it == meshes_.end()) return NotFound("there is no mesh @", attr->text);
    attr = it->second;
  }
  if (attr->kind != Attr::Kind::kDict) return InvalidArgument("a mesh is expected");
  Mesh mesh;
  if (const Attr* axes = attr->Find("axes")) {
    for (const Attr* axis : ItemsOf(*axes)) {
      const Attr* name = axis->Find("name");
      const Attr* size = axis->Find("size");
      if (name == nullptr || size == nullptr) return InvalidArgument("a mesh axis is malformed");
      mesh.axes.push_back({.name = std::string(name->text), .size = IntOf(*size).value_or(0)});
    }
  }
  int64_t size = TRY(MeshSize(mesh));
  if (const Attr* ids = attr->Find("device_ids")) {
    Ints devices = TRY(IntsOf(*ids));
    if (mesh.axes.empty() && devices.size() == 1) {
      mesh.maximal = devices[0];
    } else if (!devices.empty()) {
      if (static_cast<int64_t>(devices.size()) != size) {
        return InvalidArgument("a mesh of ", size, " devices lists ", devices.size());
      }
      mesh.devices = DeviceList{.ids = std::move(devices), .iota = {}};
    }
  }
  return mesh;
}

Result<std::vector<AxisRef>> Converter::AxesOf(const Mesh& mesh, const Attr& list) {
  std::vector<AxisRef> axes;
  for (const Attr* one : ItemsOf(list)) {
    const Attr* name = one->kind == Attr::Kind::kDict ? one->Find("name") : one;
    if (name == nullptr) return InvalidArgument("an axis has no name");
    auto it = std::find_if(mesh.axes.begin(), mesh.axes.end(),
                           [&](const MeshAxis& axis) { return axis.name == name->text; });
    if (it == mesh.axes.end()) return InvalidArgument("the mesh has no axis \"", name->text, "\"");
    AxisRef& ref = axes.emplace_back();
    ref.axis = it - mesh.axes.begin();
    const Attr* part = one->kind == Attr::Kind::kDict ? one->Find("sub_axis_info") : nullptr;
    if (part == nullptr || part->kind != Attr::Kind::kDict) continue;
    const Attr* pre_size = part->Find("pre_size");
    const Attr* size = part->Find("size");
    if (pre_size == nullptr || size == nullptr) return InvalidArgument("a sub-axis is malformed");
    ref.sub = {IntOf(*pre_size).value_or(0), IntOf(*size).value_or(0)};
  }
  return axes;
}

Result<Sharding> Converter::ShardingOf(const Attr& attr) {
  if (attr.kind == Attr::Kind::kString) {
    Result<Sharding> parsed = ParseSharding(attr.text);
    if (!parsed) return InvalidArgument("sharding ", attr.text, ": ", parsed.error().message());
    return parsed;
  }
  if (attr.kind != Attr::Kind::kDict) return InvalidArgument("a sharding is expected");
  const Attr* mesh = attr.Find("mesh_or_ref");
  if (mesh == nullptr) return InvalidArgument("a sharding has no mesh");
  Sharding sharding = OfKind(Sharding::Kind::kNamed);
  NamedSharding& named = sharding.named.Make();
  named.mesh = TRY(MeshOf(*mesh));
  if (named.mesh.maximal) {
    Sharding maximal = OfKind(Sharding::Kind::kMaximal);
    maximal.device = *named.mesh.maximal;
    return maximal;
  }
  if (named.mesh.axes.empty()) return OfKind(Sharding::Kind::kReplicated);
  if (const Attr* dims = attr.Find("dim_shardings")) {
    for (const Attr* one : ItemsOf(*dims)) {
      DimSharding& dim = named.dims.emplace_back();
      if (const Attr* axes = one->Find("axes")) dim.axes = TRY(AxesOf(named.mesh, *axes));
      const Attr* closed = one->Find("is_closed");
      dim.open = closed != nullptr && IntOf(*closed) == 0;
      const Attr* priority = one->Find("priority");
      if (priority != nullptr) dim.priority = IntOf(*priority);
    }
  }
  if (const Attr* axes = attr.Find("replicated_axes")) {
    named.replicated = TRY(AxesOf(named.mesh, *axes));
  }
  if (const Attr* axes = attr.Find("unreduced_axes")) {
    named.unreduced = TRY(AxesOf(named.mesh, *axes));
  }
  // How the parts are put together: Shardy's numbers are those of XLA's message, one less than
  // ours.
  if (const Attr* reduction = attr.Find("reduction_op"); reduction && !named.unreduced.empty()) {
    const int64_t kind = IntOf(*reduction).value_or(0);
    if (kind < 0 || kind > 2) return InvalidArgument("a sharding's reduction: ", kind);
    if (kind > 0) named.unreduced_kind = static_cast<ReductionKind>(kind + 1);
  }
  return sharding;
}

Result<DimRule> Converter::ShardingRuleOf(const Attr& attr) {
  auto list = [&](std::string_view name) -> Result<Ints> {
    const Attr* ints = attr.Find(name);
    if (ints == nullptr) return Ints();
    return IntsOf(*ints);
  };
  DimRule rule;
  for (int64_t size : TRY(list("factor_sizes"))) rule.factors.push_back({.size = size});
  auto mark = [&](std::string_view name, FactorKind kind) -> Status {
    for (int64_t f : TRY(list(name))) {
      if (f < 0 || f >= std::ssize(rule.factors)) {
        return InvalidArgument("sharding rule: ", name, " names factor ", f, " of ",
                               rule.factors.size());
      }
      rule.factors[static_cast<size_t>(f)].kind = kind;
    }
    return {};
  };
  TRY(mark("reduction_factors", FactorKind::kReduced));
  TRY(mark("permutation_factors", FactorKind::kPermuted));
  TRY(mark("need_replication_factors", FactorKind::kWhole));
  auto tensors = [&](std::string_view name, std::vector<DimRule::Tensor>& to) -> Status {
    const Attr* all = attr.Find(name);
    if (all == nullptr) return {};
    for (const Attr* one : ItemsOf(*all)) {
      DimRule::Tensor& tensor = to.emplace_back();
      const Attr* dims = one->Find("dim_mappings");
      if (dims == nullptr) continue;
      for (const Attr* dim : ItemsOf(*dims)) {
        DimRule::Dim& factors = tensor.emplace_back();
        const Attr* indices = dim->Find("factor_indices");
        if (indices == nullptr) continue;
        for (int64_t f : TRY(IntsOf(*indices))) {
          if (f < 0 || f >= std::ssize(rule.factors)) {
            return InvalidArgument("sharding rule: factor ", f, " of ", rule.factors.size());
          }
          factors.push_back(static_cast<int>(f));
        }
      }
    }
    return {};
  };
  TRY(tensors("operand_mappings", rule.operands));
  TRY(tensors("result_mappings", rule.results));
  return rule;
}

namespace {

// Whether everything is on one device, so that shardings say nothing.
Result<bool> IsTrivial(const Sharding& sharding) {
  if (sharding.kind == Sharding::Kind::kReplicated) return true;
  if (sharding.kind != Sharding::Kind::kNamed) return false;
  return TRY(MeshSize(sharding.named->mesh)) == 1;
}

Instruction* EmitAnnotation(Converter& c, std::string_view target, Instruction* operand,
                            Shape shape, Sharding sharding) {
  CustomCallAttrs attrs;
  attrs.custom_call_target = target;
  Instruction* call = c.Emit(Op::kCustomCall, {operand}, std::move(attrs), std::move(shape));
  call->mutable_extras().sharding.Make() = std::move(sharding);
  return call;
}

Status Constrain(Converter& c, const Operation& op, std::string_view attribute) {
  Instruction* operand = TRY(c.Operand(op, 0));
  const Attr* attr = op.Find(attribute);
  if (attr == nullptr) return InvalidArgument("attribute ", attribute, " is missing");
  Sharding sharding = TRY(c.ShardingOf(*attr));
  if (TRY(IsTrivial(sharding))) return c.BindEach(op, std::span(&operand, 1));
  Shape shape = operand->shape();
  operand = EmitAnnotation(c, "Sharding", operand, std::move(shape), std::move(sharding));
  return c.BindEach(op, std::span(&operand, 1));
}

Status ConvertConstraint(Converter& c, const Operation& op) {
  return Constrain(c, op, "sharding");
}

// Shardy's collectives change how a value lies on the devices, not the value.
Status ConvertReshard(Converter& c, const Operation& op) {
  return Constrain(c, op, "out_sharding");
}

Status ConvertIdentity(Converter& c, const Operation& op) {
  return c.BindEach(op, TRY(c.Operands(op)));
}

// What an edge of the data flow states holds for the value that comes along it.
Status ConvertEdge(Converter& c, const Operation& op) {
  return op.Find("sharding") != nullptr ? ConvertConstraint(c, op) : ConvertIdentity(c, op);
}

// A copy that says in which direction shardings go through it: FORWARD, BACKWARD, BOTH or NONE.
Status ConvertPropagationBarrier(Converter& c, const Operation& op) {
  Instruction* operand = TRY(c.Operand(op, 0));
  const std::string_view direction = TextAttr(op, "allowed_direction");
  if (direction == "BOTH") return c.BindEach(op, std::span(&operand, 1));
  if (direction != "FORWARD" && direction != "BACKWARD" && direction != "NONE") {
    return InvalidArgument("allowed_direction is '", direction, "'");
  }
  Shape shape = operand->shape();
  Instruction* copy = c.Emit(Op::kCopy, {operand}, Attrs(), std::move(shape));
  copy->mutable_extras().frontend_attributes.push_back(
      {"sharding.barrier", std::string(direction)});
  return c.BindEach(op, std::span(&copy, 1));
}

Status ConvertNothing(Converter&, const Operation&) {
  return {};
}

// Values of one group lie alike on the devices: each says so in its frontend attributes.
Status ConvertGroup(Converter& c, const Operation& op) {
  Instruction* member = TRY(c.Operand(op, 0));
  const int64_t id = TRY(RequiredInt(op, "group_id"));
  for (FrontendAttribute& attribute : member->mutable_extras().frontend_attributes) {
    if (attribute.key != "sharding.groups") continue;
    StrAppend(attribute.value, ",", id);
    return {};
  }
  member->mutable_extras().frontend_attributes.push_back({"sharding.groups", StrCat(id)});
  return {};
}

Status ConvertNamedComputation(Converter& c, const Operation& op) {
  std::vector<Instruction*> operands = TRY(c.Operands(op));
  return c.BindEach(op, TRY(c.InlineBlock(op, 0, operands)));
}

Result<std::vector<Sharding>> ShardingsOf(Converter& c, const Operation& op, std::string_view name,
                                          size_t count) {
  std::vector<Sharding> shardings;
  const Attr* attr = op.Find(name);
  if (attr != nullptr) {
    for (const Attr* one : ItemsOf(*attr)) shardings.push_back(TRY(c.ShardingOf(*one)));
  }
  if (shardings.size() != count) {
    return InvalidArgument(name, " has ", shardings.size(), " entries for ", count, " values");
  }
  return shardings;
}

std::string TupleText(const std::vector<Sharding>& shardings) {
  Sharding all = OfKind(Sharding::Kind::kTuple);
  all.elements = shardings;
  return all.ToString();
}

// See import.h for the form.
Status ConvertManual(Converter& c, const Operation& op) {
  std::vector<Instruction*> operands = TRY(c.Operands(op));
  std::vector<Sharding> in = TRY(ShardingsOf(c, op, "in_shardings", operands.size()));
  std::vector<Sharding> out = TRY(ShardingsOf(c, op, "out_shardings", op.results.size()));
  bool trivial = true;
  for (const Sharding& sharding : in) trivial &= TRY(IsTrivial(sharding));
  for (const Sharding& sharding : out) trivial &= TRY(IsTrivial(sharding));
  if (trivial) return c.BindEach(op, TRY(c.InlineBlock(op, 0, operands)));

  std::string axes;
  if (const Attr* list = op.Find("manual_axes")) {
    for (const Attr* axis : ItemsOf(*list)) StrAppend(axes, axes.empty() ? "" : ",", axis->text);
  }
  const Region* region = op.regions.empty() ? nullptr : &op.regions[0];
  if (region == nullptr || region->blocks.size() != 1 ||
      region->blocks[0].arguments.size() != operands.size()) {
    return InvalidArgument("the body does not take ", operands.size(), " arguments");
  }
  if (!TRY(c.Captures(std::span(&region, 1))).empty()) {
    return Unimplemented("the body uses values from outside");
  }
  auto annotate = [&](Instruction* i) {
    i->mutable_extras().frontend_attributes.push_back({"manual.axes", axes});
  };
  std::vector<Instruction*> local;
  for (size_t i = 0; i < operands.size(); ++i) {
    Shape shape = TRY(c.ShapeOf(region->blocks[0].arguments[i]->type));
    local.push_back(
        EmitAnnotation(c, "SPMDFullToShardShape", operands[i], std::move(shape), in[i]));
    annotate(local.back());
  }
  CallAttrs attrs;
  attrs.to_apply = TRY(c.RegionFunction(op, 0, "manual"));
  Shape result = attrs.to_apply->root()->shape();
  Instruction* call = c.Emit(Op::kCall, local, attrs, result);
  annotate(call);
  FrontendAttributes& frontend = call->mutable_extras().frontend_attributes;
  frontend.push_back({"manual.in", TupleText(in)});
  frontend.push_back({"manual.out", TupleText(out)});
  bool tuple = op.results.size() != 1;
  if (tuple &&
      (!result.IsTuple() || result.tuple_size() != static_cast<int64_t>(op.results.size()))) {
    return InvalidArgument("the body returns ", result.ToStringWithoutLayout());
  }
  std::vector<Instruction*> results;
  for (size_t i = 0; i < op.results.size(); ++i) {
    Instruction* part = tuple ? c.EmitElement(call, static_cast<int64_t>(i)) : call;
    Shape shape = TRY(c.ShapeOf(op.results[i]->type));
    results.push_back(EmitAnnotation(c, "SPMDShardToFullShape", part, std::move(shape), out[i]));
    annotate(results.back());
  }
  return c.BindEach(op, results);
}

constexpr HandlerRow kShardyRows[] = {
    {"sdy.all_gather", ConvertReshard},
    {"sdy.all_reduce", ConvertReshard},
    {"sdy.all_slice", ConvertReshard},
    {"sdy.all_to_all", ConvertReshard},
    {"sdy.collective_permute", ConvertReshard},
    {"sdy.constant",
     [](Converter& c, const Operation& op) { return FindHandler("constant")(c, op); }},
    {"sdy.data_flow_edge", ConvertEdge},
    {"sdy.manual_computation", ConvertManual},
    {"sdy.mesh", ConvertNothing},
    {"sdy.named_computation", ConvertNamedComputation},
    {"sdy.propagation_barrier", ConvertPropagationBarrier},
    {"sdy.reduce_scatter", ConvertReshard},
    {"sdy.replicated_to_unreduced", ConvertReshard},
    {"sdy.reshard", ConvertConstraint},
    {"sdy.sharded_to_unreduced", ConvertReshard},
    {"sdy.sharding_constraint", ConvertConstraint},
    {"sdy.sharding_group", ConvertGroup},
};

}  // namespace

std::span<const HandlerRow> ShardyHandlers() {
  return kShardyRows;
}

}  // namespace weft::hlo::mlir
