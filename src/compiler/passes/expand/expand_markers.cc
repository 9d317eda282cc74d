#include "compiler/passes/expand/expand_ops.h"
#include "hlo/clone.h"
#include "hlo/ops/called.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// What the token waits for, one step back through after-all; values that are there from the start
// count for nothing.
std::vector<Instruction*> AwaitedBy(Instruction* token) {
  std::vector<Instruction*> awaited = {token};
  if (token->op() == Op::kAfterAll) {
    awaited.assign(token->operands().begin(), token->operands().end());
  }
  std::erase_if(awaited, [](const Instruction* i) {
    return i->IsParameter() || i->IsConstant() ||
           (i->op() == Op::kAfterAll && i->operand_count() == 0);
  });
  return awaited;
}

// The users wait for the token instead.
Result<bool> ExpandAddDependency(Instruction* i) {
  std::vector<Instruction*> awaited = AwaitedBy(i->operand(1));
  if (i->IsRoot() && !awaited.empty()) return false;
  for (Instruction* user : std::vector<Instruction*>(i->users())) {
    for (Instruction* before : awaited) user->AddControlPredecessor(before);
  }
  ReplaceWithValue(i, i->operand(0));
  return true;
}

Result<bool> ExpandGetDimensionSize(Instruction* i) {
  const Shape& shape = i->operand(0)->shape();
  int64_t dim = i->attrs<hlo::DimensionsAttrs>().dimensions[0];
  if (shape.is_dynamic(dim)) return false;
  Builder b(*i->parent(), i, i);
  hlo::ReplaceInstruction(i, b.ScalarConstant(DType::kS32, static_cast<double>(shape.dim(dim))));
  return true;
}

bool IsConstantOf(const Instruction& i, int64_t value) {
  return i.IsConstant() && !i.attrs<hlo::ConstantAttrs>().elided && i.literal().size() == 1 &&
         i.literal().GetInt(0) == value;
}

// A size that is the bound, and a result that is not called dynamic.
Result<bool> ExpandSetDimensionSize(Instruction* i) {
  int64_t dim = i->attrs<hlo::DimensionsAttrs>().dimensions[0];
  const Shape& shape = i->operand(0)->shape();
  if (!i->shape().IsStatic() || !shape.IsStatic() || shape.dtype() != i->shape().dtype() ||
      !IsConstantOf(*i->operand(1), shape.dim(dim))) {
    return false;
  }
  ReplaceWithValue(i, i->operand(0));
  return true;
}

Result<bool> ExpandDynamicReshape(Instruction* i) {
  if (!IsStaticallyShaped(*i)) return false;
  for (int64_t d = 0; d < i->shape().rank(); ++d) {
    if (!IsConstantOf(*i->operand(d + 1), i->shape().dim(d))) return false;
  }
  Builder b(*i->parent(), i, i);
  hlo::ReplaceInstruction(i, TRY(b.Reshape(i->operand(0), i->shape().dims())));
  return true;
}

// A tuple of constants.
Result<Instruction*> ElementsOf(Builder& b, const Literal& value) {
  if (!value.shape().IsTuple()) return b.Constant(value);
  std::vector<Instruction*> elements;
  for (const Literal& element : value.tuple()) elements.push_back(TRY(ElementsOf(b, element)));
  return b.Tuple(elements);
}

Result<bool> ExpandConstant(Instruction* i) {
  if (!i->shape().IsTuple() || !i->literal().IsValid()) return false;
  Builder b(*i->parent(), i, i);
  hlo::ReplaceInstruction(i, TRY(ElementsOf(b, i->literal())));
  return true;
}

Result<Instruction*> SliceOfRow(Builder& b, Instruction* row, int64_t begin, int64_t end) {
  hlo::SliceAttrs attrs;
  attrs.slice = {{begin, end, 1}};
  return b.Add(Op::kSlice, {row}, hlo::Attrs(std::move(attrs)));
}

// Words of the state that the algorithm does not use stay as they are.
Result<bool> ExpandRngBitGenerator(Instruction* i) {
  const Shape state = i->operand(0)->shape();
  const auto& attrs = i->attrs<hlo::RngBitGeneratorAttrs>();
  if (state.dtype() != DType::kU64 && state.dtype() != DType::kU32) return false;
  int64_t words = attrs.algorithm == hlo::RngAlgorithm::kThreeFry ? 2 : 3;
  int64_t used = words * 8 / ByteWidth(state.dtype()), all = state.elements();
  if (all <= used) return false;
  Builder b(*i->parent(), i, i);
  Instruction* row = TRY(b.Reshape(i->operand(0), std::vector<int64_t>{all}));
  Instruction* first = TRY(SliceOfRow(b, row, 0, used));
  bool tuple = i->shape().IsTuple();
  Shape shape = hlo::StripLayout(i->shape());
  if (tuple) shape.mutable_tuple()[0] = first->shape();
  Instruction* made = TRY(b.Add(Op::kRngBitGenerator, std::span(&first, 1), i->attrs(), &shape));
  if (tuple) {
    Instruction* parts[] = {TRY(b.GetTupleElement(made, 0)), TRY(SliceOfRow(b, row, used, all))};
    hlo::DimensionsAttrs along;
    along.dimensions = {0};
    Instruction* next = TRY(b.Add(Op::kConcatenate, parts, hlo::Attrs(std::move(along))));
    Instruction* both[] = {TRY(b.Reshape(next, state.dims())), TRY(b.GetTupleElement(made, 1))};
    made = TRY(b.Tuple(both));
  }
  hlo::ReplaceInstruction(i, made);
  return true;
}

}  // namespace

Result<bool> ExpandMarkers(Instruction* i) {
  switch (i->op()) {
    case Op::kDomain: ReplaceWithValue(i, i->operand(0)); return true;
    case Op::kConstant: return ExpandConstant(i);
    case Op::kRngBitGenerator: return ExpandRngBitGenerator(i);
    case Op::kAddDependency: return ExpandAddDependency(i);
    case Op::kGetDimensionSize: return ExpandGetDimensionSize(i);
    case Op::kSetDimensionSize: return ExpandSetDimensionSize(i);
    case Op::kDynamicReshape: return ExpandDynamicReshape(i);
    default: return false;
  }
}

}  // namespace weft::compiler
