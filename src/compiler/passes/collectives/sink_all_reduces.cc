// While-loop all-reduce code motion.
#include <algorithm>
#include <optional>

#include "compiler/analysis/backend_config.h"
#include "compiler/analysis/collectives.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/own_loop.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// An all-reduce that one state element of a loop takes in, and nothing else reads.
struct SunkReduce {
  int64_t element = 0;
  Instruction* reduce = nullptr;
  bool is_sum = false;  // it is added to the element; else written to a row of it
};

bool IsMovable(const Instruction& i) {
  return i.op() == Op::kAllReduce && i.operand_count() == 1 && i.shape().IsArray() &&
         HasOneUse(i) && !HasControlDependencies(i) &&
         !i.attrs<hlo::AllReduceAttrs>().constrain_layout;
}

bool ReadsElement(const hlo::Computation& c, int64_t k) {
  const auto& users = c.parameter(0)->users();
  return std::any_of(users.begin(), users.end(),
                     [&](const Instruction* user) { return user->tuple_index() == k; });
}

std::optional<SunkReduce> FindSum(const Loop& loop, int64_t k) {
  Instruction* next = loop.Next(k);
  if (next->op() != Op::kAdd || !HasOneUse(*next)) return std::nullopt;
  for (int64_t at : {0, 1}) {
    Instruction *reduce = next->operand(at), *sum = next->operand(1 - at);
    bool is_state = sum->op() == Op::kGetTupleElement && sum->operand(0) == loop.body_state &&
                    sum->tuple_index() == k;
    if (!is_state || !HasOneUse(*sum) || !IsMovable(*reduce)) continue;
    auto op = SimpleReduction(*reduce->attrs<hlo::AllReduceAttrs>().to_apply);
    if (op != program::ReduceOp::kAdd) continue;
    // Another reader of the element would see sums of one device.
    const auto& users = loop.body_state->users();
    auto readers = std::count_if(users.begin(), users.end(),
                                 [&](const Instruction* u) { return u->tuple_index() == k; });
    if (readers == 1) return SunkReduce{k, reduce, true};
  }
  return std::nullopt;
}

std::optional<SunkReduce> FindRow(const Loop& loop, int64_t k) {
  Instruction* next = loop.Next(k);
  if (next->op() != Op::kDynamicUpdateSlice || !HasOneUse(*next)) return std::nullopt;
  Instruction* row = next->operand(1);
  while ((row->op() == Op::kReshape || row->op() == Op::kTranspose || row->op() == Op::kCopy) &&
         HasOneUse(*row) && !HasControlDependencies(*row)) {
    row = row->operand(0);
  }
  if (!IsMovable(*row) || !WritesWholeState(*loop.op, k)) return std::nullopt;
  return SunkReduce{k, row, false};
}

// The all-reduce on the whole element behind the loop; for sums the loop begins with zeroes.
Status Sink(const Loop& loop, const SunkReduce& found, FreshIds& ids) {
  Instruction* reduce = found.reduce;
  TRY(SplitUsers(loop.op));
  std::vector<Instruction*> read = TRY(ReadElements(loop.op)), with = read;
  Instruction*& element = with[static_cast<size_t>(found.element)];
  Instruction* behind = read.back()->next();
  hlo::CloneMap map;
  hlo::CloneChanges changes;
  changes.shape = element->shape();
  Instruction* operand = element;
  changes.operands = std::span<Instruction* const>(&operand, 1);
  ids.NextCopy();
  element = CloneInstruction(*reduce, *loop.op->parent(), map, behind, changes);
  ids.Rename(*element);
  if (found.is_sum) {
    Builder b(*loop.op->parent(), loop.op, loop.op);
    Instruction* before = TRY(ReadInit(loop, found.element));
    std::vector<Instruction*> inits;
    for (int64_t k = 0; k < loop.size(); ++k) inits.push_back(TRY(ReadInit(loop, k)));
    inits[static_cast<size_t>(found.element)] = TRY(ZeroesOf(b, before->shape()));
    loop.op->ReplaceOperand(0, TRY(b.Tuple(inits)));
    Builder after(*loop.op->parent(), behind, reduce);
    element = TRY(after.Add(Op::kAdd, {before, element}));
  }
  ReplaceElements(loop.op, read, with);
  reduce->ReplaceAllUsesWith(reduce->operand(0));
  reduce->parent()->Remove(reduce);
  return {};
}

}  // namespace

Result<bool> SinkAllReduces(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled) return false;
  FreshIds ids(module);
  bool changed = false;
  for (Instruction* op : OwnLoops(module)) {
    std::optional<Loop> loop = FindLoop(op);
    // Inside of another loop, devices may differ in how often they come here; an all-reduce that
    // runs as often as the loop, but at least once, keeps them together.
    bool is_met = op->parent() == module.entry() || KnownTripCount(*op) > 0;
    if (!loop || !is_met) continue;
    for (int64_t k = 0; k < loop->size(); ++k) {
      if (ReadsElement(*loop->condition, k)) continue;
      std::optional<SunkReduce> found = FindSum(*loop, k);
      if (!found) found = FindRow(*loop, k);
      if (!found) continue;
      TRY(Sink(*loop, *found, ids));
      changed = true;
    }
  }
  if (changed) TRY(EliminateDeadCode(module, context));
  return changed;
}

}  // namespace weft::compiler
