#include "compiler/passes.h"
#include "compiler/passes/effects.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;

bool IsDead(const Instruction& i, const Effects& effects) {
  if (!i.users().empty() || i.IsRoot() || i.IsParameter() || effects.Has(i)) return false;
  // An instruction between two others orders them, though nobody reads it.
  return i.control_predecessors().empty() || i.control_successors().empty();
}

}  // namespace

Result<bool> EliminateDeadCode(hlo::Module& module, const PassContext&) {
  bool changed = false;
  Effects effects(module);
  for (const auto& computation : module.computations()) {
    // Backwards: when an instruction goes, its operands, which stand before it, may be unused too.
    for (Instruction* i = computation->last(); i != nullptr;) {
      Instruction* previous = i->prev();
      if (IsDead(*i, effects)) {
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
