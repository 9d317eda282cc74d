#include "compiler/passes/rewrite.h"

#include <algorithm>

#include "compiler/passes/effects.h"
#include "hlo/clone.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

Result<bool> RewriteEach(hlo::Module& module, const Rewrite& rewrite) {
  std::vector<Computation*> computations;
  for (const auto& computation : module.computations()) computations.push_back(computation.get());
  bool changed = false;
  for (Computation* computation : computations) {
    for (Instruction* i : computation->Snapshot()) {
      if (TRY(rewrite(i))) changed = true;
    }
  }
  return changed;
}

void ReplaceWithValue(Instruction* i, Instruction* value) {
  Computation& computation = *i->parent();
  if (HasControlDependencies(*i)) {
    Shape shape = value->shape();
    shape.ClearLayout();
    Instruction* copy = computation.Add(Op::kCopy, computation.module()->UniqueName("copy"),
                                        std::move(shape), std::span(&value, 1), hlo::NoAttrs{}, i);
    hlo::ReplaceInstruction(i, copy);
    return;
  }
  i->ReplaceAllUsesWith(value);
  computation.Remove(i);
}

bool IsStaticallyShaped(const Instruction& i) {
  auto is_static = [](const Instruction* operand) { return operand->shape().IsStatic(); };
  return i.shape().IsStatic() && std::all_of(i.operands().begin(), i.operands().end(), is_static);
}

Result<Instruction*> ReshapeTo(Builder& b, Instruction* value, std::span<const int64_t> dims) {
  if (std::ranges::equal(value->shape().dims(), dims)) return value;
  return b.Reshape(value, dims);
}

bool MovesElements(std::span<const int64_t> dims, std::span<const int64_t> permutation) {
  int64_t last = -1;
  for (int64_t d : permutation) {
    if (dims[static_cast<size_t>(d)] == 1) continue;
    if (d < last) return true;
    last = d;
  }
  return false;
}

Result<Instruction*> TransposeTo(Builder& b, Instruction* value,
                                 std::span<const int64_t> permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return value;
  const Dims& dims = value->shape().dims();
  if (MovesElements(dims, permutation)) {
    return b.Transpose(value, hlo::Ints(permutation.begin(), permutation.end()));
  }
  Dims moved;
  for (int64_t d : permutation) moved.push_back(dims[static_cast<size_t>(d)]);
  return ReshapeTo(b, value, moved);
}

Result<Instruction*> ElementOf(Builder& b, Instruction* tuple, int64_t index) {
  if (tuple->op() == Op::kTuple) return tuple->operand(index);
  return b.GetTupleElement(tuple, index);
}

Result<Instruction*> ZeroesOf(Builder& b, const Shape& shape) {
  if (shape.IsTuple()) {
    std::vector<Instruction*> elements;
    for (const Shape& element : shape.elements_of_tuple()) {
      elements.push_back(TRY(ZeroesOf(b, element)));
    }
    return b.Tuple(elements);
  }
  if (shape.IsToken()) return b.Add(Op::kAfterAll, {});
  if (!shape.IsArray() || !shape.IsStatic()) {
    return Unimplemented("no zeroes of shape ", shape.ToStringWithoutLayout());
  }
  // Bytes of zero, also of formats that have no number zero.
  return FillWith(b, b.Constant(Literal(Shape::Scalar(shape.dtype()))), shape);
}

Result<Instruction*> FillWith(Builder& b, Instruction* scalar, const Shape& shape) {
  if (shape.IsScalar()) return scalar;
  return b.Broadcast(scalar, Shape(scalar->shape().dtype(), shape.dims()), {});
}

Result<Computation*> ScalarFunctions::Get(Op op, DType dtype) {
  for (const Entry& entry : made_) {
    if (entry.op == op && entry.dtype == dtype) return entry.computation;
  }
  Computation* computation = TRY(hlo::AddScalarBinary(module_, op, dtype));
  made_.push_back({op, dtype, computation});
  return computation;
}

Result<Instruction*> ChooseBranch(Builder& b, Instruction* selector,
                                  std::span<Instruction* const> values) {
  if (selector->shape().dtype() == DType::kPred) {
    return b.Add(Op::kSelect, {selector, values[0], values[1]});
  }
  Instruction* chosen = values.back();
  for (size_t k = values.size() - 1; k-- > 0;) {
    Instruction* number = b.ScalarConstant(DType::kS32, static_cast<double>(k));
    Instruction* is_it = TRY(b.Compare(selector, number, hlo::Direction::kEq));
    chosen = TRY(b.Add(Op::kSelect, {is_it, values[k], chosen}));
  }
  return chosen;
}

}  // namespace weft::compiler
