// Operator fusion: which ops are computed together. Instructions are visited from the last to the
// first; each joins the group of its users if they are all in one and computing it there does not
// repeat much work, is repeated in several groups if it is nearly free, or starts a group of its
// own. A group's outputs all have the loop's dimensions; in groups of rows (fusion kind kOutput)
// they may also have one element for each row.
#include "compiler/passes/fuse/fuse.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/analysis/element_cost.h"
#include "compiler/analysis/in_place.h"
#include "compiler/passes.h"
#include "hlo/clone.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

Result<bool> Fuser::Run() {
  int32_t position = 0;
  for (Instruction* i : computation_) position_[i] = position++;
  for (Instruction* i = computation_.last(); i != nullptr; i = i->prev()) Visit(*i);
  MergeReduces();
  bool changed = false;
  for (FusionGroup& group : groups_) changed |= TRY(Materialise(group));
  return changed;
}

// Members that other groups have made and this one reads from memory are not computed here.
void Fuser::KeepReached(FusionGroup& group) {
  std::vector<Instruction*> reached = group.outputs;
  std::unordered_set<const Instruction*> seen(reached.begin(), reached.end());
  for (size_t at = 0; at < reached.size(); ++at) {
    for (Instruction* operand : reached[at]->operands()) {
      if (group.evaluations.contains(operand) && seen.insert(operand).second) {
        reached.push_back(operand);
      }
    }
  }
  std::unordered_map<const Instruction*, double> evaluations;
  for (Instruction* m : reached) evaluations[m] = group.evaluations.at(m);
  group.members = std::move(reached);
  group.evaluations = std::move(evaluations);
}

// Members that only rename what comes from outside stay outside, where they stand before the group.
void Fuser::Trim(FusionGroup& group) {
  for (bool again = true; again;) {
    again = false;
    for (size_t k = 0; k < group.members.size(); ++k) {
      Instruction* m = group.members[k];
      if (!IsRenaming(m->op()) || group.evaluations.contains(m->operand(0))) continue;
      if (MadeAt(*m->operand(0)) > position_.at(m) || position_.at(m) > group.position) continue;
      if (std::find(group.outputs.begin(), group.outputs.end(), m) != group.outputs.end()) continue;
      group.evaluations.erase(m);
      group.members.erase(group.members.begin() + static_cast<int64_t>(k));
      again = true;
      break;
    }
  }
}

namespace {

// The group's members as a computation of their own; `inputs` are its parameters.
Computation* FusedComputation(const FusionGroup& group, std::span<Instruction* const> inputs,
                              Computation& caller) {
  hlo::Module& module = *caller.module();
  Computation* fused =
      module.AddComputation(module.UniqueName(StrCat("fused.", group.root->name())), &caller);
  hlo::CloneMap map;
  for (size_t k = 0; k < inputs.size(); ++k) {
    Shape shape = inputs[k]->shape();
    map.instructions[inputs[k]] =
        fused->Add(Op::kParameter, module.UniqueName("p"), std::move(shape), {},
                   hlo::ParameterAttrs{static_cast<int64_t>(k)});
  }
  for (Instruction* m : group.members) hlo::CloneInstruction(*m, *fused, map);
  std::vector<Instruction*> outputs;
  for (Instruction* o : group.outputs) outputs.push_back(map.Find(o));
  if (outputs.size() == 1) {
    fused->set_root(outputs[0]);
    return fused;
  }
  std::vector<Shape> shapes;
  for (Instruction* o : group.outputs) shapes.push_back(o->shape());
  fused->set_root(fused->Add(Op::kTuple, module.UniqueName("tuple"),
                             Shape::Tuple(std::move(shapes)), outputs,
                             hlo::Attrs(hlo::GetOp(Op::kTuple).attrs)));
  return fused;
}

}  // namespace

Result<bool> Fuser::Materialise(FusionGroup& group) {
  if (group.dead) return false;
  KeepReached(group);
  Trim(group);
  if (group.members.size() < 2) return false;
  auto by_position = [&](const Instruction* a, const Instruction* b) {
    return position_.at(a) < position_.at(b);
  };
  std::sort(group.members.begin(), group.members.end(), by_position);
  std::vector<Instruction*> inputs;
  std::unordered_map<const Instruction*, int64_t> number;
  for (Instruction* m : group.members) {
    for (Instruction* operand : m->operands()) {
      if (group.evaluations.contains(operand) || number.contains(operand)) continue;
      number[operand] = static_cast<int64_t>(inputs.size());
      inputs.push_back(operand);
    }
  }
  hlo::Module& module = *computation_.module();
  Instruction* root = group.root;
  Computation* fused = FusedComputation(group, inputs, computation_);
  Shape shape = group.outputs.size() > 1 ? fused->root()->shape() : root->shape();
  hlo::FusionAttrs attrs;
  attrs.kind = group.kind == GroupKind::kReduce ? hlo::FusionKind::kInput
               : group.kind == GroupKind::kRow  ? hlo::FusionKind::kOutput
                                                : hlo::FusionKind::kLoop;
  attrs.calls = fused;
  Instruction* at = group.place;
  Instruction* fusion = computation_.Add(Op::kFusion, module.UniqueName(NameOf(group)), shape,
                                         inputs, hlo::Attrs(std::move(attrs)), at);
  hlo::CopyFacts(*root, *fusion);
  position_[fusion] = position_.at(at);
  for (size_t k = 0; k < group.outputs.size(); ++k) {
    Instruction* o = group.outputs[k];
    Instruction* with = fusion;
    if (group.outputs.size() > 1) {
      with = computation_.Add(Op::kGetTupleElement, module.UniqueName("get"), o->shape(),
                              {&fusion, 1}, hlo::GetTupleElementAttrs{static_cast<int64_t>(k)}, at);
      position_[with] = position_.at(at);
    }
    o->ReplaceAllUsesWith(with);
  }
  // What nobody reads any more goes, users first.
  for (size_t k = group.members.size(); k-- > 0;) {
    Instruction* m = group.members[k];
    if (m->users().empty() && !m->IsRoot()) {
      computation_.Remove(m);
    }
  }
  return true;
}

// What is inside, in a few words: the costly and the last ops.
std::string Fuser::NameOf(const FusionGroup& group) const {
  std::string name;
  std::vector<std::string_view> words;
  for (const Instruction* m : group.members) {
    std::string_view word = hlo::Mnemonic(m->op());
    if (IsFree(*m) || std::find(words.begin(), words.end(), word) != words.end()) continue;
    words.push_back(word);
  }
  size_t skip = words.size() > 4 ? words.size() - 4 : 0;
  for (size_t k = skip; k < words.size(); ++k) StrAppend(name, k == skip ? "" : "_", words[k]);
  if (name.empty()) name = "move";
  return StrCat(name, "_fusion");
}

Result<bool> Fuse(hlo::Module& module, const PassContext& context) {
  bool changed = false;
  std::vector<Computation*> work = {module.entry()};
  for (size_t at = 0; at < work.size(); ++at) {
    for (Instruction* i : *work[at]) {
      const bool runs = i->op() == Op::kWhile || i->op() == Op::kConditional ||
                        i->op() == Op::kCall || (i->op() == Op::kAsyncStart && IsAsyncCall(*i));
      if (!runs) continue;
      for (Computation* c : i->called_computations()) work.push_back(c);
    }
  }
  for (Computation* computation : work) {
    changed |= TRY(Fuser(*computation, context.target, context.not_fused).Run());
  }
  return changed;
}

}  // namespace weft::compiler
