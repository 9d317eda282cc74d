// Loop nests out of flat loops whose inner loop ends by what it finds (jump threading through the
// loop's state): while (c) { s = p(s) ? f(s) : g(s) } becomes while (c) { while (p(s)) s = f(s);
// s = g(s) }.
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/log.h"
#include "compiler/analysis/queries.h"
#include "compiler/passes/loops/nest_flat_loops.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

constexpr int64_t kMostCopied = program::CodeBounds::kStraight;  // instructions of the body

struct PredicateNest {
  Loop loop;
  Instruction* predicate;  // of the body
  bool goes_on;            // its value in the inner loop
};

bool ReadsState(const Instruction& i, const Loop& loop, int64_t k) {
  return i.op() == Op::kGetTupleElement && i.operand(0) == loop.body_state && i.tuple_index() == k;
}

// Every instruction that a value is computed from.
std::unordered_set<const Instruction*> BehindOf(const Instruction* value) {
  std::unordered_set<const Instruction*> behind = {value};
  std::vector<const Instruction*> work = {value};
  while (!work.empty()) {
    const Instruction* i = work.back();
    work.pop_back();
    for (const Instruction* operand : i->operands()) {
      if (behind.insert(operand).second) work.push_back(operand);
    }
  }
  return behind;
}

// Iterations with this value of the predicate leave element k as it is.
bool StaysWith(const PredicateNest& nest, int64_t k) {
  const Instruction& next = *nest.loop.Next(k);
  return next.op() == Op::kSelect && next.operand(0) == nest.predicate &&
         ReadsState(*next.operand(nest.goes_on ? 1 : 2), nest.loop, k);
}

// At the end of the inner loop element k begins with something that it was not.
bool StartsAnew(const PredicateNest& nest, int64_t k) {
  const Instruction& next = *nest.loop.Next(k);
  if (next.op() != Op::kSelect || next.operand(0) != nest.predicate || StaysWith(nest, k)) {
    return false;
  }
  std::unordered_set<const Instruction*> behind = BehindOf(next.operand(nest.goes_on ? 2 : 1));
  return std::none_of(behind.begin(), behind.end(),
                      [&](const Instruction* i) { return ReadsState(*i, nest.loop, k); });
}

bool BranchesOn(const Instruction& predicate) {
  return std::any_of(predicate.users().begin(), predicate.users().end(), [](const Instruction* i) {
    return i->op() == Op::kConditional ||
           (i->op() == Op::kConvert &&
            std::any_of(i->users().begin(), i->users().end(),
                        [](const Instruction* user) { return user->op() == Op::kConditional; }));
  });
}

// It is computed again at the head of the inner loop: single elements alone.
bool IsCheap(const Instruction& predicate, const Loop& loop) {
  std::unordered_set<const Instruction*> behind = BehindOf(&predicate);
  return std::all_of(behind.begin(), behind.end(), [&](const Instruction* i) {
    if (i == loop.body_state || i->op() == Op::kGetTupleElement || i->IsConstant()) return true;
    return i->called_computations().empty() && i->shape().IsArray() && i->shape().elements() <= 1;
  });
}

std::optional<PredicateNest> FindPredicateNest(const Loop& loop) {
  for (int64_t k = 0; k < loop.size(); ++k) {
    const Instruction& next = *loop.Next(k);
    if (next.op() != Op::kSelect || !next.operand(0)->shape().IsScalar()) continue;
    for (bool goes_on : {true, false}) {
      PredicateNest nest{loop, loop.Next(k)->operand(0), goes_on};
      if (!StaysWith(nest, k) || nest.predicate->IsConstant()) continue;
      const auto& users = loop.condition_state->users();
      bool stays = std::all_of(users.begin(), users.end(), [&](const Instruction* user) {
        bool dead = user->users().empty() && !user->IsRoot();
        return dead || loop.IsInvariant(user->tuple_index()) ||
               StaysWith(nest, user->tuple_index());
      });
      bool anew = BranchesOn(*nest.predicate);
      for (int64_t other = 0; other < loop.size(); ++other) anew |= StartsAnew(nest, other);
      if (stays && anew && IsCheap(*nest.predicate, loop)) return nest;
    }
  }
  return std::nullopt;
}

// A copy of the body with the predicate known, before `before` of another computation.
Instruction* CopyIteration(const PredicateNest& nest, bool holds, Instruction* state, Builder& b) {
  hlo::CloneMap map;
  map.instructions[nest.loop.body_state] = state;
  for (const Instruction* i : *nest.loop.body) {
    if (i->IsParameter()) continue;
    Instruction* copy = hlo::CloneInstruction(*i, *state->parent(), map, nullptr);
    if (i == nest.predicate) {
      map.instructions[i] = b.ScalarConstant(DType::kPred, holds ? 1 : 0);
      state->parent()->Remove(copy);
    }
  }
  return map.Find(nest.loop.body->root());
}

// While the predicate says so.
Result<Computation*> AddInnerPredicate(const PredicateNest& nest, Computation& before) {
  hlo::Module& module = *before.module();
  Computation* condition = module.AddComputation(module.UniqueName("inner_condition"), &before);
  Builder b(*condition);
  hlo::CloneMap map;
  map.instructions[nest.loop.body_state] = TRY(b.Parameter(0, nest.loop.op->shape()));
  std::unordered_set<const Instruction*> behind = BehindOf(nest.predicate);
  for (const Instruction* i : *nest.loop.body) {
    if (behind.contains(i) && !i->IsParameter()) {
      hlo::CloneInstruction(*i, *condition, map, nullptr);
    }
  }
  Instruction* predicate = map.Find(nest.predicate);
  condition->set_root(nest.goes_on ? predicate : TRY(b.Add(Op::kNot, {predicate})));
  return condition;
}

Result<Computation*> AddNest(const PredicateNest& nest) {
  hlo::Module& module = *nest.loop.body->module();
  Computation* outer = module.AddComputation(module.UniqueName("outer_body"), nest.loop.body);
  Computation* inner = module.AddComputation(module.UniqueName("inner_body"), outer);
  Builder in(*inner);
  Instruction* state = TRY(in.Parameter(0, nest.loop.op->shape()));
  inner->set_root(CopyIteration(nest, nest.goes_on, state, in));
  Computation* condition = TRY(AddInnerPredicate(nest, *inner));
  Builder b(*outer, nullptr, nest.loop.op);
  state = TRY(b.Parameter(0, nest.loop.op->shape()));
  Instruction* loop =
      TRY(b.Add(Op::kWhile, {state}, hlo::WhileAttrs{.condition = condition, .body = inner}));
  outer->set_root(CopyIteration(nest, !nest.goes_on, loop, b));
  return outer;
}

}  // namespace

Result<bool> NestByPredicate(const Loop& loop, const Effects& effects) {
  bool may = loop.body->size() <= kMostCopied && loop.body->root()->op() == Op::kTuple;
  for (const Instruction* i : *loop.body) {
    may &= !effects.Has(*i) && effects.IsFunction(*i) && !HasControlDependencies(*i);
  }
  std::optional<PredicateNest> nest = may ? FindPredicateNest(loop) : std::nullopt;
  if (!nest) return false;
  VLOG("pass", 3) << "nest-flat-loops: " << loop.op->name() << ": an inner loop while "
                  << nest->predicate->name() << " is " << (nest->goes_on ? "true" : "false");
  loop.op->mutable_attrs<hlo::WhileAttrs>().body = TRY(AddNest(*nest));
  return true;
}

}  // namespace weft::compiler
