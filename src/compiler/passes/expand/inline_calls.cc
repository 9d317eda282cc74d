#include "compiler/passes.h"
#include "compiler/passes/expand/inline.h"
#include "hlo/call_graph.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

bool MayInline(const Instruction& call) {
  if (call.op() != Op::kCall) return false;
  const hlo::CallAttrs& attrs = call.attrs<hlo::CallAttrs>();
  if (attrs.is_composite || attrs.to_apply == nullptr) return false;
  if (attrs.to_apply->execution_thread() != call.parent()->execution_thread()) return false;
  const std::string* inlineable = call.FrontendAttributeValue("inlineable");
  return inlineable == nullptr || *inlineable != "false";
}

}  // namespace

Result<bool> InlineCalls(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled) return false;
  hlo::CallGraph graph(module);
  if (graph.HasCycle()) return FailedPrecondition("inline-calls: a computation calls itself");
  bool changed = false;
  int64_t size = module.instruction_count();
  // Callees first: what is inlined has no calls left itself.
  for (Computation* computation : graph.PostOrder()) {
    for (Instruction* i : computation->Snapshot()) {
      if (!MayInline(*i)) continue;
      int64_t added = i->attrs<hlo::CallAttrs>().to_apply->size();
      if (size + added > context.options.optimize.inline_max_instructions) continue;
      size += added;
      InlineCallee(i, *i->attrs<hlo::CallAttrs>().to_apply);
      changed = true;
    }
  }
  if (changed) module.RemoveUnusedComputations();
  return changed;
}

}  // namespace weft::compiler
