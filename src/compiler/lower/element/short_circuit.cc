// Short-circuit evaluation of `and` and `or` in conditions of loops.
#include <algorithm>

#include "compiler/analysis/search.h"
#include "compiler/lower/element/ops.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

bool ReadsAtIndex(const ElementContext& e, const Instruction& instruction) {
  std::vector<const Instruction*> reached = {&instruction};
  for (size_t i = 0; i < reached.size() && i < kMaxBucket; ++i) {
    if (e.bound.contains(reached[i])) continue;
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

}  // namespace

bool IsShortCircuited(const ElementContext& e, const Instruction& instruction) {
  bool logic = instruction.op() == HloOp::kAnd || instruction.op() == HloOp::kOr;
  if (!logic || instruction.shape().dtype() != DType::kPred || e.lanes != 1) return false;
  return instruction.shape().elements() == 1 &&
         (ReadsAtIndex(e, *instruction.operand(0)) || ReadsAtIndex(e, *instruction.operand(1)));
}

Result<Element> EmitShortCircuit(ElementContext& e, const Instruction& instruction,
                                 const Index& index) {
  const Instruction *first = instruction.operand(0), *second = instruction.operand(1);
  if (!ReadsAtIndex(e, *second)) std::swap(first, second);
  ValueId decides = TRY(EmitElement(e, *first, index)).re;
  bool both = instruction.op() == HloOp::kAnd;
  auto other = [&]() -> Result<Element> {
    if (e.value_ranges == nullptr) return EmitElement(e, *second, index);
    e.value_ranges->BeginAssumption(*first, both);
    Result<Element> element = EmitElement(e, *second, index);
    e.value_ranges->EndAssumption();
    return element;
  };
  auto known = [&]() -> Result<Element> { return Element{e.b.Pred(!both), -1}; };
  if (both) return EmitEither(e, decides, other, known);
  return EmitEither(e, decides, known, other);
}

}  // namespace weft::compiler
