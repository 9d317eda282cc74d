#include <algorithm>
#include <cmath>

#include "compiler/passes/expand/apply_to_arrays.h"
#include "compiler/passes/expand/expand_ops.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// map(f): f's ops on arrays.
Result<bool> ExpandMap(Instruction* map) {
  const hlo::Computation& f = *map->attrs<hlo::MapAttrs>().to_apply;
  if (map->operand_count() == 0 || !map->shape().IsArray() || !IsStaticallyShaped(*map) ||
      f.root()->shape().IsTuple() || !IsElementwiseComputation(f)) {
    return false;
  }
  std::vector<Instruction*> results = TRY(ApplyToArrays(f, map->operands(), *map->parent(), map));
  Builder b(*map->parent(), map, map);
  Instruction* value = TRY(b.Convert(results[0], map->shape().dtype()));
  if (std::ranges::find(map->operands(), value) != map->operands().end()) {
    ReplaceWithValue(map, value);
  } else {
    hlo::ReplaceInstruction(map, value);
  }
  return true;
}

// Rounded away from zero when the random bits are less than the fraction of |x|, written with as
// many bits; what does not fit saturates and NaN is 0, as in convert.
Result<bool> ExpandStochasticConvert(Instruction* i) {
  DType to = i->shape().dtype();
  if (!IsSigned(to) || !IsStaticallyShaped(*i)) return false;
  Builder b(*i->parent(), i, i);
  Instruction* random = i->operand(1);
  int random_bits = BitWidth(random->shape().dtype());
  bool wide = i->operand(0)->shape().dtype() == DType::kF64;
  Instruction* x = TRY(b.Convert(i->operand(0), wide ? DType::kF64 : DType::kF32));
  Shape floats(x->shape().dtype(), x->shape().dims());
  Shape integers(DType::kS64, x->shape().dims());
  double top = std::ldexp(1.0, BitWidth(to) - 1);
  Instruction* magnitude = TRY(b.Add(Op::kAbs, {x}));
  Instruction* whole = TRY(b.Add(Op::kFloor, {magnitude}));
  Instruction* fraction = TRY(b.Add(Op::kSubtract, {magnitude, whole}));
  fraction =
      TRY(b.Add(Op::kMultiply, {fraction, TRY(b.Fill(floats, std::ldexp(1.0, random_bits)))}));
  Instruction* limit = TRY(b.Convert(fraction, random->shape().dtype()));
  Instruction* up = TRY(b.Compare(random, limit, hlo::Direction::kLt));
  Instruction* sum =
      TRY(b.Add(Op::kAdd, {TRY(b.Convert(whole, DType::kS64)), TRY(b.Convert(up, DType::kS64))}));
  Instruction* negative = TRY(b.Compare(x, TRY(b.Fill(floats, 0)), hlo::Direction::kLt));
  Instruction* value = TRY(b.Add(Op::kSelect, {negative, TRY(b.Add(Op::kNegate, {sum})), sum}));
  // Bounds are made from integers: the largest s64 is no double.
  int64_t largest = static_cast<int64_t>((uint64_t{1} << (BitWidth(to) - 1)) - 1);
  Instruction* high = TRY(FillWith(b, b.Constant(Literal::Scalar(DType::kS64, largest)), integers));
  Instruction* low =
      TRY(FillWith(b, b.Constant(Literal::Scalar(DType::kS64, -largest - 1)), integers));
  value = TRY(b.Add(Op::kClamp, {low, value, high}));
  Instruction* below = TRY(b.Compare(x, TRY(b.Fill(floats, -top)), hlo::Direction::kLe));
  value = TRY(b.Add(Op::kSelect, {below, low, value}));
  Instruction* above = TRY(b.Compare(x, TRY(b.Fill(floats, top)), hlo::Direction::kGe));
  value = TRY(b.Add(Op::kSelect, {above, high, value}));
  hlo::ReplaceInstruction(i, TRY(b.Convert(value, to)));
  return true;
}

// Ops that give what they are given, moved or summed over devices.
bool KeepsType(const Instruction& i) {
  switch (i.op()) {
    case Op::kBroadcast:
    case Op::kCopy:
    case Op::kDynamicSlice:
    case Op::kReshape:
    case Op::kReverse:
    case Op::kSlice:
    case Op::kTranspose: return true;
    default:
      return hlo::IsCollective(i.op()) && !HasTrait(i.op(), hlo::kAsyncStart) &&
             !HasTrait(i.op(), hlo::kAsyncDone);
  }
}

// Elements that become another kind of float on the way: converted first.
Result<bool> ExpandMixedMove(Instruction* i) {
  if (!KeepsType(*i)) return false;
  const bool tuple = i->shape().IsTuple();
  const int64_t count = tuple ? i->shape().tuple_size() : 1;
  if (count > i->operand_count()) return false;
  bool changed = false;
  for (int64_t k = 0; k < count; ++k) {
    const Shape& from = i->operand(k)->shape();
    const Shape& to = tuple ? i->shape().tuple_element(k) : i->shape();
    if (!from.IsArray() || !to.IsArray() || from.dtype() == to.dtype()) continue;
    if (!IsFloat(from.dtype()) || !IsFloat(to.dtype())) continue;
    Builder b(*i->parent(), i, i);
    i->ReplaceOperand(k, TRY(b.Convert(i->operand(k), to.dtype())));
    changed = true;
  }
  return changed;
}

}  // namespace

Result<bool> ExpandElementwise(Instruction* i) {
  if (TRY(ExpandMixedMove(i))) return true;
  if (i->op() == Op::kMap) return ExpandMap(i);
  if (i->op() == Op::kStochasticConvert) return ExpandStochasticConvert(i);
  return false;
}

}  // namespace weft::compiler
