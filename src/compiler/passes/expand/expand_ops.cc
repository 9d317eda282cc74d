#include "compiler/passes/expand/expand_ops.h"

#include "compiler/passes.h"
#include "compiler/passes/expand/async_calls.h"

namespace weft::compiler {

Result<bool> ExpandOps(hlo::Module& module, const PassContext& context) {
  // First what brings in other instructions.
  const auto kept = FindAsyncCalls(module, context);
  bool changed =
      TRY(RewriteEach(module, [&](hlo::Instruction* i) { return ExpandCalls(i, kept); }));
  changed |= TRY(RewriteEach(module, ExpandFunctions));
  if (changed) module.RemoveUnusedComputations();
  ScalarFunctions functions(module);
  changed |= TRY(RewriteEach(module, [&](hlo::Instruction* i) -> Result<bool> {
    return TRY(ExpandBatchNorm(i, functions)) || TRY(ExpandCollectives(i)) ||
           TRY(ExpandDeviceCollectives(i)) || TRY(ExpandPermuteSlices(i)) ||
           TRY(ExpandCustomCalls(i)) || TRY(ExpandMarkers(i)) || TRY(ExpandElementwise(i)) ||
           TRY(ExpandScans(i)) || TRY(ExpandStarts(i));
  }));
  if (changed) module.RemoveUnusedComputations();
  return changed;
}

}  // namespace weft::compiler
