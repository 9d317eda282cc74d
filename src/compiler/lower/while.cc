// Loops (while) and conditionals as steps with steps inside.
#include "compiler/lower/while.h"

#include <algorithm>

#include "base/str.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/analysis/work.h"

namespace weft::compiler {

using hlo::Instruction;
using program::BufferId;
using program::Step;
using HloOp = hlo::Op;

namespace {

// The same steps with buffers exchanged.
void ExchangeBuffers(Steps& steps, const std::vector<std::pair<BufferId, BufferId>>& pairs) {
  ForEachStep(steps, [&](Step& step) {
    for (program::Use& use : step.uses) {
      for (const auto& [a, b] : pairs) {
        if (use.slice.buffer == a || use.slice.buffer == b) {
          use.slice.buffer = use.slice.buffer == a ? b : a;
          break;
        }
      }
    }
  });
}

// What the body made becomes the state of the next round: by a copy, or by a second round in which
// it is where the state was. An odd round then comes before the loop; where nothing is known of the
// number of rounds, the loop's condition is tested in between.
void NextRound(LowerContext& cx, const Instruction& loop, program::WhileStep& op, Steps& before) {
  const auto& state = cx.memory.State(loop);
  const auto next = cx.memory.Leaves(*loop.attrs<hlo::WhileAttrs>().body->root());
  const auto& double_buffered = cx.memory.DoubleBuffered(loop);
  std::vector<std::pair<MemValue, MemValue>> moves, turns;
  std::vector<std::pair<BufferId, BufferId>> exchanged;
  for (size_t k = 0; k < state.size(); ++k) {
    if (state[k] < 0) continue;
    bool exchanges =
        std::find(double_buffered.begin(), double_buffered.end(), k) != double_buffered.end();
    (exchanges ? turns : moves).emplace_back(next[k], state[k]);
    if (exchanges) exchanged.emplace_back(cx.Buffer(next[k]), cx.Buffer(state[k]));
  }
  CopyTogether(cx, std::move(moves), "next loop state", loop, op.body);
  op.trip_count = TripCount(loop);
  if (exchanged.empty()) return;
  if (!op.trip_count) {
    // body; if (condition) { body, exchanged } else { the state goes back to its place }
    program::ConditionalStep choice;
    ExchangeBuffers(choice.branches.emplace_back(op.body), exchanged);
    cx.in_loop = false;
    CopyTogether(cx, std::move(turns), "double-buffered state, at the end of the loop", loop,
                 choice.branches.emplace_back());
    cx.in_loop = true;
    Steps test = op.condition;
    ExchangeBuffers(test, exchanged);
    op.body.insert(op.body.end(), test.begin(), test.end());
    Step step;
    const hlo::Computation& condition = *loop.attrs<hlo::WhileAttrs>().condition;
    step.uses = {In(cx.program, cx.Buffer(cx.memory.Leaf(*condition.root())))};
    step.op = std::move(choice);
    step.name = StrCat(loop.name(), ".turn");
    step.source = loop.SourceLocation();
    op.body.push_back(std::move(step));
    return;
  }
  if (*op.trip_count % 2 != 0) {
    before.insert(before.end(), op.body.begin(), op.body.end());
    CopyTogether(cx, std::move(turns), "double-buffered state, odd number of rounds", loop, before);
  }
  Steps second = op.body;
  ExchangeBuffers(second, exchanged);
  op.body.insert(op.body.end(), second.begin(), second.end());
  *op.trip_count /= 2;
}

// Loops that count to something known before they begin.
void NoteCounter(LowerContext& cx, const Instruction& loop, program::WhileStep& op, Step& step) {
  if (op.trip_count || !cx.target.RunsOnHost()) return;
  if (!cx.memory.DoubleBuffered(loop).empty()) return;  // two rounds are one
  std::optional<LoopCounter> counter = FindLoopCounter(loop);
  if (!counter || !cx.value_ranges.NeverWraps(*counter->sum)) return;
  MemValue number = cx.memory.State(loop)[static_cast<size_t>(counter->index)];
  if (number < 0) return;
  op.count_step = counter->step;
  op.count_limit = counter->value;
  step.uses.push_back(In(cx.program, cx.Buffer(number)));
  if (!counter->value)
    step.uses.push_back(In(cx.program, cx.Buffer(cx.memory.Leaf(*counter->limit))));
}

Decision MatchWhile(Subject&) {
  return Take("rounds are made one after the other");
}

Status LowerWhile(Subject& subject) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& loop = subject.instruction;
  const auto& attrs = loop.attrs<hlo::WhileAttrs>();
  CopyInitialState(cx, loop, steps);
  bool outer = cx.serial, outer_in_loop = cx.in_loop;
  cx.in_loop = true;
  cx.serial = cx.serial || WorkOfComputation(*attrs.body) + WorkOfComputation(*attrs.condition) <
                               cx.target.WorkOfSerialRound();
  program::WhileStep op;
  cx.in_condition = true;
  TRY(LowerComputation(cx, *attrs.condition, op.condition));
  cx.in_condition = false;
  TRY(LowerComputation(cx, *attrs.body, op.body));
  cx.serial = outer;
  NextRound(cx, loop, op, steps);
  cx.in_loop = outer_in_loop;
  Step step;
  step.uses = {In(cx.program, cx.Buffer(cx.memory.Leaf(*attrs.condition->root())))};
  NoteCounter(cx, loop, op, step);
  step.op = std::move(op);
  step.name = loop.name();
  step.source = loop.SourceLocation();
  steps.push_back(std::move(step));
  return {};
}

Decision MatchConditional(Subject&) {
  return Take("one of its branches is run");
}

Status LowerConditional(Subject& subject) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& conditional = subject.instruction;
  program::ConditionalStep op;
  const auto& results = cx.memory.Leaves(conditional);
  for (hlo::Computation* branch : conditional.attrs<hlo::ConditionalAttrs>().branches()) {
    Steps& into = op.branches.emplace_back();
    TRY(LowerComputation(cx, *branch, into));
    const auto made = cx.memory.Leaves(*branch->root());
    std::vector<std::pair<MemValue, MemValue>> moves;
    for (size_t k = 0; k < results.size(); ++k) {
      if (results[k] >= 0) moves.emplace_back(made[k], results[k]);
    }
    CopyTogether(cx, std::move(moves), "branch result", conditional, into);
  }
  Step step;
  step.uses = {In(cx.program, cx.Buffer(cx.memory.Leaf(*conditional.operand(0))))};
  step.op = std::move(op);
  step.name = conditional.name();
  step.source = conditional.SourceLocation();
  steps.push_back(std::move(step));
  return {};
}

}  // namespace

void CopyInitialState(LowerContext& cx, const Instruction& loop, Steps& steps) {
  const auto init = cx.memory.Leaves(*loop.operand(0));
  const auto& state = cx.memory.State(loop);
  std::vector<std::pair<MemValue, MemValue>> start;
  for (size_t k = 0; k < state.size(); ++k) {
    if (state[k] < 0) continue;
    bool flat = loop.operand(0)->op() == HloOp::kTuple &&
                static_cast<size_t>(loop.operand(0)->operand_count()) == state.size();
    if (flat && WritesWholeState(loop, static_cast<int64_t>(k))) continue;
    start.emplace_back(init[k], state[k]);
  }
  CopyTogether(cx, std::move(start), "initial loop state", loop, steps);
}

extern constinit const LoweringRow kWhile = {
    "loop of steps", {HloOp::kWhile}, MatchWhile, LowerWhile};
extern constinit const LoweringRow kConditional = {
    "branches", {HloOp::kConditional}, MatchConditional, LowerConditional};

}  // namespace weft::compiler
