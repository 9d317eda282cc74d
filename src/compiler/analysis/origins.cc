#include "compiler/analysis/origins.h"

#include <unordered_set>
#include <vector>

#include "compiler/analysis/queries.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

namespace {

// What i moves, itself included; null: it computes something.
const Instruction* Moved(const Instruction& i, bool& negated) {
  switch (i.op()) {
    case Op::kNegate: negated = !negated; [[fallthrough]];
    case Op::kBitcast:
    case Op::kBroadcast:
    case Op::kCopy:
    case Op::kDynamicSlice:
    case Op::kGather:
    case Op::kReshape:
    case Op::kReverse:
    case Op::kSlice:
    case Op::kTranspose: return i.operand(0);
    case Op::kReducePrecision: return IsWholePrecision(i) ? i.operand(0) : nullptr;
    default: return nullptr;
  }
}

}  // namespace

Origin OriginOf(const Instruction& i) {
  Origin at{&i, false};
  for (int64_t n = 0; n < program::WorkBounds::kDepth; ++n) {
    const Instruction* next = Moved(*at.value, at.is_negated);
    if (next == nullptr) break;
    at.value = next;
  }
  return at;
}

int SignOfSameProducts(const Instruction& x, const Instruction& y) {
  Origin p = OriginOf(x), q = OriginOf(y);
  if (p.value->op() != Op::kMultiply || q.value->op() != Op::kMultiply) return 0;
  Origin a = OriginOf(*p.value->operand(0)), b = OriginOf(*p.value->operand(1));
  Origin c = OriginOf(*q.value->operand(0)), d = OriginOf(*q.value->operand(1));
  bool same =
      (a.value == c.value && b.value == d.value) || (a.value == d.value && b.value == c.value);
  bool negated =
      p.is_negated ^ q.is_negated ^ a.is_negated ^ b.is_negated ^ c.is_negated ^ d.is_negated;
  return !same ? 0 : negated ? -1 : 1;
}

namespace {

// max(x, 0) is no greatest of many.
bool IsExtreme(const Instruction& i) {
  std::optional<Op> op;
  if (i.op() == Op::kMaximum || i.op() == Op::kMinimum) {
    return SplatValue(*i.operand(0)) == nullptr && SplatValue(*i.operand(1)) == nullptr;
  }
  if (i.op() == Op::kReduce) op = BinaryReducer(*i.attrs<hlo::ReduceAttrs>().to_apply);
  if (i.op() == Op::kReduceWindow) op = BinaryReducer(*i.attrs<hlo::ReduceWindowAttrs>().to_apply);
  if (i.op() == Op::kScatter) op = BinaryReducer(*i.attrs<hlo::ScatterAttrs>().to_apply);
  return op == Op::kMaximum || op == Op::kMinimum;
}

// Operands of which some element may be an element of i.
std::span<Instruction* const> ChosenFrom(const Instruction& i) {
  switch (i.op()) {
    case Op::kConcatenate:
    case Op::kMaximum:
    case Op::kMinimum: return i.operands();
    case Op::kSelect: return i.operands().subspan(1);
    case Op::kDynamicUpdateSlice: return i.operands().first(2);
    case Op::kPad: return i.operands().first(1);
    default: return {};
  }
}

}  // namespace

bool Extremes::Has(const Instruction& i) const {
  std::vector<const Instruction*> values = {&i};
  std::unordered_set<const Instruction*> seen;
  auto add_element = [&](const Instruction& tuple, int64_t k) {
    if (tuple.op() == Op::kTuple) values.push_back(tuple.operand(k));
  };
  for (size_t at = 0; at < values.size() && at < program::WorkBounds::kPath; ++at) {
    const Instruction& value = *OriginOf(*values[at]).value;
    if (!seen.insert(&value).second) continue;
    if (IsExtreme(value)) return true;
    for (const Instruction* operand : ChosenFrom(value)) values.push_back(operand);
    if (value.op() != Op::kGetTupleElement) continue;
    const Instruction& tuple = *value.operand(0);
    const Instruction* loop = &tuple;
    if (tuple.op() == Op::kParameter && calls_.callers(tuple.parent()).size() == 1) {
      loop = calls_.callers(tuple.parent())[0];
    }
    if (loop->op() != Op::kWhile) continue;
    add_element(*loop->operand(0), value.tuple_index());
    add_element(*loop->attrs<hlo::WhileAttrs>().body->root(), value.tuple_index());
  }
  return false;
}

}  // namespace weft::compiler
