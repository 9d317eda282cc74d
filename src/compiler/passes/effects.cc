#include "compiler/passes/effects.h"

#include <algorithm>

#include "hlo/call_graph.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

Effects::Effects(const hlo::Module& module)
    : levels_(static_cast<size_t>(module.id_limit()), kFunction) {
  hlo::CallGraph graph(module);
  for (const hlo::Computation* computation : graph.PostOrder()) {
    Level level = kFunction;
    for (const Instruction* i : *computation) level = std::max(level, Find(*i));
    levels_[static_cast<size_t>(computation->id())] = level;
  }
}

Effects::Level Effects::Find(const Instruction& i) const {
  if (HasSideEffect(i.op())) return kEffect;
  Level level = kFunction;
  if (i.op() == Op::kPartitionId || i.op() == Op::kReplicaId) level = kDevice;
  if (i.op() == Op::kCustomCall) {
    if (i.attrs<hlo::CustomCallAttrs>().custom_call_has_side_effect) return kEffect;
    level = kDevice;
  }
  for (const hlo::Computation* called : i.called_computations()) {
    size_t id = static_cast<size_t>(called->id());
    level = std::max(level, id < levels_.size() ? levels_[id] : kEffect);
  }
  return level;
}

}  // namespace weft::compiler
