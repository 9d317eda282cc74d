#include "compiler/passes/expand/apply_to_arrays.h"

#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// A scalar made of a scalar that is the same value.
bool IsScalarIdentity(const Instruction& i) {
  switch (i.op()) {
    case Op::kBroadcast:
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kCopy: return i.operand(0)->shape().dtype() == i.shape().dtype();
    default: return false;
  }
}

bool IsApplicable(const Instruction& i) {
  if (i.op() == Op::kTuple) return i.IsRoot() && i.operand_count() > 0;
  if (!i.shape().IsScalar()) return false;
  if (i.IsConstant()) return !i.attrs<hlo::ConstantAttrs>().elided;
  if (i.IsParameter() || IsScalarIdentity(i)) return true;
  return (IsElementwise(i.op()) || i.op() == Op::kBitcastConvert) && i.operand_count() > 0;
}

}  // namespace

bool IsElementwiseComputation(const Computation& computation) {
  if (computation.root() == nullptr || computation.parameters().empty()) return false;
  for (const Instruction* i : computation) {
    if (!IsApplicable(*i)) return false;
  }
  return true;
}

Result<std::vector<Instruction*>> ApplyToArrays(const Computation& computation,
                                                std::span<Instruction* const> arguments,
                                                Computation& into, Instruction* before) {
  const Dims dims = arguments[0]->shape().dims();
  hlo::CloneMap map;
  hlo::Builder b(into, before);
  for (Instruction* i : computation) {
    Instruction*& made = map.instructions[i];
    if (i->op() == Op::kTuple) continue;
    Shape shape(i->shape().dtype(), dims);
    if (i->IsParameter()) {
      Instruction* argument = arguments[static_cast<size_t>(i->parameter_number())];
      made = TRY(b.Convert(argument, shape.dtype()));
    } else if (IsScalarIdentity(*i)) {
      made = map.Find(i->operand(0));
    } else if (i->IsConstant()) {
      Instruction* scalar = hlo::CloneInstruction(*i, into, map, before);
      made = dims.empty() ? scalar : TRY(b.Broadcast(scalar, shape, {}));
    } else {
      hlo::CloneChanges changes;
      changes.shape = std::move(shape);
      made = hlo::CloneInstruction(*i, into, map, before, changes);
    }
  }
  if (computation.root()->op() != Op::kTuple) {
    return std::vector<Instruction*>{map.Find(computation.root())};
  }
  std::vector<Instruction*> results;
  for (Instruction* element : computation.root()->operands()) results.push_back(map.Find(element));
  return results;
}

}  // namespace weft::compiler
