// Loops: those that run never, once or a few times, and the state of the others.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/analysis/trip_count.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/expand/callers.h"
#include "compiler/passes/loops/batch_scanned_dots.h"
#include "compiler/passes/loops/drop_state.h"
#include "compiler/passes/loops/hoist_invariants.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/recognize/recognize_slices.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/builder.h"
#include "hlo/call_graph.h"
#include "hlo/clone.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

class LoopSimplifier {
 public:
  LoopSimplifier(hlo::Module& module, const PassContext& context)
      : module_(module),
        limits_(context.options.optimize),
        target_(context.target),
        effects_(module),
        callers_(module) {}

  Result<bool> Run() {
    hlo::CallGraph graph(module_);
    bool changed = false;
    for (Computation* computation : graph.PostOrder()) {
      std::vector<Instruction*> loops;
      for (Instruction* i : *computation) {
        if (i->op() == Op::kWhile && !HasControlDependencies(*i)) loops.push_back(i);
      }
      for (Instruction* loop : loops) changed |= TRY(SimplifyLoop(loop));
    }
    if (changed) module_.RemoveUnusedComputations();
    return changed;
  }

 private:
  bool HasEffects(const Computation& c) const {
    for (const Instruction* i : c) {
      if (effects_.Has(*i)) return true;
    }
    return false;
  }

  Result<bool> SimplifyLoop(Instruction* op) {
    const auto& attrs = op->attrs<hlo::WhileAttrs>();
    std::optional<int64_t> trips = TripCount(*op);
    if (HasEffects(*attrs.condition)) trips = std::nullopt;
    if (trips && op->sharding() == nullptr && MayUnroll(*attrs.body, *trips) &&
        op->shape() == op->operand(0)->shape()) {
      Unroll(op, *trips);
      return true;
    }
    bool changed = ReadInvariantsOutside(op);
    std::optional<Loop> loop = FindLoop(op);
    if (!loop) return changed;
    if (IsOwned(*loop) && KeepLastOfGreatest(*loop)) changed = true;
    if (MayDropState(*loop, effects_)) {
      loop = Own(*loop);
      loop = TRY(DropState(*loop, effects_));
      changed = true;
    }
    if (IsOwned(*loop)) {  // a copy for others would have to be made first
      KnownIntegers known;
      known.KnowInvariants(*loop);
      if (TRY(SliceKnownGathers(*loop->body, std::move(known)))) changed = true;
      if (std::optional<Loop> hoisted = TRY(HoistInvariants(*loop, trips, effects_, target_))) {
        loop = hoisted;
        changed = true;
      }
      if (trips && TRY(BatchScannedDots(*loop, *trips, effects_, target_))) changed = true;
    }
    return changed;
  }

  bool MayUnroll(const Computation& body, int64_t trips) {
    if (trips == 0) return true;
    bool fits = body.size() * trips <= limits_.unroll_max_instructions;
    if (trips == 1) return fits || callers_.IsOnly(&body);
    if (!fits || trips > limits_.unroll_max_trips) return false;
    for (const Instruction* i : body) {
      if (effects_.Has(*i) || i->op() == Op::kWhile || i->op() == Op::kConditional ||
          i->op() == Op::kCall || i->op() == Op::kCustomCall) {
        return false;
      }
    }
    return true;
  }

  void Unroll(Instruction* op, int64_t trips) {
    const Computation& body = *op->attrs<hlo::WhileAttrs>().body;
    // Channels and scheduling groups are of one iteration. The first takes those of a body that
    // goes.
    std::optional<FreshIds> ids;
    if (HoldsCollectives(body)) ids.emplace(module_);
    Instruction* value = op->operand(0);
    for (int64_t t = 0; t < trips; ++t) {
      hlo::CloneMap map;
      map.instructions[body.parameter(0)] = value;
      if (ids) ids->NextCopy();
      const bool renames = ids && (t > 0 || !callers_.IsOnly(&body));
      for (const Instruction* i : body) {
        if (i->IsParameter()) continue;
        Instruction* copy = hlo::CloneInstruction(*i, *op->parent(), map, op);
        if (renames) ids->Renumber(*copy);
        callers_.Add(*copy);
      }
      value = map.Find(body.root());
    }
    op->ReplaceAllUsesWith(value);
    op->parent()->Remove(op);
  }

  // What a loop hands on as it is can be read from its initial value.
  bool ReadInvariantsOutside(Instruction* op) {
    std::optional<Loop> loop = FindLoop(op);
    if (!loop) return false;
    bool changed = false;
    for (Instruction* user : std::vector<Instruction*>(op->users())) {
      if (user->op() != Op::kGetTupleElement || user->sharding() != nullptr) continue;
      if (HasControlDependencies(*user) || !loop->IsInvariant(user->tuple_index())) continue;
      Instruction* init = loop->Init(user->tuple_index());
      if (init == nullptr || !(init->shape() == user->shape())) continue;
      user->ReplaceAllUsesWith(init);
      op->parent()->Remove(user);
      changed = true;
    }
    return changed;
  }

  // The only use of an element of a state that is read, or null.
  static Instruction* OnlyRead(const Instruction& state, int64_t k) {
    Instruction* read = nullptr;
    for (Instruction* user : state.users()) {
      if (user->op() != Op::kGetTupleElement || user->tuple_index() != k) continue;
      if (user->users().empty() && !user->IsRoot()) continue;
      if (read != nullptr) return nullptr;
      read = user;
    }
    return read != nullptr && read->users().size() == 1 && !read->IsRoot() ? read : nullptr;
  }

  // A loop that runs while the greatest of what it has seen is below a bound, or the least above
  // one, may as well look at the last: those before were on the right side. The rounds then need
  // not wait for each other.
  bool KeepLastOfGreatest(const Loop& loop) {
    Instruction* root = loop.condition->root();
    if (root->op() != Op::kCompare || !root->shape().IsScalar() || IsUsedWhole(*loop.op)) {
      return false;
    }
    const auto& attrs = root->attrs<hlo::CompareAttrs>();
    for (int64_t side = 0; side < 2; ++side) {
      const Instruction *seen = root->operand(side), *bound = root->operand(1 - side);
      bool reads = seen->op() == Op::kGetTupleElement && seen->operand(0) == loop.condition_state;
      bool fixed = bound->IsConstant() || (bound->op() == Op::kGetTupleElement &&
                                           bound->operand(0) == loop.condition_state &&
                                           loop.IsInvariant(bound->tuple_index()));
      if (!reads || !fixed) continue;
      bool below = attrs.direction == hlo::Direction::kLt || attrs.direction == hlo::Direction::kLe;
      bool above = attrs.direction == hlo::Direction::kGt || attrs.direction == hlo::Direction::kGe;
      if (side == 1) std::swap(below, above);
      int64_t k = seen->tuple_index();
      Instruction* next = loop.Next(k);
      if (!(next->op() == Op::kMaximum && below) && !(next->op() == Op::kMinimum && above))
        continue;
      const auto& results = loop.body->root()->operands();
      if (std::count(results.begin(), results.end(), next) != 1) continue;
      const Instruction* before = OnlyRead(*loop.body_state, k);
      bool unread = std::none_of(
          loop.op->users().begin(), loop.op->users().end(), [&](const Instruction* user) {
            return user->tuple_index() == k && (user->IsRoot() || !user->users().empty());
          });
      if (!unread || before == nullptr || before->users()[0] != next || next->users().size() != 1 ||
          next->operand(0) == next->operand(1)) {
        continue;
      }
      loop.body->root()->ReplaceOperand(k, next->operand(next->operand(0) == before ? 1 : 0));
      loop.body->Remove(next);
      return true;
    }
    return false;
  }

  bool IsOwned(const Loop& loop) const {
    return callers_.IsOnly(loop.body) && callers_.IsOnly(loop.condition);
  }

  // The loop with a body and a condition that no other instruction calls.
  Loop Own(Loop loop) {
    if (IsOwned(loop)) return loop;
    auto& attrs = loop.op->mutable_attrs<hlo::WhileAttrs>();
    const Computation* shared = attrs.body;
    attrs.body = callers_.Own(attrs.body);
    if (attrs.body != shared && HoldsCollectives(*attrs.body)) {
      FreshIds ids(module_);
      for (Instruction* i : *attrs.body) ids.Renumber(*i);
    }
    attrs.condition = callers_.Own(attrs.condition);
    return *FindLoop(loop.op);
  }

  hlo::Module& module_;
  const OptimizeOptions& limits_;
  const program::TargetInfo& target_;
  const Effects effects_;
  Callers callers_;
};

}  // namespace

Result<bool> SimplifyWhile(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled || !HasOp(module, Op::kWhile)) return false;
  return LoopSimplifier(module, context).Run();
}

}  // namespace weft::compiler
