#include "compiler/passes/expand/inline.h"

#include <algorithm>

#include "hlo/clone.h"

namespace weft::compiler {

using hlo::Computation;
using hlo::Instruction;

namespace {

bool IsOneOf(const Instruction* i, std::span<Instruction* const> list) {
  return std::find(list.begin(), list.end(), i) != list.end();
}

// What had to happen before the call happens before all of it, and the other way round. The first
// and the last of the inlined instructions hold the others between them.
void KeepControlDependencies(const Instruction& call, const std::vector<Instruction*>& inlined,
                             int64_t first_id) {
  std::vector<Instruction*> before(call.control_predecessors().begin(),
                                   call.control_predecessors().end());
  std::vector<Instruction*> after(call.control_successors().begin(),
                                  call.control_successors().end());
  if (before.empty() && after.empty()) return;
  auto is_inlined = [&](const Instruction* i) { return i->id() >= first_id; };
  for (Instruction* i : inlined) {
    bool has_earlier = std::any_of(i->operands().begin(), i->operands().end(), is_inlined);
    bool has_later = std::any_of(i->users().begin(), i->users().end(), is_inlined);
    for (Instruction* p : before) {
      if (!has_earlier) i->AddControlPredecessor(p);
    }
    for (Instruction* s : after) {
      if (!has_later) s->AddControlPredecessor(i);
    }
  }
  for (Instruction* s : after) {
    for (Instruction* p : before) {
      if (inlined.empty()) s->AddControlPredecessor(p);
    }
  }
}

// The call's facts go to what stands for it: frontend attributes to all, metadata where there is
// none, the sharding to the root.
void KeepFacts(const Instruction& call, const std::vector<Instruction*>& inlined,
               Instruction* root) {
  for (Instruction* i : inlined) {
    if (call.metadata() != nullptr && i->metadata() == nullptr) {
      i->mutable_metadata() = *call.metadata();
    }
    if (call.extras() == nullptr) continue;
    for (const hlo::FrontendAttribute& a : call.extras()->frontend_attributes) {
      if (a.key == "inlineable" || a.key.starts_with("composite.")) continue;
      if (i->FrontendAttributeValue(a.key) == nullptr) {
        i->mutable_extras().frontend_attributes.push_back(a);
      }
    }
  }
  if (call.sharding() != nullptr && root->sharding() == nullptr && IsOneOf(root, inlined)) {
    root->mutable_extras().sharding = call.extras()->sharding;
  }
}

}  // namespace

Instruction* InlineCallee(Instruction* call, const Computation& callee) {
  Computation& caller = *call->parent();
  int64_t first_id = caller.module()->id_limit();
  hlo::CloneMap map;
  std::vector<Instruction*> inlined;
  for (const Instruction* i : callee) {
    if (i->IsParameter()) {
      map.instructions[i] = call->operand(i->parameter_number());
    } else {
      inlined.push_back(hlo::CloneInstruction(*i, caller, map, call));
    }
  }
  Instruction* root = map.Find(callee.root());
  KeepFacts(*call, inlined, root);
  KeepControlDependencies(*call, inlined, first_id);
  call->ReplaceAllUsesWith(root);
  caller.Remove(call);
  return root;
}

}  // namespace weft::compiler
