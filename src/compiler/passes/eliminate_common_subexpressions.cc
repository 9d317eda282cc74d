#include <unordered_map>

#include "compiler/passes.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

// Whether two equal ones always give the same value and one of them may go.
bool MayMerge(const Instruction& i) {
  if (i.IsParameter() || HasSideEffect(i.op())) return false;
  if (HasTrait(i.op(), hlo::kAsyncStart | hlo::kAsyncDone)) return false;
  if (!i.control_predecessors().empty() || !i.control_successors().empty()) return false;
  if (i.sharding() != nullptr) return false;
  switch (i.op()) {
    case Op::kCustomCall:
    case Op::kOptBarrier:
    case Op::kWhile:
    case Op::kCall:
    case Op::kConditional:
    case Op::kFusion:
    case Op::kDomain: return false;  // they may contain effects, or exist to keep things apart
    default: return true;
  }
}

size_t HashOf(const Instruction& i) {
  size_t hash = static_cast<size_t>(i.op()) * 0x9e3779b97f4a7c15 + i.shape().Hash();
  hash = hash * 31 + i.attrs().Hash();
  size_t operands = 0;
  for (const Instruction* operand : i.operands()) {
    size_t id = (static_cast<size_t>(operand->id()) + 1) * 0xd6e8feb86659fd93;
    operands = HasTrait(i.op(), hlo::kCommutative) ? operands + id : operands * 31 + id;
  }
  return hash * 31 + operands;
}

bool SameOperands(const Instruction& a, const Instruction& b) {
  if (a.operand_count() != b.operand_count()) return false;
  bool same = true;
  for (int64_t k = 0; k < a.operand_count(); ++k) same = same && a.operand(k) == b.operand(k);
  if (same || !HasTrait(a.op(), hlo::kCommutative) || a.operand_count() != 2) return same;
  return a.operand(0) == b.operand(1) && a.operand(1) == b.operand(0);
}

bool AreEqual(const Instruction& a, const Instruction& b) {
  return a.op() == b.op() && a.shape() == b.shape() && SameOperands(a, b) &&
         a.attrs() == b.attrs() && !(a.IsConstant() && a.attrs<hlo::ConstantAttrs>().elided);
}

bool MergeEqual(hlo::Computation& computation) {
  bool changed = false;
  std::unordered_multimap<size_t, Instruction*> seen;
  // In list order, so that operands are merged before their users are compared.
  for (Instruction* i : computation.Snapshot()) {
    if (!MayMerge(*i)) continue;
    size_t hash = HashOf(*i);
    Instruction* first = nullptr;
    auto [begin, end] = seen.equal_range(hash);
    for (auto it = begin; it != end && first == nullptr; ++it) {
      if (AreEqual(*it->second, *i)) first = it->second;
    }
    if (first == nullptr) {
      seen.emplace(hash, i);
      continue;
    }
    i->ReplaceAllUsesWith(first);
    computation.Remove(i);
    changed = true;
  }
  return changed;
}

}  // namespace

Result<bool> EliminateCommonSubexpressions(hlo::Module& module, const PassContext&) {
  bool changed = false;
  for (const auto& computation : module.computations()) {
    changed |= MergeEqual(*computation);
  }
  return changed;
}

}  // namespace weft::compiler
