#include "compiler/passes/loops/own_loop.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/passes/effects.h"
#include "hlo/builder.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

std::vector<Instruction*> OwnLoops(hlo::Module& module) {
  std::unordered_map<const Computation*, int> callers;  // lookups only
  for (const auto& c : module.computations()) {
    for (const Instruction* i : *c) {
      for (const Computation* called : i->called_computations()) ++callers[called];
    }
  }
  std::vector<Instruction*> found;
  std::vector<Computation*> executed = ExecutedComputations(module);
  for (size_t at = executed.size(); at-- > 0;) {
    for (Instruction* i : executed[at]->Snapshot()) {
      if (i->op() != Op::kWhile || !FindLoop(i)) continue;
      const auto& attrs = i->attrs<hlo::WhileAttrs>();
      if (callers[attrs.body] == 1 && callers[attrs.condition] == 1) found.push_back(i);
    }
  }
  return found;
}

bool HasOneUse(const Instruction& i) {
  if (i.IsRoot() || i.users().size() != 1) return false;
  auto operands = i.users()[0]->operands();
  return std::count(operands.begin(), operands.end(), &i) == 1;
}

Status SplitUsers(Instruction* loop) {
  std::vector<Instruction*> whole;
  for (Instruction* user : loop->users()) {
    if (user->op() != Op::kGetTupleElement || HasControlDependencies(*user)) whole.push_back(user);
  }
  if (whole.empty() && !loop->IsRoot()) return {};
  Builder b(*loop->parent(), loop->next(), loop);
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < loop->shape().tuple_size(); ++k) {
    elements.push_back(TRY(b.GetTupleElement(loop, k)));
  }
  Instruction* tuple = TRY(b.Tuple(elements));
  tuple->mutable_shape() = loop->shape();
  for (Instruction* user : whole) {
    for (int64_t k = 0; k < user->operand_count(); ++k) {
      if (user->operand(k) == loop) user->ReplaceOperand(k, tuple);
    }
  }
  if (loop->IsRoot()) loop->parent()->set_root(tuple);
  return {};
}

Result<std::vector<Instruction*>> ReadElements(Instruction* loop) {
  Builder b(*loop->parent(), loop->next(), loop);
  std::vector<Instruction*> read;
  for (int64_t k = 0; k < loop->shape().tuple_size(); ++k) {
    read.push_back(TRY(b.GetTupleElement(loop, k)));
  }
  return read;
}

void ReplaceElements(Instruction* loop, const std::vector<Instruction*>& read,
                     const std::vector<Instruction*>& with) {
  for (Instruction* user : std::vector<Instruction*>(loop->users())) {
    if (std::find(read.begin(), read.end(), user) != read.end()) continue;
    CHECK(user->op() == Op::kGetTupleElement) << user->name();
    user->ReplaceAllUsesWith(with[static_cast<size_t>(user->tuple_index())]);
    user->parent()->Remove(user);
  }
}

}  // namespace weft::compiler
