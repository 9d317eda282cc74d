#include "compiler/passes/expand/expand_ops.h"
#include "hlo/clone.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// dynamic-slice(x, {s0, s1}) is dynamic-slice(x, s0, s1).
Result<bool> ExpandStarts(Instruction* i) {
  bool update = i->op() == Op::kDynamicUpdateSlice;
  if (!update && i->op() != Op::kDynamicSlice) return false;
  int64_t first = update ? 2 : 1;
  if (i->operand_count() != first + 1 || i->operand(first)->shape().rank() != 1) return false;
  Instruction* starts = i->operand(first);
  std::vector<Instruction*> operands(i->operands().begin(), i->operands().begin() + first);
  Builder b(*i->parent(), i, i);
  for (int64_t d = 0; d < i->shape().rank(); ++d) {
    hlo::SliceAttrs one;
    one.slice.push_back({d, d + 1, 1});
    Instruction* start = TRY(b.Add(Op::kSlice, {starts}, std::move(one)));
    operands.push_back(TRY(ReshapeTo(b, start, {})));
  }
  Shape shape = i->shape();
  hlo::ReplaceInstruction(i, TRY(b.Add(i->op(), operands, i->attrs(), &shape)));
  return true;
}

}  // namespace weft::compiler
