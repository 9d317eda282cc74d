#include "compiler/passes/expand_ops.h"
#include "hlo/clone.h"

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

}  // namespace

Result<bool> ExpandMarkers(Instruction* i) {
  switch (i->op()) {
    case Op::kDomain: ReplaceWithValue(i, i->operand(0)); return true;
    case Op::kAddDependency: return ExpandAddDependency(i);
    case Op::kGetDimensionSize: return ExpandGetDimensionSize(i);
    case Op::kSetDimensionSize: return ExpandSetDimensionSize(i);
    case Op::kDynamicReshape: return ExpandDynamicReshape(i);
    default: return false;
  }
}

}  // namespace weft::compiler
