// If-conversion and its reverse (select): both sides, or a branch to the one that is chosen.
#include <algorithm>
#include <unordered_set>

#include "compiler/analysis/element_cost.h"
#include "compiler/lower/element/ops.h"
#include "hlo/computation.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

// What computing a side of a select takes that nothing else asks for; 0 where much of it is shared.
double OwnCost(ElementContext& e, const Instruction& side, const Instruction& select,
               const Index& index) {
  constexpr size_t kMost = program::WorkBounds::kBlock;  // instructions looked at
  std::vector<const Instruction*> reached = {&side};
  std::unordered_set<const Instruction*> seen = {&side, &select};
  for (size_t at = 0; at < reached.size() && reached.size() < kMost; ++at) {
    const Instruction& i = *reached[at];
    if (e.bound.contains(&i) || e.arguments.contains(&i) || e.FindCached(i, index)) continue;
    for (const Instruction* operand : i.operands()) {
      if (seen.insert(operand).second) reached.push_back(operand);
    }
  }
  double own = 0, shared = 0;
  for (const Instruction* i : reached) {
    if (e.bound.contains(i) || !i->shape().IsArray() || e.FindCached(*i, index)) continue;
    bool only = std::all_of(i->users().begin(), i->users().end(),
                            [&](const Instruction* user) { return seen.contains(user); });
    (only ? own : shared) += ElementCost(*i);
  }
  return 2 * shared <= own ? own : 0;
}

}  // namespace

Result<Element> EmitEither(ElementContext& e, ValueId condition,
                           const std::function<Result<Element>()>& yes,
                           const std::function<Result<Element>()>& no) {
  auto parts = [](Element element) {
    std::vector<ValueId> values = {element.re};
    if (element.im >= 0) values.push_back(element.im);
    return values;
  };
  e.b.BeginIf(condition, program::Branch::kLikely);
  size_t begin = e.b.code_size();
  Element first = SpreadToLanes(e, TRY(yes()));
  bool nothing = e.b.code_size() == begin;
  e.b.BeginElse(parts(first));
  begin = e.b.code_size();
  Element second = SpreadToLanes(e, TRY(no()));
  // All of the work is in the second block: the branch is there to skip it, and speculating it
  // would be in vain.
  if (nothing && e.b.code_size() > begin) e.b.SetBranch(program::Branch::kGuard);
  std::vector<ValueId> after = e.b.End(parts(second));
  return Element{after[0], after.size() > 1 ? after[1] : -1};
}

// One condition for all lanes, and sides that are work: only the one that is chosen is computed.
Result<std::optional<Element>> EmitOneSide(ElementContext& e, const Instruction& select,
                                           const Index& index) {
  // Of an element (ElementCost): more than a mispredicted branch.
  constexpr double kMuchWork = program::TargetFacts::kMispredictedWork;
  const Instruction& condition = *select.operand(0);
  bool one = condition.shape().IsScalar() ||
             (condition.op() == HloOp::kBroadcast && condition.operand(0)->shape().IsScalar());
  if (!one || select.shape().IsScalar() || e.branches > 0) return std::nullopt;
  if (OwnCost(e, *select.operand(1), select, index) < kMuchWork &&
      OwnCost(e, *select.operand(2), select, index) < kMuchWork) {
    return std::nullopt;
  }
  ValueId chosen =
      TRY(EmitElement(e, condition, condition.shape().IsScalar() ? Index() : index)).re;
  if (e.b.type(chosen).lanes != 1) return std::nullopt;
  ++e.branches;
  auto value = EmitEither(
      e, chosen, [&] { return EmitElement(e, *select.operand(1), index); },
      [&] { return EmitElement(e, *select.operand(2), index); });
  --e.branches;
  return std::optional(TRY(std::move(value)));
}

}  // namespace weft::compiler
