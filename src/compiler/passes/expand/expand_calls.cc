#include "compiler/analysis/search.h"
#include "compiler/passes/expand/expand_ops.h"
#include "compiler/passes/expand/inline.h"
#include "hlo/clone.h"
#include "hlo/ops/called.h"

namespace weft::compiler {
namespace {

using hlo::AsyncAttrs;
using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// The start's users read a tuple of its shape; its facts go to `op`, which does the work.
Status ReplaceStart(Builder& b, Instruction* start, Instruction* op,
                    std::span<Instruction* const> elements) {
  std::vector<Instruction*> all(elements.begin(), elements.end());
  for (int64_t i = static_cast<int64_t>(all.size()); i < start->shape().tuple_size(); ++i) {
    all.push_back(TRY(ZeroesOf(b, hlo::StripLayout(start->shape().tuple_element(i)))));
  }
  hlo::CopyFacts(*start, *op);
  if (op->sharding() != nullptr) op->mutable_extras().sharding = {};
  start->ReplaceAllUsesWith(TRY(b.Tuple(all)));
  start->parent()->Remove(start);
  return {};
}

// What a start holds of its operands: the one, or a tuple of all.
Result<Instruction*> OperandsAsOne(Builder& b, const Instruction& start) {
  if (start.operand_count() == 1) return start.operand(0);
  return b.Tuple(start.operands());
}

Status AppendArrays(Builder& b, Instruction* value, std::vector<Instruction*>& arrays) {
  if (!value->shape().IsTuple()) {
    arrays.push_back(value);
    return {};
  }
  for (int64_t k = 0; k < value->shape().tuple_size(); ++k) {
    TRY(AppendArrays(b, TRY(ElementOf(b, value, k)), arrays));
  }
  return {};
}

// A value of this shape, its arrays the elements of `flat` from `next` on.
Result<Instruction*> NestArrays(Builder& b, const Shape& shape, Instruction* flat, int64_t& next) {
  if (!shape.IsTuple()) return ElementOf(b, flat, next++);
  std::vector<Instruction*> elements;
  for (const Shape& element : shape.elements_of_tuple()) {
    elements.push_back(TRY(NestArrays(b, element, flat, next)));
  }
  return b.Tuple(elements);
}

// Only starts take tuples: all of their arrays go in one collective.
Result<bool> ExpandStartOfTuples(Instruction* start, Op op) {
  Builder b(*start->parent(), start, start);
  std::vector<Instruction*> arrays;
  std::vector<Shape> shapes;
  for (Instruction* operand : start->operands()) TRY(AppendArrays(b, operand, arrays));
  if (op != Op::kCollectivePermute || arrays.empty()) return false;
  for (const Instruction* array : arrays) shapes.push_back(hlo::StripLayout(array->shape()));
  if (arrays.size() == 1) arrays.push_back(arrays[0]), shapes.push_back(shapes[0]);
  const Shape all = Shape::Tuple(std::move(shapes));
  Instruction* moved = TRY(b.Add(op, arrays, start->attrs(), &all));
  int64_t next = 0;
  const Shape& result = start->shape().tuple_element(1);
  Instruction* elements[] = {TRY(OperandsAsOne(b, *start)),
                             TRY(NestArrays(b, result, moved, next))};
  TRY(ReplaceStart(b, start, moved, elements));
  return true;
}

// (operands, results, contexts ...)
Result<bool> ExpandCollectiveStart(Instruction* start, Op op) {
  const bool in_place = op == Op::kCollectivePermute &&
                        !start->attrs<hlo::CollectivePermuteAttrs>().slice_sizes.empty();
  for (const Instruction* operand : start->operands()) {
    if (!in_place && !operand->shape().IsArray()) return ExpandStartOfTuples(start, op);
  }
  Builder b(*start->parent(), start, start);
  Shape shape = hlo::StripLayout(start->shape().tuple_element(1));
  Instruction* value = TRY(b.Add(op, start->operands(), start->attrs(), &shape));
  Instruction* first = in_place ? start->operand(0) : TRY(OperandsAsOne(b, *start));
  Instruction* elements[] = {first, value};
  TRY(ReplaceStart(b, start, value, elements));
  return true;
}

Result<bool> ExpandAllReduceStart(Instruction* start) {
  Builder b(*start->parent(), start, start);
  Shape shape = hlo::StripLayout(start->shape());
  hlo::ReplaceInstruction(start,
                          TRY(b.Add(Op::kAllReduce, start->operands(), start->attrs(), &shape)));
  return true;
}

Result<bool> ExpandCopyStart(Instruction* start) {
  Builder b(*start->parent(), start, start);
  Instruction* copy = TRY(b.Add(Op::kCopy, {start->operand(0)}));
  Instruction* elements[] = {copy, start->operand(0)};
  TRY(ReplaceStart(b, start, copy, elements));
  return true;
}

// The computation is inlined where the last of its operands is given.
Result<bool> ExpandAsync(Instruction* start, std::span<Instruction* const> operands) {
  hlo::Computation* callee = start->attrs<AsyncAttrs>().calls;
  if (callee == nullptr) return false;
  const Shape result = hlo::StripLayout(start->shape().tuple_element(1));
  Builder b(*start->parent(), start, start);
  Instruction* bound = TRY(b.Tuple(operands));
  bool complete = operands.size() == callee->parameters().size() &&
                  hlo::ShapesMatch(callee->root()->shape(), result, hlo::MatchPrecision::kAnyFloat);
  if (!complete) {
    Instruction* elements[] = {bound, TRY(ZeroesOf(b, result))};
    TRY(ReplaceStart(b, start, bound, elements));
    return true;
  }
  Instruction* call = TRY(b.Call(callee, operands));
  hlo::CopyFacts(*start, *call);
  if (call->sharding() != nullptr) call->mutable_extras().sharding = {};
  start->DropControlDependencies();
  Instruction* value = InlineCallee(call, *callee);
  Instruction* elements[] = {bound, value};
  TRY(ReplaceStart(b, start, bound, elements));
  return true;
}

Result<bool> ExpandAsyncUpdate(Instruction* update) {
  Instruction* state = update->operand(0);
  if (hlo::ShapesMatch(state->shape(), update->shape())) {
    ReplaceWithValue(update, state);
    return true;
  }
  Builder b(*update->parent(), update, update);
  Instruction* bound = TRY(ElementOf(b, state, 0));
  std::vector<Instruction*> operands;
  for (int64_t i = 0; i < bound->shape().tuple_size(); ++i) {
    operands.push_back(TRY(ElementOf(b, bound, i)));
  }
  operands.insert(operands.end(), update->operands().begin() + 1, update->operands().end());
  return ExpandAsync(update, operands);
}

// A start whose result is written nowhere but at the done runs there.
Result<bool> ExpandAsyncDone(Instruction* done) {
  Builder b(*done->parent(), done, done);
  hlo::Computation* callee = done->attrs<AsyncAttrs>().calls;
  Instruction* bound = TRY(ElementOf(b, done->operand(0), 0));
  std::vector<Instruction*> operands;
  for (int64_t i = 0; i < bound->shape().tuple_size(); ++i) {
    operands.push_back(TRY(ElementOf(b, bound, i)));
  }
  Instruction* call = TRY(b.Call(callee, operands));
  hlo::ReplaceInstruction(done, call);
  InlineCallee(call, *callee);
  return true;
}

// The done is an element of what the start has become.
Result<bool> ExpandDone(Instruction* done, int64_t index) {
  Builder b(*done->parent(), done, done);
  Instruction* value = TRY(ElementOf(b, done->operand(0), index));
  if (!hlo::ShapesMatch(value->shape(), done->shape(), hlo::MatchPrecision::kAnyFloat)) {
    bool called = done->op() == Op::kAsyncDone && done->attrs<AsyncAttrs>().calls != nullptr;
    return called ? ExpandAsyncDone(done) : false;
  }
  if (value->op() == Op::kGetTupleElement && value->operand(0) == done->operand(0)) {
    hlo::ReplaceInstruction(done, value);
  } else {
    ReplaceWithValue(done, value);
  }
  return true;
}

// Also calls that are not to be inlined for their own sake: lowering knows none.
Result<bool> ExpandCall(Instruction* call) {
  hlo::Computation* callee = call->attrs<hlo::CallAttrs>().to_apply;
  if (callee == nullptr) return false;
  int64_t size = call->parent()->size() + callee->size();
  if (size > kMaxInstructions) {
    return ResourceExhausted("call: inlined, the module has more than ", kMaxInstructions,
                             " instructions");
  }
  InlineCallee(call, *callee);
  return true;
}

}  // namespace

Result<bool> ExpandCalls(Instruction* i, const std::unordered_set<const Instruction*>& kept) {
  if (kept.contains(i)) return false;
  if (i->op() == Op::kAsyncDone && kept.contains(i->operand(0))) return false;
  switch (i->op()) {
    case Op::kFusion: InlineCallee(i, *i->attrs<hlo::FusionAttrs>().calls); return true;
    case Op::kCall: return ExpandCall(i);
    case Op::kAllGatherStart: return ExpandCollectiveStart(i, Op::kAllGather);
    case Op::kCollectivePermuteStart: return ExpandCollectiveStart(i, Op::kCollectivePermute);
    case Op::kAllReduceStart: return ExpandAllReduceStart(i);
    case Op::kCopyStart: return ExpandCopyStart(i);
    case Op::kAsyncStart: return ExpandAsync(i, i->operands());
    case Op::kAsyncUpdate: return ExpandAsyncUpdate(i);
    case Op::kAllGatherDone:
    case Op::kCollectivePermuteDone:
    case Op::kAsyncDone: return ExpandDone(i, 1);
    case Op::kCopyDone: return ExpandDone(i, 0);
    case Op::kAllReduceDone: ReplaceWithValue(i, i->operand(0)); return true;
    default: return false;
  }
}

}  // namespace weft::compiler
