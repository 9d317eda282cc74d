#include "compiler/passes/collectives/fresh_ids.h"

#include <algorithm>

#include "base/str.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

FreshIds::FreshIds(hlo::Module& module) : module_(module) {
  for (const auto& c : module.computations()) {
    for (const Instruction* i : *c) {
      if (const hlo::CollectiveAttrs* a = i->attrs().Collective()) {
        channel_ = std::max(channel_, a->channel_id.value_or(0) + 1);
      }
      if (const std::string* id = i->FrontendAttributeValue("_scheduling_group_id")) {
        group_ = std::max(group_, ParseInt(id->substr(0, id->find(':'))).value_or(0) + 1);
      }
    }
  }
}

void FreshIds::Rename(Instruction& i) {
  Renumber(i);
  if (i.op() == Op::kWhile || i.op() == Op::kConditional || i.op() == Op::kCall) CopyCallees(i);
}

void FreshIds::Renumber(Instruction& i) {
  if (hlo::CollectiveAttrs* a = i.mutable_attrs().MutableCollective()) {
    if (a->channel_id) a->channel_id = channel_++;
  }
  const std::string* id = i.FrontendAttributeValue("_scheduling_group_id");
  if (id != nullptr && ParseInt(id->substr(0, id->find(':')))) {
    std::string old = *id;
    auto [it, is_new] = groups_.try_emplace(old.substr(0, old.find(':')), group_);
    if (is_new) ++group_;
    std::string rest = old.find(':') != old.npos ? old.substr(old.find(':')) : "";
    for (hlo::FrontendAttribute& a : i.mutable_extras().frontend_attributes) {
      if (a.key == "_scheduling_group_id") a.value = StrCat(it->second, rest);
    }
  }
  if (i.op() != Op::kAsyncStart && i.op() != Op::kAsyncUpdate && i.op() != Op::kAsyncDone) return;
  auto& attrs = i.mutable_attrs<hlo::AsyncAttrs>();
  if (attrs.calls == nullptr) return;
  if (i.op() != Op::kAsyncStart) {
    const Instruction& before = *i.operand(0);
    if (before.attrs().Is<hlo::AsyncAttrs>()) attrs.calls = before.attrs<hlo::AsyncAttrs>().calls;
    return;
  }
  hlo::CloneMap map;
  attrs.calls = CloneComputation(*attrs.calls, module_, map,
                                 module_.UniqueName(attrs.calls->name()), i.parent());
  for (Instruction* inside : *attrs.calls) Renumber(*inside);
}

void FreshIds::CopyCallees(Instruction& i) {
  for (hlo::Computation* callee : i.called_computations()) {
    if (copies_.computations.contains(callee)) continue;  // both branches may be one computation
    hlo::CloneMap map;
    hlo::Computation* copy =
        CloneComputation(*callee, module_, map, module_.UniqueName(callee->name()), i.parent());
    copies_.computations[callee] = copy;
    for (Instruction* inside : *copy) Rename(*inside);
  }
  for (const hlo::FieldRef& field : i.mutable_attrs().MutableFields()) {
    if (field.type == hlo::FieldType::kComputation) {
      auto& c = field.As<hlo::Computation*>();
      c = copies_.Find(c);
    } else if (field.type == hlo::FieldType::kComputationList) {
      for (auto& c : field.As<std::vector<hlo::Computation*>>()) c = copies_.Find(c);
    }
  }
}

}  // namespace weft::compiler
