// If-conversion and its reverse (select): both sides, or a branch to the one that is chosen.
#include <algorithm>
#include <unordered_set>

#include "compiler/analysis/element_cost.h"
#include "compiler/lower/element/element.h"
#include "hlo/computation.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

Result<Element> ElementEmitter::EmitEither(ValueId condition,
                                           const std::function<Result<Element>()>& yes,
                                           const std::function<Result<Element>()>& no) {
  auto parts = [](Element e) {
    std::vector<ValueId> values = {e.re};
    if (e.im >= 0) values.push_back(e.im);
    return values;
  };
  b_.BeginIf(condition, program::Branch::kLikely);
  size_t begin = b_.code_size();
  Element first = Spread(TRY(yes()));
  bool nothing = b_.code_size() == begin;
  b_.BeginElse(parts(first));
  begin = b_.code_size();
  Element second = Spread(TRY(no()));
  // All of the work is in the second block: the branch is there to skip it, and speculating it
  // would be in vain.
  if (nothing && b_.code_size() > begin) b_.SetBranch(program::Branch::kGuard);
  std::vector<ValueId> after = b_.End(parts(second));
  return Element{after[0], after.size() > 1 ? after[1] : -1};
}

// What computing a side of a select takes that nothing else asks for; 0 where much of it is shared.
double ElementEmitter::OwnCost(const Instruction& side, const Instruction& select,
                               const Index& index) {
  constexpr size_t kMost = program::WorkBounds::kBlock;  // instructions looked at
  std::vector<const Instruction*> reached = {&side};
  std::unordered_set<const Instruction*> seen = {&side, &select};
  for (size_t at = 0; at < reached.size() && reached.size() < kMost; ++at) {
    const Instruction& i = *reached[at];
    if (bound_.contains(&i) || arguments_.contains(&i) || FindCached(i, index)) continue;
    for (const Instruction* operand : i.operands()) {
      if (seen.insert(operand).second) reached.push_back(operand);
    }
  }
  double own = 0, shared = 0;
  for (const Instruction* i : reached) {
    if (bound_.contains(i) || !i->shape().IsArray() || FindCached(*i, index)) continue;
    bool only = std::all_of(i->users().begin(), i->users().end(),
                            [&](const Instruction* user) { return seen.contains(user); });
    (only ? own : shared) += ElementCost(*i);
  }
  return 2 * shared <= own ? own : 0;
}

// One condition for all lanes, and sides that are work: only the one that is chosen is computed.
Result<std::optional<Element>> ElementEmitter::EmitOneSide(const Instruction& select,
                                                           const Index& index) {
  // Of an element (ElementCost): more than a mispredicted branch.
  constexpr double kMuchWork = program::TargetFacts::kMispredictedWork;
  const Instruction& condition = *select.operand(0);
  bool one = condition.shape().IsScalar() ||
             (condition.op() == HloOp::kBroadcast && condition.operand(0)->shape().IsScalar());
  if (!one || select.shape().IsScalar() || branches_ > 0) return std::nullopt;
  if (OwnCost(*select.operand(1), select, index) < kMuchWork &&
      OwnCost(*select.operand(2), select, index) < kMuchWork) {
    return std::nullopt;
  }
  ValueId chosen = TRY(Emit(condition, condition.shape().IsScalar() ? Index() : index)).re;
  if (b_.type(chosen).lanes != 1) return std::nullopt;
  ++branches_;
  auto value = EmitEither(
      chosen, [&] { return Emit(*select.operand(1), index); },
      [&] { return Emit(*select.operand(2), index); });
  --branches_;
  return std::optional(TRY(std::move(value)));
}

}  // namespace weft::compiler
