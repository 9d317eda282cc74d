#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;

// Each fold makes a module smaller or more canonical; the limit guards against two rules that undo
// each other.
constexpr int kMaxSweeps = 50;

bool SameLayouts(const Shape& a, const Shape& b) {
  if (a.IsTuple() || a.IsBuffer()) {
    for (int64_t k = 0; k < a.tuple_size(); ++k) {
      if (!SameLayouts(a.tuple_element(k), b.tuple_element(k))) return false;
    }
    return true;
  }
  return a.layout() == nullptr || !a.IsArray() || b.LayoutOrDefault() == *a.layout();
}

// Whether an instruction that was there already can stand for `i`: no annotation gets lost.
bool CanStandFor(const Instruction& existing, const Instruction& i) {
  if (!SameLayouts(i.shape(), existing.shape())) return false;
  return i.sharding() == nullptr ||
         (existing.sharding() != nullptr && *existing.sharding() == *i.sharding());
}

// Makes the users of `i` read what its row says it equals.
bool FoldOne(Instruction* i) {
  if (i->def().fold == nullptr || i->IsParameter() || HasControlDependencies(*i)) return false;
  if (i->users().empty() && !i->IsRoot()) return false;  // dead: somebody else removes it
  int64_t first_new_id = i->parent()->module()->id_limit();
  Instruction* same = i->def().fold(*i);
  if (same == nullptr || same == i) return false;
  if (!Shape::Compatible(same->shape(), i->shape())) return false;
  if (same->id() < first_new_id) {
    if (!CanStandFor(*same, *i)) return false;
    i->ReplaceAllUsesWith(same);
    return true;
  }
  for (Instruction* n = i->prev(); n != nullptr && n->id() >= first_new_id; n = n->prev()) {
    if (i->metadata() != nullptr) n->mutable_metadata() = *i->metadata();
  }
  same->mutable_shape() = i->shape();  // the layout
  hlo::CopyFacts(*i, *same);
  i->ReplaceAllUsesWith(same);
  return true;
}

// Removes what folding left without users, so that the next sweep does not look at it.
void RemoveUnused(Computation& computation, const Effects& effects) {
  for (Instruction* i = computation.last(); i != nullptr;) {
    Instruction* previous = i->prev();
    if (i->users().empty() && !i->IsRoot() && !i->IsParameter() && !effects.Has(*i) &&
        !HasControlDependencies(*i)) {
      computation.Remove(i);
    }
    i = previous;
  }
}

}  // namespace

Result<bool> Simplify(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  Effects effects(module);
  bool changed = false;
  for (const auto& computation : module.computations()) {
    bool again = true;
    for (int sweep = 0; again && sweep < kMaxSweeps; ++sweep) {
      again = false;
      for (Instruction* i : computation->Snapshot()) again |= FoldOne(i);
      if (again) RemoveUnused(*computation, effects);
      changed |= again;
    }
  }
  return changed;
}

}  // namespace weft::compiler
