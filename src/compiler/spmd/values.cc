#include "compiler/spmd/values.h"

#include <algorithm>
#include <utility>

#include "base/str.h"
#include "compiler/spmd/window.h"

namespace weft::compiler::spmd {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

bool IsCallOf(const Instruction& i, std::string_view target) {
  return i.op() == Op::kCustomCall && i.attrs<hlo::CustomCallAttrs>().custom_call_target == target;
}

namespace {

// The axes that the frontend attribute `manual.axes` names; none where it is not there.
AxisSet NamedManualAxes(const Instruction& i, const DeviceMesh& mesh) {
  const std::string* names = i.FrontendAttributeValue("manual.axes");
  AxisSet set = 0;
  for (size_t at = 0; names != nullptr && at < names->size();) {
    const size_t end = std::min(names->find(',', at), names->size());
    const std::string_view name = std::string_view(*names).substr(at, end - at);
    for (size_t k = 0; k < mesh.pieces.size(); ++k) {
      const size_t axis = static_cast<size_t>(mesh.pieces[k].axis);
      if (mesh.axes[axis].name == name) set |= BitOf(static_cast<int>(k));
    }
    at = end + 1;
  }
  return set;
}

}  // namespace

Result<AxisSet> ManualAxes(const Instruction& boundary, const DeviceMesh& mesh) {
  const std::string* names = boundary.FrontendAttributeValue("manual.axes");
  if (names != nullptr && !names->empty()) return NamedManualAxes(boundary, mesh);
  // The side that is of one device says so itself.
  const Instruction& local = IsCallOf(boundary, kFullToShard) ? boundary : *boundary.operand(0);
  const hlo::Sharding* stated = LeafSharding(local.sharding(), local.shape(), 0);
  if (stated == nullptr) return mesh.all();
  const Form form = TRY(ReadForm(*stated, local.shape(), mesh));
  return form.manual != 0 ? form.manual : mesh.all();
}

Result<ValueTable> ValueTable::Of(const hlo::Module& module, const DeviceMesh& mesh) {
  ValueTable table(mesh);
  table.entry_ = module.entry();
  table.Reserve(static_cast<size_t>(module.instruction_count()));
  TRY(table.Visit(*module.entry(), {}, 0));
  table.JoinGroups();
  table.FlowManual();
  table.FlowUnreduced();
  return table;
}

std::span<const int> ValueTable::ValuesOf(const Instruction* i) const {
  auto it = of_.find(i);
  return it != of_.end() ? std::span<const int>(it->second) : std::span<const int>();
}

AxisSet ValueTable::ManualOf(const Computation* computation) const {
  auto it = manual_of_.find(computation);
  return it != manual_of_.end() ? it->second : 0;
}

Status ValueTable::Visit(const Computation& computation, std::span<const ValueIds> parameters,
                         AxisSet manual) {
  computations_.push_back(&computation);
  const AxisSet outer = std::exchange(manual_, manual);
  manual_of_[&computation] = manual;
  for (const Instruction* i : computation) {
    const bool given =
        i->IsParameter() && static_cast<size_t>(i->parameter_number()) < parameters.size();
    if (given) {
      of_[i] = parameters[static_cast<size_t>(i->parameter_number())];
    } else {
      TRY(AddValues(*i));
      TRY(VisitInstruction(*i));
    }
  }
  manual_ = outer;
  return {};
}

Status ValueTable::AddValues(const Instruction& i) {
  ValueIds ids;
  for (const Shape* shape : LeavesOf(i.shape())) {
    ids.push_back(static_cast<int>(values_.size()));
    values_.push_back({.instruction = &i,
                       .shape = shape,
                       .form = Form::Replicated(shape->IsArray() ? shape->rank() : 0, true),
                       .banned = manual_});
  }
  of_[&i] = std::move(ids);
  return ReadStated(i);
}

namespace {

// What the module says about parameters or results that state nothing; one flag may stand for all.
bool MayPropagate(const std::vector<bool>& flags, size_t k) {
  if (flags.empty()) return false;
  return flags.size() == 1 ? flags[0] : k < flags.size() && flags[k];
}

// Numbers of groups whose members lie alike (sdy.sharding_group).
std::vector<int64_t> GroupsOf(const Instruction& i) {
  std::vector<int64_t> groups;
  const std::string* text = i.FrontendAttributeValue("sharding.groups");
  for (size_t at = 0; text != nullptr && at < text->size();) {
    const size_t end = std::min(text->find(',', at), text->size());
    std::optional<int64_t> id = ParseInt(std::string_view(*text).substr(at, end - at));
    if (id) groups.push_back(*id);
    at = end + 1;
  }
  return groups;
}

}  // namespace

Status ValueTable::ReadStated(const Instruction& i) {
  const ValueIds& ids = of_[&i];
  const bool boundary = IsCallOf(i, kFullToShard);
  for (size_t leaf = 0; leaf < ids.size(); ++leaf) {
    ShardedValue& value = values_[static_cast<size_t>(ids[leaf])];
    const hlo::Sharding* stated = LeafSharding(i.sharding(), i.shape(), leaf);
    if (stated != nullptr && !boundary && value.shape->IsArray()) {
      Result<const Form*> form = reader_.Read(*stated, *value.shape);
      if (!form) {
        form.error().Note(StrCat("at ", i.ToString()));
        return std::unexpected(form.error());
      }
      value.form = **form;
      value.stated = stated->kind != hlo::Sharding::Kind::kUnknown;
      // Parts would need run-time sizes of their own.
      if (value.shape->HasDynamicDims() && value.form.cut() != 0) {
        return Unimplemented("a sharded array with dynamic dimensions: ", i.ToString());
      }
      if (stated->group != hlo::Sharding::Group::kNone) {
        groups_.emplace_back(stated->group_id, ids[leaf]);
        for (DimForm& dim : value.form.dims) dim.open = true;
      }
    }
    const hlo::ModuleConfig& config = i.parent()->module()->config();
    if (i.parent() == entry_ && (i.IsParameter() || i.IsRoot())) value.even = true;
    if (stated == nullptr && i.IsParameter() && i.parent() == entry_) {
      const size_t number = static_cast<size_t>(i.parameter_number());
      if (!MayPropagate(config.propagate_sharding_to_parameters, number)) {
        value.form = Form::Replicated(static_cast<int64_t>(value.form.dims.size()));
      }
    }
    if (stated == nullptr && i.IsRoot() && i.parent() == entry_ &&
        !MayPropagate(config.propagate_sharding_to_output, leaf)) {
      value.form = Form::Replicated(static_cast<int64_t>(value.form.dims.size()));
    }
  }
  if (ids.size() == 1) {
    for (int64_t group : GroupsOf(i)) groups_.emplace_back(group, ids[0]);
  }
  return {};
}

Status ValueTable::VisitInstruction(const Instruction& i) {
  switch (i.op()) {
    case Op::kTuple: {
      ValueIds from;
      for (const Instruction* operand : i.operands()) {
        for (int id : of_[operand]) from.push_back(id);
      }
      Link(i, from, of_[&i]);
      return {};
    }
    case Op::kGetTupleElement: {
      size_t at = 0;
      const Shape& tuple = i.operand(0)->shape();
      for (int64_t k = 0; k < i.tuple_index(); ++k) at += LeavesOf(tuple.tuple_element(k)).size();
      Link(i, std::span(of_[i.operand(0)]).subspan(at, of_[&i].size()), of_[&i]);
      return {};
    }
    case Op::kOptBarrier:
    case Op::kDomain: Link(i, of_[i.operand(0)], of_[&i]); return {};
    case Op::kAddDependency: Link(i, of_[i.operand(0)], of_[&i]); return {};
    case Op::kWhile:
    case Op::kCall:
    case Op::kConditional: return VisitCalls(i);
    default: break;
  }
  if (IsCallOf(i, kSharding)) {
    Link(i, of_[i.operand(0)], of_[&i]);
  } else if (IsCallOf(i, kFullToShard) || IsCallOf(i, kShardToFull)) {
    return VisitBoundary(i);
  } else {
    AddRule(i);
    // Its pieces may have no equal parts, where all of it has.
    if (const Rotation turn = RotationOf(i); turn.of != nullptr) Link(i, of_[turn.of], of_[&i]);
  }
  return {};
}

Status ValueTable::VisitCalls(const Instruction& i) {
  const ValueIds own = of_[&i];
  if (i.op() == Op::kWhile) {
    Link(i, of_[i.operand(0)], own);
    const auto& attrs = i.attrs<hlo::WhileAttrs>();
    TRY(Visit(*attrs.condition, std::span(&own, 1), manual_));
    TRY(Visit(*attrs.body, std::span(&own, 1), manual_));
    Link(i, of_[attrs.body->root()], own);
    return {};
  }
  const bool branches = i.op() == Op::kConditional;
  const auto called = i.called_computations();
  const AxisSet manual = manual_ | NamedManualAxes(i, mesh_);
  for (size_t k = 0; k < called.size(); ++k) {
    TRY(Visit(*called[k], {}, manual));
    if (branches) {
      const Instruction* operand = i.operand(static_cast<int64_t>(k) + 1);
      Link(i, of_[operand], of_[called[k]->parameter(0)]);
    } else {
      for (int64_t p = 0; p < i.operand_count(); ++p) {
        Link(i, of_[i.operand(p)], of_[called[k]->parameter(p)]);
      }
    }
    Link(i, of_[called[k]->root()], own);
  }
  return {};
}

// Whole values and parts of them are different values; a boundary says how the whole is cut.
Status ValueTable::VisitBoundary(const Instruction& i) {
  const AxisSet manual = TRY(ManualAxes(i, mesh_));
  if (IsCallOf(i, kShardToFull)) {
    LinkBoundary(i, of_[&i][0], of_[i.operand(0)][0], manual);
    return {};
  }
  values_[static_cast<size_t>(of_[&i][0])].form.manual = manual;
  const hlo::Sharding* stated = LeafSharding(i.sharding(), i.shape(), 0);
  if (stated == nullptr || i.FrontendAttributeValue("manual.axes") == nullptr) return {};
  const Instruction* whole = i.operand(0);
  const int wanted = static_cast<int>(values_.size());
  values_.push_back({.instruction = &i,
                     .shape = &whole->shape(),
                     .form = TRY(ReadForm(*stated, whole->shape(), mesh_))});
  Link(i, std::span(&wanted, 1), of_[whole]);
  LinkBoundary(i, wanted, of_[&i][0], manual);
  return {};
}

// Along axes that are left to us, whole and part lie alike: a dimension of the whole is the manual
// parts, major, times what one device has.
void ValueTable::LinkBoundary(const Instruction& i, int whole, int local, AxisSet manual) {
  if (manual == mesh_.all()) return;
  const Shape& from = *values_[static_cast<size_t>(whole)].shape;
  const Shape& to = *values_[static_cast<size_t>(local)].shape;
  if (!from.IsArray() || !to.IsArray() || from.rank() != to.rank()) return;
  Constraint link{.at = &i, .rule = {}, .values = {whole, local}, .operands = 0, .passes = true};
  hlo::DimRule::Tensor outside, inside;
  for (int64_t d = 0; d < from.rank(); ++d) {
    if (to.dim(d) == 0 || from.dim(d) % to.dim(d) != 0) return;
    const int64_t parts = from.dim(d) / to.dim(d);
    hlo::DimRule::Dim& dim = outside.emplace_back();
    if (parts > 1) {
      dim.push_back(static_cast<int>(link.rule.factors.size()));
      link.rule.factors.push_back({parts, hlo::FactorKind::kParallel});
    }
    dim.push_back(static_cast<int>(link.rule.factors.size()));
    inside.push_back({dim.back()});
    link.rule.factors.push_back({to.dim(d), hlo::FactorKind::kParallel});
  }
  link.rule.results = {std::move(outside), std::move(inside)};
  constraints_.push_back(std::move(link));
}

void ValueTable::Link(const Instruction& at, std::span<const int> from, std::span<const int> to) {
  for (size_t k = 0; k < std::min(from.size(), to.size()); ++k) {
    const Shape& shape = *values_[static_cast<size_t>(to[k])].shape;
    const Shape& other = *values_[static_cast<size_t>(from[k])].shape;
    if (!shape.IsArray() || !Shape::SameDims(shape, other)) continue;
    Constraint link{
        .at = &at, .rule = {}, .values = {from[k], to[k]}, .operands = 1, .passes = true};
    hlo::DimRule::Tensor tensor;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      tensor.push_back({static_cast<int>(d)});
      link.rule.factors.push_back({shape.dim(d), hlo::FactorKind::kParallel});
    }
    link.rule.operands.push_back(tensor);
    link.rule.results.push_back(std::move(tensor));
    constraints_.push_back(std::move(link));
  }
}

namespace {

bool PassesThrough(const Instruction& i) {
  return hlo::IsElementwise(i.op()) || i.op() == Op::kTranspose || i.op() == Op::kCopy;
}

}  // namespace

void ValueTable::AddRule(const Instruction& i) {
  Constraint rule{.at = &i,
                  .rule = hlo::RuleOf(i),
                  .values = {},
                  .operands = i.operand_count(),
                  .passes = PassesThrough(i)};
  // Of a copy alone, sdy's propagation_barrier.
  if (const std::string* allowed = i.FrontendAttributeValue("sharding.barrier");
      allowed != nullptr && i.op() == Op::kCopy) {
    rule.forward = *allowed == "FORWARD";
    rule.backward = *allowed == "BACKWARD";
  }
  for (const Instruction* operand : i.operands()) {
    const ValueIds& ids = of_[operand];
    rule.values.push_back(ids.size() == 1 ? ids[0] : -1);
  }
  for (int id : of_[&i]) rule.values.push_back(id);
  rules_[&i] = constraints_.size();
  constraints_.push_back(std::move(rule));
}

void ValueTable::JoinGroups() {
  std::ranges::sort(groups_);
  for (size_t k = 1; k < groups_.size(); ++k) {
    if (groups_[k].first != groups_[k - 1].first) continue;
    const Instruction& at = *values_[static_cast<size_t>(groups_[k].second)].instruction;
    Link(at, std::span(&groups_[k - 1].second, 1), std::span(&groups_[k].second, 1));
  }
}

// What is made from values of one device is of one device too. Values that such ops read besides
// may not be cut along the same axes.
void ValueTable::FlowManual() {
  auto manual = [](const ShardedValue& value) { return (value.form.manual | value.banned) != 0; };
  if (std::ranges::none_of(values_, manual)) return;
  auto flow = [&](auto&& step) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Constraint& c : constraints_) {
        AxisSet in = 0, out = 0;
        for (size_t k = 0; k < c.values.size(); ++k) {
          if (c.values[k] < 0) continue;
          const ShardedValue& value = values_[static_cast<size_t>(c.values[k])];
          const bool operand = static_cast<int64_t>(k) < c.operands;
          (operand ? in : out) |= value.form.manual | (operand ? 0 : value.banned);
        }
        for (size_t k = 0; k < c.values.size(); ++k) {
          if (c.values[k] < 0) continue;
          ShardedValue& value = values_[static_cast<size_t>(c.values[k])];
          changed |= step(value, static_cast<int64_t>(k) < c.operands, in, out);
        }
      }
    }
  };
  flow([](ShardedValue& value, bool operand, AxisSet in, AxisSet) {
    if (operand || (value.form.manual | in) == value.form.manual) return false;
    value.form.manual |= in;
    return true;
  });
  flow([](ShardedValue& value, bool operand, AxisSet, AxisSet out) {
    const AxisSet more = out & ~(value.banned | value.form.manual);
    if (!operand || more == 0) return false;
    value.banned |= more;
    return true;
  });
}

// Summands stay summands through what is linear in them, until a value is stated to lie otherwise.
void ValueTable::FlowUnreduced() {
  auto sums = [](const Form& form) {
    return form.reduction == hlo::ReductionKind::kNone ||
           form.reduction == hlo::ReductionKind::kSum;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Constraint& c : constraints_) {
      const size_t result = static_cast<size_t>(c.operands);
      if (c.operands == 0 || c.values.size() != result + 1 || c.values[result] < 0) continue;
      ShardedValue& to = values_[static_cast<size_t>(c.values[result])];
      if (to.stated || !to.shape->IsArray()) continue;
      for (size_t k = 0; k < result; ++k) {
        if (c.values[k] < 0) continue;
        const ShardedValue& from = values_[static_cast<size_t>(c.values[k])];
        const AxisSet more = from.form.unreduced & ~(to.form.used() | to.banned);
        if (more == 0 || !sums(from.form)) continue;
        const bool link = c.operands == 1 && c.rule.operands[0] == c.rule.results[0] && c.passes;
        const bool own = to.instruction == c.at && c.at->operand_count() == c.operands;
        if (!link && !(own && hlo::IsLinearIn(*c.at, static_cast<int64_t>(k)))) continue;
        to.form.unreduced |= more;
        to.form.reduction = hlo::ReductionKind::kSum;
        changed = true;
      }
    }
  }
}

}  // namespace weft::compiler::spmd
