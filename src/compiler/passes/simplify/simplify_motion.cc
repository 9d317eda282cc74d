// Rules of simplify that move elementwise ops past broadcasts, reshapes and transposes, where that
// leaves fewer elements to compute or fewer ops.
#include <algorithm>

#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// What the operands of an elementwise op are moved from; fills of one value in those dimensions.
Result<std::vector<Instruction*>> OperandsBelow(const Instruction& i, Builder& b,
                                                const Shape& below) {
  std::vector<Instruction*> operands;
  for (Instruction* operand : i.operands()) {
    Instruction* scalar = FillScalar(*operand);
    if (operand->shape().IsScalar()) {
      operands.push_back(operand);
    } else if (scalar == nullptr) {
      operands.push_back(operand->operand(0));
    } else {
      operands.push_back(TRY(FillWith(b, scalar, Shape(scalar->shape().dtype(), below.dims()))));
    }
  }
  return operands;
}

// The op of `i` on other operands, of dimensions `dims`.
Instruction* CloneOn(Instruction& i, std::span<Instruction* const> operands, const Shape& dims) {
  Shape shape = Shape(i.shape().dtype(), dims.dims());
  hlo::CloneMap map;
  Instruction* clone =
      hlo::CloneInstruction(i, *i.parent(), map, &i,
                            {.name = i.parent()->module()->UniqueName(Mnemonic(i.op())),
                             .shape = shape,
                             .operands = operands});
  if (clone->extras() != nullptr) clone->mutable_extras().sharding = {};
  return clone;
}

bool AreOperandsStatic(const Instruction& i) {
  return std::all_of(i.operands().begin(), i.operands().end(),
                     [](const Instruction* o) { return IsStaticArray(*o); });
}

// f(broadcast(x), broadcast(y), fill(s)) = broadcast(f(x, y, fill(s))), the broadcasts being of the
// same dimensions to the same ones.
Result<Instruction*> ElementwiseOfBroadcasts(Instruction& i, Builder& b) {
  Instruction* like = nullptr;  // the broadcast that the others are to resemble
  for (Instruction* operand : i.operands()) {
    if (operand->shape().IsScalar()) continue;  // a scalar beside arrays: select, clamp
    if (!IsOrderedBroadcast(*operand)) return nullptr;
    if (FillScalar(*operand) != nullptr) {
      if (like == nullptr) like = operand;
      continue;
    }
    if (like == nullptr || FillScalar(*like) != nullptr) like = operand;
    if (!Shape::SameDims(operand->operand(0)->shape(), like->operand(0)->shape()) ||
        operand->attrs<hlo::BroadcastAttrs>().dimensions !=
            like->attrs<hlo::BroadcastAttrs>().dimensions) {
      return nullptr;
    }
  }
  if (like == nullptr || i.shape().IsScalar()) return nullptr;
  const Shape& narrow = like->operand(0)->shape();
  if (narrow.elements() >= i.shape().elements()) return nullptr;
  std::vector<Instruction*> operands = TRY(OperandsBelow(i, b, narrow));
  return b.Broadcast(CloneOn(i, operands, narrow), WithoutLayoutOf(i.shape()),
                     like->attrs<hlo::BroadcastAttrs>().dimensions);
}

bool IsRearrangement(const Instruction& i) {
  return (i.op() == Op::kReshape || i.op() == Op::kTranspose) && IsStaticArray(i) &&
         IsStaticArray(*i.operand(0)) && i.shape().dtype() == i.operand(0)->shape().dtype();
}

// f(move(x), move(y), fill(s)) = move(f(x, y, fill(s))), the moves being the same reshape or
// transpose, read here alone
Result<Instruction*> ElementwiseOfRearranged(Instruction& i, Builder& b) {
  Instruction* like = nullptr;
  int64_t moved = 0;
  for (size_t k = 0; k < i.operands().size(); ++k) {
    Instruction* operand = i.operands()[k];
    if (FillScalar(*operand) != nullptr) continue;
    auto before = i.operands().first(k);
    if (std::find(before.begin(), before.end(), operand) != before.end()) continue;
    if (!IsRearrangement(*operand) || !IsReadOnce(*operand)) return nullptr;
    if (like == nullptr) like = operand;
    if (operand->op() != like->op() || !(operand->attrs() == like->attrs()) ||
        !Shape::SameDims(operand->operand(0)->shape(), like->operand(0)->shape())) {
      return nullptr;
    }
    ++moved;
  }
  if (moved < 2) return nullptr;
  const Shape& inside = like->operand(0)->shape();
  std::vector<Instruction*> operands = TRY(OperandsBelow(i, b, inside));
  Instruction* computed = CloneOn(i, operands, inside);
  Shape shape = WithoutLayoutOf(i.shape());
  return b.Add(like->op(), std::span(&computed, 1), like->attrs(), &shape);
}

// move(f(move(x))) = f(move(move(x))): two reshapes or transposes become one
Result<Instruction*> RearrangementOfUnary(Instruction& i, Builder& b) {
  Instruction& f = *i.operand(0);
  if (!IsElementwise(f.op()) || f.operand_count() != 1 || !IsReadOnce(f)) return nullptr;
  Instruction* inner = f.operand(0);
  if (inner->op() != i.op() || !IsRearrangement(*inner) || !IsReadOnce(*inner)) return nullptr;
  Shape shape(inner->shape().dtype(), i.shape().dims());
  Instruction* moved = TRY(b.Add(i.op(), std::span(&inner, 1), i.attrs(), &shape));
  Shape result = WithoutLayoutOf(i.shape());
  return b.Add(f.op(), std::span(&moved, 1), f.attrs(), &result);
}

}  // namespace

Result<Instruction*> SimplifyMotion(Instruction& i, Builder& b) {
  if (!IsStaticArray(i) || i.operand_count() == 0 || !AreOperandsStatic(i)) return nullptr;
  if (IsRearrangement(i)) return RearrangementOfUnary(i, b);
  if (!IsElementwise(i.op())) return nullptr;
  if (Instruction* narrower = TRY(ElementwiseOfBroadcasts(i, b))) return narrower;
  return ElementwiseOfRearranged(i, b);
}

}  // namespace weft::compiler
