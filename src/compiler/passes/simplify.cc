#include "compiler/passes.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;

// One sweep over a computation. A row's fold returns an equal instruction, perhaps a new one that
// stands before this one.
bool FoldOnce(hlo::Computation& computation) {
  bool changed = false;
  for (Instruction* i : computation.Snapshot()) {
    if (i->users().empty() && !i->IsRoot()) continue;  // unused; somebody else removes it
    if (i->def().fold == nullptr) continue;
    if (!i->control_predecessors().empty() || !i->control_successors().empty()) continue;
    Instruction* same = i->def().fold(*i);
    if (same == nullptr || same == i) continue;
    if (!Shape::Compatible(same->shape(), i->shape())) continue;
    if (i->IsParameter()) continue;
    i->ReplaceAllUsesWith(same);
    changed = true;
  }
  return changed;
}

// Removes what folding left without users, so that a further sweep does not look at it.
void RemoveUnused(hlo::Computation& computation) {
  for (Instruction* i = computation.last(); i != nullptr;) {
    Instruction* previous = i->prev();
    bool is_pure = i->def().fold != nullptr && !HasSideEffect(i->op()) && !i->IsParameter() &&
                   i->op() != hlo::Op::kCustomCall && !HasTrait(i->op(), hlo::kCalls);
    if (is_pure && i->users().empty() && !i->IsRoot() && i->control_successors().empty() &&
        i->control_predecessors().empty()) {
      computation.Remove(i);
    }
    i = previous;
  }
}

}  // namespace

Result<bool> Simplify(hlo::Module& module, const PassContext&) {
  // Each fold makes the graph smaller or more canonical; the limit guards against a pair of rules
  // that undo each other.
  constexpr int kMaxSweeps = 50;
  bool changed = false;
  for (const auto& computation : module.computations()) {
    bool again = true;
    for (int sweep = 0; again && sweep < kMaxSweeps; ++sweep) {
      again = FoldOnce(*computation);
      if (again) RemoveUnused(*computation);
      changed |= again;
    }
  }
  return changed;
}

}  // namespace weft::compiler
