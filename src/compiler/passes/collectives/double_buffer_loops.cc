#include "compiler/analysis/backend_config.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// The first iteration in front of the loop.
Status PeelFirst(Instruction* loop, FreshIds& ids) {
  Builder b(*loop->parent(), loop, loop);
  std::vector<Instruction*> state;
  for (int64_t k = 0; k < loop->shape().tuple_size(); ++k) {
    state.push_back(TRY(ElementOf(b, loop->operand(0), k)));
  }
  hlo::CloneMap map;
  state = TRY(CopyBody(*loop->attrs<hlo::WhileAttrs>().body, loop, std::move(state), ids, map));
  loop->ReplaceOperand(0, TRY(b.Tuple(state)));
  return {};
}

}  // namespace

Result<bool> DoubleBufferLoops(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled) return false;
  FreshIds ids(module);
  bool changed = false;
  std::vector<Computation*> executed = ExecutedComputations(module);
  for (size_t at = executed.size(); at-- > 0;) {
    for (Instruction* i : executed[at]->Snapshot()) {
      if (i->op() != Op::kWhile || !i->shape().IsTuple() || HasControlDependencies(*i)) continue;
      int64_t trips = KnownTripCount(*i);
      if (trips < 2 || !HoldsCollectives(*i->attrs<hlo::WhileAttrs>().body)) continue;
      if (trips % 2 == 1) TRY(PeelFirst(i, ids));
      TRY(UnrollBy(i, trips - trips % 2, 2, ids));
      changed = true;
    }
  }
  if (changed) TRY(EliminateDeadCode(module, context));
  return changed;
}

}  // namespace weft::compiler
