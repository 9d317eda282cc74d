// FMA contraction, and where it is not to be: fusion computes a product again for each of its
// users, once contracted with the addition that uses it and once rounded, as in x * 3 - max(x * 3).
// Where numbers are large these are far apart, and exp of the difference is infinite; the fraction
// x * 3 - floor(x * 3) would be negative. Differences of products of the same numbers, as in
// x y^T - y x^T, would not be 0 on the diagonal.
#include <cmath>
#include <unordered_set>
#include <vector>

#include "base/float_formats.h"
#include "compiler/analysis/origins.h"
#include "compiler/analysis/queries.h"
#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

// What a user does with a value: moves it, or chooses it, or an integer near it, by comparing.
enum class Passing : uint8_t { kNot, kMoves, kChooses };

Passing OfReducer(const hlo::Computation& reducer) {
  std::optional<Op> op = BinaryReducer(reducer);
  return op == Op::kAdd || op == Op::kMultiply ? Passing::kNot : Passing::kChooses;
}

Passing PassingOf(const Instruction& user) {
  switch (user.op()) {
    case Op::kAbs:
    case Op::kBitcast:
    case Op::kBroadcast:
    case Op::kConcatenate:
    case Op::kCopy:
    case Op::kDynamicSlice:
    case Op::kGather:
    case Op::kNegate:
    case Op::kPad:
    case Op::kReshape:
    case Op::kReverse:
    case Op::kSelect:
    case Op::kSlice:
    case Op::kTranspose: return Passing::kMoves;
    case Op::kCeil:
    case Op::kClamp:
    case Op::kCompare:
    case Op::kFloor:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kRoundNearestAfz:
    case Op::kRoundNearestEven:
    case Op::kSort:
    case Op::kTopK: return Passing::kChooses;
    case Op::kConvert: return IsInteger(user.shape().dtype()) ? Passing::kChooses : Passing::kMoves;
    case Op::kReduce: return OfReducer(*user.attrs<hlo::ReduceAttrs>().to_apply);
    case Op::kReduceWindow: return OfReducer(*user.attrs<hlo::ReduceWindowAttrs>().to_apply);
    case Op::kScatter: return OfReducer(*user.attrs<hlo::ScatterAttrs>().to_apply);
    default: return Passing::kNot;
  }
}

// What the user takes from the product, or the other way round, may be equal to it: a product of
// the same numbers, or the greatest of them.
bool IsLikeOther(const Instruction& user, const Instruction& value, const Extremes& extremes) {
  if (user.op() != Op::kAdd && user.op() != Op::kSubtract) return false;
  const Instruction& other = *user.operand(user.operand(0) == &value);
  bool subtracts = user.op() == Op::kSubtract;
  if (SignOfSameProducts(value, other) == (subtracts ? 1 : -1)) return true;
  return subtracts != OriginOf(other).is_negated && extremes.Has(other);
}

// Users that add the product, and such that compare it, both also behind what moves it.
bool IsAddedAndCompared(const Instruction& product, const Extremes& extremes) {
  bool added = false, compared = false;
  std::vector<const Instruction*> values = {&product};
  std::unordered_set<const Instruction*> seen = {&product};
  for (size_t at = 0; at < values.size() && at < program::WorkBounds::kPath; ++at) {
    for (const Instruction* user : values[at]->users()) {
      added |= user->op() == Op::kAdd || user->op() == Op::kSubtract;
      if (IsLikeOther(*user, *values[at], extremes)) return true;
      Passing passing = PassingOf(*user);
      compared |= passing == Passing::kChooses;
      if (passing == Passing::kMoves && seen.insert(user).second) values.push_back(user);
    }
    if (added && compared) return true;
  }
  return false;
}

// Multiplied by a power of two a number stays as it is.
bool IsExactFactor(const Instruction& factor) {
  const Literal* value = SplatValue(factor);
  int exponent;
  return value != nullptr && std::abs(std::frexp(value->GetDouble(0), &exponent)) == 0.5;
}

Result<bool> RoundProduct(Instruction* i, const Extremes& extremes) {
  DType type = i->shape().IsArray() ? i->shape().dtype() : DType::kInvalid;
  if (i->op() != Op::kMultiply || (type != DType::kF32 && type != DType::kF64)) return false;
  if (IsExactFactor(*i->operand(0)) || IsExactFactor(*i->operand(1))) return false;
  if (!IsAddedAndCompared(*i, extremes)) return false;
  hlo::Builder b(*i->parent(), i, i);
  Instruction* product = TRY(b.Add(Op::kMultiply, {i->operand(0), i->operand(1)}));
  FloatFormat own = FormatOf(type);
  hlo::Attrs bits(hlo::ReducePrecisionAttrs{own.exponent_bits, own.mantissa_bits});
  Instruction* rounded =
      TRY(b.Add(Op::kReducePrecision, std::span(&product, 1), bits, &product->shape()));
  hlo::ReplaceInstruction(i, rounded);
  return true;
}

}  // namespace

Result<bool> RoundComparedProducts(hlo::Module& module, const PassContext&) {
  Extremes extremes(module);
  return RewriteEach(module, [&](Instruction* i) { return RoundProduct(i, extremes); });
}

}  // namespace weft::compiler
