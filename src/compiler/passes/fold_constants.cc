#include <algorithm>

#include "compiler/passes.h"
#include "hlo/evaluate.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

bool HasConstantOperands(const Instruction& i) {
  return std::all_of(i.operands().begin(), i.operands().end(), [](const Instruction* operand) {
    return operand->IsConstant() && !operand->attrs<hlo::ConstantAttrs>().elided;
  });
}

// Ops that mean the same wherever and whenever they run.
bool IsFoldable(const Instruction& i) {
  if (HasSideEffect(i.op()) || IsCollective(i.op())) return false;
  if (HasTrait(i.op(), hlo::kAsyncStart | hlo::kAsyncDone)) return false;
  if (!i.control_predecessors().empty() || !i.control_successors().empty()) return false;
  switch (i.op()) {
    case Op::kConstant:
    case Op::kParameter:
    case Op::kPartitionId:
    case Op::kReplicaId:
    case Op::kCustomCall:
    case Op::kOptBarrier:
    case Op::kDomain:
    case Op::kAfterAll:
    case Op::kAddDependency:
    case Op::kTuple:  // constants stay arrays
    case Op::kWhile:
    case Op::kCall:
    case Op::kConditional:
    case Op::kFusion: return false;
    // Cheaper to compute than to store.
    case Op::kBroadcast:
    case Op::kIota: return i.shape().elements() <= 1;
    default: return i.def().evaluate != nullptr;
  }
}

// Element operations, roughly: results times what each one reads.
bool IsWithinLimits(const Instruction& i, const OptimizeOptions& limits) {
  if (!i.shape().IsArray() || !i.shape().IsStatic()) return false;
  if (i.shape().ByteSize() > limits.fold_max_bytes) return false;
  int64_t read = 1;
  for (const Instruction* operand : i.operands()) {
    if (!operand->shape().IsArray() || !operand->shape().IsStatic()) return false;
    read = std::max(read, operand->shape().elements());
  }
  int64_t written = std::max<int64_t>(i.shape().elements(), 1);
  if (IsElementwise(i.op())) return written <= limits.fold_max_work;
  return read <= limits.fold_max_work / written;
}

}  // namespace

Result<bool> FoldConstants(hlo::Module& module, const PassContext& context) {
  bool changed = false;
  for (const auto& computation : module.computations()) {
    for (Instruction* i : computation->Snapshot()) {
      if (!IsFoldable(*i) || !HasConstantOperands(*i)) continue;
      if (!IsWithinLimits(*i, context.options.optimize)) continue;
      std::vector<Literal> operands;
      for (const Instruction* operand : i->operands()) operands.push_back(operand->literal());
      Result<Literal> value = hlo::EvaluateInstruction(*i, operands);
      if (!value) continue;  // what fails at compile time is left to fail when it runs
      Instruction* constant =
          computation->Add(Op::kConstant, module.UniqueName(i->name()), i->shape(), {},
                           hlo::ConstantAttrs{.literal = *std::move(value)}, i);
      if (i->metadata() != nullptr) constant->mutable_metadata() = *i->metadata();
      i->ReplaceAllUsesWith(constant);
      computation->Remove(i);
      changed = true;
    }
  }
  return changed;
}

}  // namespace weft::compiler
