#include <algorithm>
#include <unordered_map>

#include "compiler/analysis/search.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/simplify/equality.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

bool MayMerge(const Instruction& i, const Effects& effects) {
  if (i.IsParameter() || effects.Has(i) || HasControlDependencies(i)) return false;
  if (HasTrait(i.op(), hlo::kAsyncStart | hlo::kAsyncDone) || i.shape().IsToken()) return false;
  // A custom call without operands may hand out a new buffer each time.
  if (i.shape().IsBuffer() || (i.op() == Op::kCustomCall && i.operand_count() == 0)) return false;
  // These exist to keep things apart.
  return i.op() != Op::kOptBarrier && i.op() != Op::kDomain && i.op() != Op::kAddDependency;
}

bool IsUnordered(const Instruction& i) {
  return HasTrait(i.op(), hlo::kCommutative) && i.operand_count() == 2;
}

size_t HashWithOperands(const Instruction& i, const ComputationClasses& classes) {
  size_t operands = 0;
  for (const Instruction* operand : i.operands()) {
    size_t id = (static_cast<size_t>(operand->id()) + 1) * 0xd6e8feb86659fd93;
    operands = IsUnordered(i) ? operands + id : operands * 31 + id;
  }
  return classes.HashButOperands(i) * 31 + operands;
}

bool SameOperands(const Instruction& a, const Instruction& b) {
  if (a.operand_count() != b.operand_count()) return false;
  if (std::equal(a.operands().begin(), a.operands().end(), b.operands().begin())) return true;
  return IsUnordered(a) && a.operand(0) == b.operand(1) && a.operand(1) == b.operand(0);
}

bool MergeEqual(hlo::Computation& computation, const Effects& effects,
                const ComputationClasses& classes) {
  std::vector<Instruction*> merged;
  std::unordered_multimap<size_t, Instruction*> seen;
  // In list order, so that operands are merged before their users are compared.
  for (Instruction* i : computation.Snapshot()) {
    if (!MayMerge(*i, effects)) continue;
    size_t hash = HashWithOperands(*i, classes);
    Instruction* first = nullptr;
    int candidates = 0;
    auto [begin, end] = seen.equal_range(hash);
    for (auto it = begin; it != end && first == nullptr; ++it, ++candidates) {
      Instruction* other = it->second;
      if (SameOperands(*other, *i) && classes.SameButOperands(*other, *i)) first = other;
    }
    if (first == nullptr) {
      if (candidates < kMaxBucket) seen.emplace(hash, i);
      continue;
    }
    i->ReplaceAllUsesWith(first);
    merged.push_back(i);
  }
  // Last first, as lists of users like it.
  for (auto it = merged.rbegin(); it != merged.rend(); ++it) computation.Remove(*it);
  return !merged.empty();
}

}  // namespace

Result<bool> EliminateCommonSubexpressions(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;  // longer lifetimes would spoil the schedule
  Effects effects(module);
  ComputationClasses classes(module);
  bool changed = false;
  for (const auto& computation : module.computations()) {
    changed |= MergeEqual(*computation, effects, classes);
  }
  return changed;
}

}  // namespace weft::compiler
