#include <unordered_map>

#include "compiler/passes.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

bool MayInline(const Instruction& call) {
  if (call.op() != Op::kCall) return false;
  const hlo::CallAttrs& attrs = call.attrs<hlo::CallAttrs>();
  return !attrs.is_composite && attrs.to_apply->execution_thread().empty();
}

// Instructions the module may grow to.
constexpr int64_t kMaxInstructions = 10'000'000;

void Inline(Instruction* call) {
  hlo::Computation& caller = *call->parent();
  hlo::CloneMap map;
  const hlo::Computation& callee = *call->attrs<hlo::CallAttrs>().to_apply;
  std::vector<Instruction*> inlined;
  for (const Instruction* i : callee) {
    if (i->IsParameter()) {
      map.instructions[i] = call->operand(i->parameter_number());
      continue;
    }
    Instruction* copy = hlo::CloneInstruction(*i, caller, map, call);
    inlined.push_back(copy);
  }
  // What had to happen before the call happens before all of it, and the other way round.
  std::vector<Instruction*> before(call->control_predecessors().begin(),
                                   call->control_predecessors().end());
  std::vector<Instruction*> after(call->control_successors().begin(),
                                  call->control_successors().end());
  for (Instruction* copy : inlined) {
    for (Instruction* p : before) copy->AddControlPredecessor(p);
    for (Instruction* s : after) s->AddControlPredecessor(copy);
  }
  call->ReplaceAllUsesWith(map.instructions.at(callee.root()));
  caller.Remove(call);
}

}  // namespace

Result<bool> InlineCalls(hlo::Module& module, const PassContext&) {
  bool changed = false;
  // Callees stand before callers, so what is inlined has no calls left itself.
  int64_t size = module.instruction_count();
  for (const auto& computation : module.computations()) {
    for (Instruction* i : computation->Snapshot()) {
      if (!MayInline(*i)) continue;
      size += i->attrs<hlo::CallAttrs>().to_apply->size();
      if (size > kMaxInstructions) {
        return ResourceExhausted("inline-calls: the module grows over ", kMaxInstructions,
                                 " instructions");
      }
      Inline(i);
      changed = true;
    }
  }
  if (changed) module.RemoveUnusedComputations();
  return changed;
}

}  // namespace weft::compiler
