// Loop nests that were written as one loop (the inverse of loop coalescing): a loop whose state has
// an inner counter, which starts anew where it has reached its end, and outer elements, which
// change there alone, becomes a loop around a counted one. What is known of counted loops, such as
// ranges of the counter and elements that the next iteration reads, is then known of it.
#include "compiler/passes/loops/nest_flat_loops.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "hlo/computation.h"
#include "program/kernel.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Direction;
using hlo::Instruction;
using hlo::Op;

struct Nest {
  Loop loop;
  int64_t counter;             // the element that counts the inner loop
  int64_t end, restart;        // first number it does not reach, and where it starts anew
  std::vector<int64_t> outer;  // elements that change at the end of the inner loop alone
};

bool IsState(const Instruction& i, const Loop& loop, int64_t k) {
  return i.op() == Op::kGetTupleElement && i.operand(0) == loop.body_state && i.tuple_index() == k;
}

std::optional<int64_t> Number(const Instruction& i) {
  bool takes = i.IsConstant() && i.shape().IsScalar() && IsInteger(i.shape().dtype()) &&
               !i.attrs<hlo::ConstantAttrs>().elided;
  if (!takes || !std::in_range<int32_t>(i.literal().GetInt(0))) return std::nullopt;
  return i.literal().GetInt(0);
}

// What is added to element k, where the value is such a sum.
std::optional<int64_t> AddedTo(const Instruction& i, const Loop& loop, int64_t k) {
  if (IsState(i, loop, k)) return 0;
  if (i.op() != Op::kAdd || !i.shape().IsScalar()) return std::nullopt;
  for (int64_t side = 0; side < 2; ++side) {
    if (IsState(*i.operand(side), loop, k)) return Number(*i.operand(1 - side));
  }
  return std::nullopt;
}

// The first number that counter k, which is at least `least`, does not reach, where `ends` says
// that this was its last one. Neither it nor what is compared wraps around on the way there.
std::optional<int64_t> EndOf(const Instruction& ends, const Loop& loop, int64_t k, int64_t least) {
  if (ends.op() != Op::kCompare || !IsSigned(ends.operand(0)->shape().dtype())) return std::nullopt;
  DType dtype = ends.operand(0)->shape().dtype();
  std::optional<int64_t> added = AddedTo(*ends.operand(0), loop, k);
  std::optional<int64_t> limit = Number(*ends.operand(1));
  if (!added || !limit) return std::nullopt;
  int64_t end = *limit - *added + 1;
  switch (ends.attrs<hlo::CompareAttrs>().direction) {
    case Direction::kEq:
    case Direction::kGe: break;
    case Direction::kGt: ++end; break;
    default: return std::nullopt;
  }
  bool fits = program::FitsInteger(end, dtype) && program::FitsInteger(least + *added, dtype) &&
              program::FitsInteger(end - 1 + *added, dtype);
  return fits ? std::optional(end) : std::nullopt;
}

// Elements that are as they were, unless `ends`, where a constant is added to them.
std::vector<int64_t> OuterElements(const Loop& loop, const Instruction& ends) {
  std::vector<int64_t> outer;
  for (int64_t k = 0; k < loop.size(); ++k) {
    const Instruction& next = *loop.Next(k);
    if (next.op() == Op::kSelect && next.operand(0) == &ends &&
        IsState(*next.operand(2), loop, k) && AddedTo(*next.operand(1), loop, k)) {
      outer.push_back(k);
    }
  }
  return outer;
}

std::optional<Nest> FindNest(const Loop& loop) {
  for (int64_t k = 0; k < loop.size(); ++k) {
    const Instruction& next = *loop.Next(k);
    if (next.op() != Op::kSelect || !next.shape().IsScalar()) continue;
    std::optional<int64_t> restart = Number(*next.operand(1));
    const Instruction* first = loop.Init(k);
    std::optional<int64_t> start = first != nullptr ? Number(*first) : std::nullopt;
    if (!restart || !start || AddedTo(*next.operand(2), loop, k) != 1) continue;
    std::optional<int64_t> end = EndOf(*next.operand(0), loop, k, std::min(*start, *restart));
    if (!end) continue;
    if (*start >= *end || *restart >= *end || !std::in_range<int32_t>(*end)) continue;
    Nest nest{loop, k, *end, *restart, OuterElements(loop, *next.operand(0))};
    // The condition is the same in all iterations of the inner loop.
    auto stays = [&](const Instruction* user) {
      int64_t read = user->tuple_index();
      bool dead = user->users().empty() && !user->IsRoot();
      return dead || loop.IsInvariant(read) ||
             std::find(nest.outer.begin(), nest.outer.end(), read) != nest.outer.end();
    };
    const auto& users = loop.condition_state->users();
    if (!nest.outer.empty() && std::all_of(users.begin(), users.end(), stays)) return nest;
  }
  return std::nullopt;
}

// While the counter is below its end.
Result<Computation*> AddInnerCondition(const Nest& nest, Computation& before) {
  hlo::Module& module = *before.module();
  Computation* condition = module.AddComputation(module.UniqueName("inner_condition"), &before);
  Builder b(*condition);
  Instruction* state = TRY(b.Parameter(0, nest.loop.op->shape()));
  Instruction* counter = TRY(b.GetTupleElement(state, nest.counter));
  Instruction* end = b.ScalarConstant(counter->shape().dtype(), static_cast<double>(nest.end));
  condition->set_root(TRY(b.Compare(counter, end, Direction::kLt)));
  return condition;
}

// The iteration as it was, but that the counter goes on and outer elements stay.
Result<Computation*> AddInnerBody(const Nest& nest, Computation& before) {
  hlo::Module& module = *before.module();
  hlo::CloneMap map;
  Computation* body =
      hlo::CloneComputation(*nest.loop.body, module, map, module.UniqueName("inner_body"), &before);
  Instruction* root = body->root();
  root->ReplaceOperand(nest.counter, map.Find(nest.loop.Next(nest.counter)->operand(2)));
  for (int64_t k : nest.outer) {
    root->ReplaceOperand(k, map.Find(nest.loop.Next(k)->operand(2)));
  }
  return body;
}

// The inner loop, then what happens at its end.
Result<Computation*> AddOuterBody(const Nest& nest, Computation& before) {
  hlo::Module& module = *before.module();
  Computation* body = module.AddComputation(module.UniqueName("outer_body"), &before);
  Computation* inner_condition = TRY(AddInnerCondition(nest, *body));
  Computation* inner_body = TRY(AddInnerBody(nest, *body));
  Builder b(*body, nullptr, nest.loop.op);
  Instruction* state = TRY(b.Parameter(0, nest.loop.op->shape()));
  Instruction* inner = TRY(b.Add(
      Op::kWhile, {state}, hlo::WhileAttrs{.condition = inner_condition, .body = inner_body}));
  std::vector<Instruction*> next;
  for (int64_t k = 0; k < nest.loop.size(); ++k) {
    next.push_back(TRY(b.GetTupleElement(inner, k)));
    DType dtype = next.back()->shape().IsScalar() ? next.back()->shape().dtype() : DType::kS32;
    if (k == nest.counter) {
      next.back() = b.ScalarConstant(dtype, static_cast<double>(nest.restart));
    } else if (std::find(nest.outer.begin(), nest.outer.end(), k) != nest.outer.end()) {
      int64_t added = *AddedTo(*nest.loop.Next(k)->operand(1), nest.loop, k);
      Instruction* number = b.ScalarConstant(dtype, static_cast<double>(added));
      next.back() = TRY(b.Add(Op::kAdd, {next.back(), number}));
    }
  }
  body->set_root(TRY(b.Tuple(next)));
  return body;
}

Result<bool> NestFlatLoop(Instruction* i, const Effects& effects) {
  if (i->op() != Op::kWhile) return false;
  std::optional<Loop> loop = FindLoop(i);
  if (!loop) return false;
  std::optional<Nest> nest = FindNest(*loop);
  if (!nest) return NestByPredicate(*loop, effects);
  VLOG("pass", 3) << "nest-flat-loops: " << i->name() << ": element " << nest->counter
                  << " counts an inner loop to " << nest->end;
  Computation* body = TRY(AddOuterBody(*nest, *loop->body));
  i->mutable_attrs<hlo::WhileAttrs>().body = body;
  return true;
}

}  // namespace

Result<bool> NestFlatLoops(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  const Effects effects(module);
  return RewriteEach(module, [&](Instruction* i) { return NestFlatLoop(i, effects); });
}

}  // namespace weft::compiler
