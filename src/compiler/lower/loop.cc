// Loops: every element of a kernel's results by itself, whatever computes it.
#include "compiler/lower/loop.h"

#include <algorithm>
#include <unordered_map>

#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

// Steps that wait for each other, more of them than a processor looks ahead, with few values on the
// way: twice the lanes keep it busy.
bool IsLongChain(const KernelBody& body) {
  // Operations; values that live at once.
  constexpr int kLong = program::CodeBounds::kLongBody, kFewValues = 5;
  std::unordered_map<const Instruction*, int> depth;
  std::unordered_map<const Instruction*, size_t> last_use;
  auto counts = [](const Instruction& i) {
    return i.shape().IsArray() && i.shape().elements() > 1 && !IsFree(i) && !i.IsConstant();
  };
  for (size_t k = 0; k < body.members.size(); ++k) {
    for (const Instruction* operand : body.members[k]->operands()) last_use[operand] = k;
  }
  std::vector<int> ends(body.members.size() + 1);
  int steps = 0, deepest = 0, values = 0, most = 0;
  for (size_t k = 0; k < body.members.size(); ++k) {
    const Instruction& i = *body.members[k];
    int longest = 0;
    for (const Instruction* operand : i.operands()) {
      auto it = depth.find(operand);
      if (it != depth.end()) longest = std::max(longest, it->second);
    }
    depth[&i] = longest + (counts(i) ? 1 : 0);
    values -= ends[k];
    if (!counts(i)) continue;
    if (ElementCost(i) > 1 || !hlo::IsElementwise(i.op())) return false;
    ++steps;
    deepest = std::max(deepest, depth[&i]);
    most = std::max(most, ++values);
    auto it = last_use.find(&i);
    ++ends[it == last_use.end() ? body.members.size() : it->second];
  }
  return steps >= kLong && 2 * deepest >= steps && most <= kFewValues;
}

Decision MatchEmpty(Subject& subject) {
  const Shape& shape = subject.instruction.shape();
  if (shape.IsArray() && shape.elements() == 0) return Take("the result has no elements");
  return Refuse("the result has elements");
}

Status LowerEmpty(Subject&) {
  return {};
}

Decision MatchLoop(Subject&) {
  return Take("any element can be computed by itself");
}

Status LowerLoop(Subject& subject) {
  KernelDraft draft = NewDraft(subject.cx, subject.body());
  TRY(EmitLoop(subject, draft, false));
  Finish(subject.cx, draft, subject.body(), subject.steps);
  return {};
}

}  // namespace

LoopShape LoopShapeOf(Subject& subject) {
  LoopShape shape = subject.shape();
  if (!subject.cx.serial && IsLongChain(subject.body())) {
    shape.width = std::max<int64_t>(1, shape.width / 2);
  }
  return shape;
}

Status EmitLoop(Subject& subject, KernelDraft& draft, bool by_rows) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  draft.Declare(body.inputs, body.outputs);
  ElementContext& e = draft.elements();
  LoopShape shape = LoopShapeOf(subject);
  shape.by_rows = by_rows;
  if (shape.by_rows) shape.flat = false;
  if (!shape.flat) {
    std::vector<const Instruction*> roots;
    for (const KernelOutput& output : body.outputs) roots.push_back(output.inside);
    shape.cuts = MinorSplitPoints(body.members, roots, shape.dims);
    shape.cuts_gather = !shape.cuts.empty() && GathersAtCuts(body.members, shape.dims);
    shape.outer = OuterIndexSets(body.members, roots, shape.dims, shape.cuts.size());
  }
  TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
    std::vector<Element> values;
    for (const KernelOutput& output : body.outputs) {
      values.push_back(TRY(output.inside->shape().IsTuple()
                               ? EmitLeaf(e, *output.inside, output.leaf, index)
                               : EmitElement(e, *output.inside, index)));
    }
    for (size_t k = 0; k < body.outputs.size(); ++k) {
      const Shape& to = cx.memory.shape(body.outputs[k].value);
      StoreAt(e, draft.MemoryOf(body.outputs[k].value), to.dtype(),
              LinearCoord(e, shape.dims, index), values[k]);
    }
    return {};
  }));
  return {};
}

extern constinit const LoweringRow kEmpty = {"no elements", {}, MatchEmpty, LowerEmpty};
extern constinit const LoweringRow kLoop = {"loop", {}, MatchLoop, LowerLoop};

}  // namespace weft::compiler
