// Why a loop ended: `while (p(s) and q(s[k])) ...; if (not q(s[k]))` asks again what the loop asked
// last. Where p still holds the answer is known, so that only where it does not is the question
// asked. As a branch this is foreseen, since it goes the way the loop's end went, and nothing waits
// for the elements that are read.
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/simplify/equality.h"
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

constexpr int kMaxQuestionDepth = program::WorkBounds::kDepth;  // operations behind each other

// A comparison behind a loop that repeats a part of its condition.
struct Repeated {
  Loop loop;
  const Instruction *holds, *asked;  // the other part of the condition, and this one
  Instruction* again;
  bool opposite;  // of what is asked in the condition
};

bool IsState(const Instruction& i, const Loop& loop) {
  return i.op() == Op::kGetTupleElement && i.operand(0) == loop.condition_state;
}

// A comparison of elements of the state and constants alone.
bool IsCheap(const Instruction& i, const Loop& loop) {
  if (i.op() != Op::kCompare) return false;
  return std::all_of(i.operands().begin(), i.operands().end(), [&](const Instruction* operand) {
    return operand->shape().IsScalar() &&
           (IsState(*operand, loop) || operand->op() == Op::kConstant);
  });
}

// Whether what the condition computes is what is computed behind the loop of its last state.
class LastRound {
 public:
  LastRound(const Loop& loop, const ComputationClasses& classes, const Effects& effects)
      : loop_(loop), classes_(classes), effects_(effects) {}

  bool Same(const Instruction& inside, const Instruction& outside, int depth = 0) {
    if (IsState(inside, loop_)) {
      int64_t k = inside.tuple_index();
      if (outside.op() == Op::kGetTupleElement && outside.operand(0) == loop_.op) {
        reads_loop_ = true;
        return outside.tuple_index() == k;
      }
      return loop_.IsInvariant(k) && loop_.Init(k) == &outside;
    }
    reads_at_index_ |= inside.op() == Op::kDynamicSlice || inside.op() == Op::kGather;
    if (depth > kMaxQuestionDepth || inside.IsParameter() || !effects_.IsFunction(inside)) {
      return false;
    }
    return classes_.SameButOperands(inside, outside) && SameOperands(inside, outside, depth + 1);
  }
  bool SameOperands(const Instruction& inside, const Instruction& outside, int depth) {
    if (inside.operand_count() != outside.operand_count()) return false;
    for (int64_t n = 0; n < inside.operand_count(); ++n) {
      if (!Same(*inside.operand(n), *outside.operand(n), depth)) return false;
    }
    return true;
  }
  // Of what was compared: it depends on the loop, and reads elements that take a while to come.
  bool IsOfUse() const { return reads_loop_ && reads_at_index_; }

 private:
  const Loop& loop_;
  const ComputationClasses& classes_;
  const Effects& effects_;
  bool reads_loop_ = false, reads_at_index_ = false;
};

std::optional<Repeated> FindRepeated(const Loop& loop, const Instruction& asked,
                                     const Instruction& holds, Instruction* again,
                                     const ComputationClasses& classes, const Effects& effects) {
  if (asked.op() != Op::kCompare || again->op() != Op::kCompare || !IsCheap(holds, loop)) {
    return std::nullopt;
  }
  if (!again->shape().IsScalar() || HasControlDependencies(*again)) return std::nullopt;
  const auto &a = asked.attrs<hlo::CompareAttrs>(), &b = again->attrs<hlo::CompareAttrs>();
  bool opposite = a.direction != b.direction;
  if (opposite) {
    // Of a NaN both x < y and x >= y are false.
    bool exact = IsInteger(asked.operand(0)->shape().dtype()) ||
                 a.direction == hlo::Direction::kEq || a.direction == hlo::Direction::kNe;
    if (!exact || hlo::Negated(a.direction) != b.direction) return std::nullopt;
  }
  if (a.type != b.type || a.order != b.order) return std::nullopt;
  LastRound last(loop, classes, effects);
  if (!last.SameOperands(asked, *again, 0) || !last.IsOfUse()) return std::nullopt;
  return Repeated{loop, &holds, &asked, again, opposite};
}

// (state) -> what is asked, as it is asked behind the loop.
Result<Computation*> AddQuestion(const Repeated& repeated, Computation& before) {
  hlo::Module& module = *before.module();
  hlo::CloneMap map;
  Computation* question = hlo::CloneComputation(*repeated.loop.condition, module, map,
                                                module.UniqueName("asked_again"), &before);
  const Instruction& asked = *repeated.asked;
  Builder b(*question, nullptr, repeated.again);
  question->set_root(TRY(b.Add(
      Op::kCompare, {map.instructions.at(asked.operand(0)), map.instructions.at(asked.operand(1))},
      repeated.again->attrs())));
  return question;
}

// (state) -> true, or false.
Result<Computation*> AddAnswer(const Repeated& repeated, Computation& before) {
  hlo::Module& module = *before.module();
  Computation* answer = module.AddComputation(module.UniqueName("known"), &before);
  Builder b(*answer, nullptr, repeated.again);
  TRY(b.Parameter(0, repeated.loop.op->shape()));
  answer->set_root(b.ScalarConstant(DType::kPred, repeated.opposite));
  return answer;
}

Status AskWhereNotKnown(const Repeated& repeated) {
  Instruction *again = repeated.again, *state = repeated.loop.op;
  Computation& c = *again->parent();
  Builder b(c, again, again);
  std::vector<Instruction*> operands;
  for (const Instruction* operand : repeated.holds->operands()) {
    hlo::CloneMap map;
    operands.push_back(operand->op() == Op::kConstant
                           ? hlo::CloneInstruction(*operand, c, map, again)
                           : TRY(b.GetTupleElement(state, operand->tuple_index())));
  }
  Instruction* holds = TRY(b.Add(Op::kCompare, operands, repeated.holds->attrs()));
  hlo::ConditionalAttrs attrs;
  attrs.true_computation = TRY(AddAnswer(repeated, c));
  attrs.false_computation = TRY(AddQuestion(repeated, c));
  Shape shape = again->shape();
  std::vector<Instruction*> of = {holds, state, state};
  hlo::ReplaceInstruction(again, TRY(b.Add(Op::kConditional, of, std::move(attrs), &shape)));
  return {};
}

}  // namespace

Result<bool> RecognizeLoopEnds(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  ComputationClasses classes(module);
  Effects effects(module);
  std::vector<const Computation*> bodies;
  for (const auto& c : module.computations()) {
    for (Instruction* i : *c) {
      if (i->op() == Op::kWhile) bodies.push_back(i->attrs<hlo::WhileAttrs>().body);
    }
  }
  std::vector<Repeated> found;
  std::unordered_set<const Instruction*> taken;
  auto look = [&](Instruction* while_op) {
    std::optional<Loop> loop = FindLoop(while_op);
    if (!loop || loop->condition->root()->op() != Op::kAnd) return;
    const Instruction& root = *loop->condition->root();
    for (Instruction* i = while_op->next(); i != nullptr; i = i->next()) {
      for (int64_t side = 0; side < 2 && !taken.contains(i); ++side) {
        auto repeated =
            FindRepeated(*loop, *root.operand(side), *root.operand(1 - side), i, classes, effects);
        if (!repeated) continue;
        taken.insert(i);
        found.push_back(*repeated);
      }
    }
  };
  for (const auto& c : module.computations()) {
    if (std::find(bodies.begin(), bodies.end(), c.get()) == bodies.end()) continue;
    for (Instruction* i : *c) {
      if (i->op() == Op::kWhile) look(i);
    }
  }
  for (const Repeated& repeated : found) TRY(AskWhereNotKnown(repeated));
  return !found.empty();
}

}  // namespace weft::compiler
