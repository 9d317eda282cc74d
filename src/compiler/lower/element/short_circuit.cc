// Short-circuit evaluation of `and` and `or` in conditions of loops.
#include <algorithm>

#include "compiler/analysis/search.h"
#include "compiler/lower/element/element.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

bool ElementEmitter::ReadsAtIndex(const Instruction& instruction) const {
  std::vector<const Instruction*> reached = {&instruction};
  for (size_t i = 0; i < reached.size() && i < kMaxBucket; ++i) {
    if (bound_.contains(reached[i])) continue;
    HloOp op = reached[i]->op();
    if (op == HloOp::kDynamicSlice || op == HloOp::kGather) return true;
    for (const Instruction* operand : reached[i]->operands()) {
      if (std::find(reached.begin(), reached.end(), operand) == reached.end()) {
        reached.push_back(operand);
      }
    }
  }
  return false;
}

bool ElementEmitter::IsShortCircuited(const Instruction& instruction) const {
  bool logic = instruction.op() == HloOp::kAnd || instruction.op() == HloOp::kOr;
  if (!logic || instruction.shape().dtype() != DType::kPred || lanes_ != 1) return false;
  return instruction.shape().elements() == 1 &&
         (ReadsAtIndex(*instruction.operand(0)) || ReadsAtIndex(*instruction.operand(1)));
}

Result<Element> ElementEmitter::EmitShortCircuit(const Instruction& instruction,
                                                 const Index& index) {
  const Instruction *first = instruction.operand(0), *second = instruction.operand(1);
  if (!ReadsAtIndex(*second)) std::swap(first, second);
  ValueId decides = TRY(Emit(*first, index)).re;
  bool both = instruction.op() == HloOp::kAnd;
  auto other = [&]() -> Result<Element> {
    if (value_ranges_ == nullptr) return Emit(*second, index);
    value_ranges_->BeginAssumption(*first, both);
    Result<Element> element = Emit(*second, index);
    value_ranges_->EndAssumption();
    return element;
  };
  auto known = [&]() -> Result<Element> { return Element{b_.Pred(!both), -1}; };
  if (both) return EmitEither(decides, other, known);
  return EmitEither(decides, known, other);
}

}  // namespace weft::compiler
