#include "compiler/passes/expand/callers.h"

#include "hlo/clone.h"

namespace weft::compiler {

Callers::Callers(hlo::Module& module) : module_(module) {
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* i : *computation) Add(*i);
  }
}

void Callers::Add(const hlo::Instruction& caller) {
  for (const hlo::Computation* called : caller.called_computations()) ++counts_[called];
}

hlo::Computation* Callers::Own(hlo::Computation* c) {
  if (IsOnly(c)) return c;
  hlo::CloneMap map;
  hlo::Computation* copy =
      hlo::CloneComputation(*c, module_, map, module_.UniqueName(c->name()), c);
  for (const hlo::Instruction* i : *copy) Add(*i);
  --counts_[c];
  counts_[copy] = 1;
  return copy;
}

}  // namespace weft::compiler
