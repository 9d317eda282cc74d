#include <unordered_set>

#include "compiler/analysis/in_place.h"
#include "compiler/passes.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

bool Executes(const Instruction& i) {
  return i.op() == Op::kWhile || i.op() == Op::kConditional || i.op() == Op::kCall ||
         (i.op() == Op::kAsyncStart && IsAsyncCall(i));
}

// The last mention of `from` becomes `to`: two branches may be one computation.
void ReplaceLastMention(Instruction& i, const Computation* from, Computation* to) {
  auto replace = [&](Computation*& field) {
    bool is = field == from;
    if (is) field = to;
    return is;
  };
  if (i.op() == Op::kWhile) {
    auto& attrs = i.mutable_attrs<hlo::WhileAttrs>();
    replace(attrs.body) || replace(attrs.condition);
  } else if (i.op() == Op::kCall) {
    replace(i.mutable_attrs<hlo::CallAttrs>().to_apply);
  } else if (i.op() == Op::kAsyncStart) {
    replace(i.mutable_attrs<hlo::AsyncAttrs>().calls);
    for (Instruction* user : i.users()) {
      if (user->attrs().Is<hlo::AsyncAttrs>())
        replace(user->mutable_attrs<hlo::AsyncAttrs>().calls);
    }
  } else {
    auto& attrs = i.mutable_attrs<hlo::ConditionalAttrs>();
    if (replace(attrs.false_computation) || replace(attrs.true_computation)) return;
    for (size_t k = attrs.branch_computations.size(); k-- > 0;) {
      if (replace(attrs.branch_computations[k])) return;
    }
  }
}

}  // namespace

Result<bool> SeparateComputations(hlo::Module& module, const PassContext& context) {
  bool changed = false;
  const int64_t limit =
      module.instruction_count() + context.options.optimize.inline_max_instructions;
  int64_t size = module.instruction_count();
  std::unordered_set<const Computation*> taken = {module.entry()};
  std::vector<Computation*> work = {module.entry()};
  while (!work.empty()) {
    Computation* computation = work.back();
    work.pop_back();
    for (Instruction* i : *computation) {
      if (!Executes(*i)) continue;
      for (Computation* callee : i->called_computations()) {
        bool first = taken.insert(callee).second;
        if (first) {
          work.push_back(callee);
          continue;
        }
        size += callee->size();
        if (size > limit) {
          return ResourceExhausted(
              "computations that are called from several places, each with a "
              "copy of its own, come to more than ",
              limit, " instructions");
        }
        hlo::CloneMap map;
        Computation* copy =
            hlo::CloneComputation(*callee, module, map, module.UniqueName(callee->name()), callee);
        ReplaceLastMention(*i, callee, copy);
        taken.insert(copy);
        work.push_back(copy);
        changed = true;
      }
    }
  }
  return changed;
}

}  // namespace weft::compiler
