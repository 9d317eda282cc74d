#include "compiler/passes.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

// Whether removing the instruction, were it unused, could be noticed.
bool MayRemove(const Instruction& i, const std::vector<bool>& has_effects) {
  if (i.IsParameter() || i.IsRoot() || HasSideEffect(i.op())) return false;
  if (i.op() == Op::kCustomCall && i.attrs<hlo::CustomCallAttrs>().custom_call_has_side_effect) {
    return false;
  }
  if (!i.control_predecessors().empty() || !i.control_successors().empty()) return false;
  for (const hlo::Computation* called : i.called_computations()) {
    if (has_effects[static_cast<size_t>(called->id())]) return false;
  }
  return true;
}

// Ids of computations that contain ops with side effects, themselves or in what they call.
// Callees stand before callers.
std::vector<bool> ComputationsWithEffects(const hlo::Module& module) {
  std::vector<bool> has(static_cast<size_t>(module.id_limit()), false);
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      bool effect =
          HasSideEffect(i->op()) || (i->op() == Op::kCustomCall &&
                                     i->attrs<hlo::CustomCallAttrs>().custom_call_has_side_effect);
      for (const hlo::Computation* called : i->called_computations()) {
        effect = effect || has[static_cast<size_t>(called->id())];
      }
      if (effect) has[static_cast<size_t>(computation->id())] = true;
    }
  }
  return has;
}

}  // namespace

Result<bool> EliminateDeadCode(hlo::Module& module, const PassContext&) {
  bool changed = false;
  std::vector<bool> has_effects = ComputationsWithEffects(module);
  for (const auto& computation : module.computations()) {
    // Backwards: when an instruction goes, its operands, which stand before it, may be unused too.
    for (Instruction* i = computation->last(); i != nullptr;) {
      Instruction* previous = i->prev();
      if (i->users().empty() && MayRemove(*i, has_effects)) {
        computation->Remove(i);
        changed = true;
      }
      i = previous;
    }
  }
  size_t before = module.computations().size();
  module.RemoveUnusedComputations();
  return changed || module.computations().size() != before;
}

}  // namespace weft::compiler
