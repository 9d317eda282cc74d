// Block-scaled dots (MXFP8, MXFP4, NVFP4) and dequantized weights: numbers of few bits that are
// converted, and scaled block by block, where they are used.
#include <algorithm>

#include "base/float_formats.h"
#include "base/log.h"
#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::DotAttrs;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// Every value of the one type is one of the other.
bool IsExactConversion(DType from, DType to) {
  FloatFormat x = FormatOf(from), y = FormatOf(to);
  if (x.bits > 0 && y.bits > 0) {
    return x.exponent_bits <= y.exponent_bits && x.mantissa_bits <= y.mantissa_bits &&
           (x.exponent_bits < y.exponent_bits || x.bias <= y.bias);
  }
  if (!IsInteger(from)) return false;
  if (y.bits > 0) return BitWidth(from) <= y.mantissa_bits + 1 && y.exponent_bits >= 8;
  return IsInteger(to) && BitWidth(from) < BitWidth(to) && (IsSigned(to) || !IsSigned(from));
}

// What it was before conversions that change no value, and reshapes.
Instruction* Unconverted(Instruction* i) {
  while (true) {
    bool exact = i->op() == Op::kConvert &&
                 IsExactConversion(i->operand(0)->shape().dtype(), i->shape().dtype());
    if (i->op() != Op::kReshape && !exact) return i;
    i = i->operand(0);
  }
}

bool IsOfFewBits(const Instruction& i) {
  DType dtype = i.shape().dtype();
  return (IsFloat(dtype) || IsInteger(dtype)) && BitWidth(dtype) <= 8;
}

// A scale for each block of an array: of the value's dimensions, so many scales.
struct BlockScale {
  Instruction* value = nullptr;
  Ints counts;
};

// Cuts the dimensions of a broadcast as those of `dims`, which have as many elements. In each the
// broadcast's operand has the outer part; nothing where it is another one.
std::optional<Ints> BlocksOf(const Instruction& broadcast, const Dims& dims) {
  const Ints& kept = broadcast.attrs<hlo::BroadcastAttrs>().dimensions;
  if (!std::ranges::is_sorted(kept)) return std::nullopt;
  const Shape& shape = broadcast.shape();
  Ints counts;
  int64_t d = 0, left = 1;  // what is left of dimension d - 1 of the broadcast
  bool is_kept = false;
  for (int64_t size : dims) {
    int64_t count = 1, rest = size;
    bool repeats = false;
    while (rest > 1) {
      if (left == 1) {
        if (d == shape.rank()) return std::nullopt;
        is_kept = std::ranges::count(kept, d) > 0;
        left = shape.dim(d++);
        continue;
      }
      int64_t part = std::min(left, rest);
      if (left % part != 0 || rest % part != 0 || (is_kept && repeats)) return std::nullopt;
      if (is_kept) count *= part;
      repeats = repeats || !is_kept;
      left /= part;
      rest /= part;
    }
    counts.push_back(count);
  }
  return counts;
}

// The factor of an array of `dims`, if it is the same for all elements of a block.
std::optional<BlockScale> MatchScale(Instruction* factor, const Dims& dims) {
  Instruction* broadcast = Unconverted(factor);
  if (broadcast->op() != Op::kBroadcast) return std::nullopt;
  std::optional<Ints> counts = BlocksOf(*broadcast, dims);
  if (!counts) return std::nullopt;
  Instruction* value = Unconverted(broadcast->operand(0));
  DType dtype = value->shape().dtype();
  if (!IsFloat(dtype) || BitWidth(dtype) < 8 || BitWidth(dtype) > 32) {
    value = broadcast->operand(0);
    dtype = value->shape().dtype();
  }
  if (!IsFloat(dtype) || BitWidth(dtype) < 8 || BitWidth(dtype) > 32) return std::nullopt;
  return BlockScale{value, std::move(*counts)};
}

// An operand of a dot: numbers of few bits, and what they are multiplied by.
struct ScaledOperandMatch {
  Instruction* data = nullptr;  // null: the operand is none
  std::optional<BlockScale> scale;
};

// The product of numbers and scales, before it is rounded to the type of the operand: products of
// f32 may be rounded once more.
ScaledOperandMatch MatchOperand(Instruction* operand) {
  DType dtype = operand->shape().dtype();
  Instruction* i = Unconverted(operand);
  if (IsOfFewBits(*i)) return {i, std::nullopt};
  while (i->op() == Op::kReshape) i = i->operand(0);
  bool rounds = i->op() == Op::kConvert && dtype == DType::kBF16 &&
                i->operand(0)->shape().dtype() == DType::kF32;
  if (rounds) i = i->operand(0);
  while (i->op() == Op::kReshape) i = i->operand(0);
  if (i->op() != Op::kMultiply || (!rounds && i->shape().dtype() != dtype)) return {};
  for (int64_t side : {0, 1}) {
    Instruction* data = Unconverted(i->operand(side));
    if (!IsOfFewBits(*data)) continue;
    std::optional<BlockScale> scale = MatchScale(i->operand(1 - side), operand->shape().dims());
    if (scale) return {data, std::move(scale)};
  }
  return {};
}

// Numbers of a transposed matrix are read from where they lie: the side's operand, with the dot's
// dimensions in its order. Scales of both dimensions would have to be transposed themselves.
void LookThroughTranspose(ScaledOperandMatch& match, DotAttrs& attrs, int64_t side) {
  const Instruction& data = *match.data;
  if (data.op() != Op::kTranspose) return;
  const Ints order = data.attrs<hlo::DimensionsAttrs>().dimensions;
  Ints& contracting = side == 0 ? attrs.lhs_contracting_dims : attrs.rhs_contracting_dims;
  const Ints& batch = side == 0 ? attrs.lhs_batch_dims : attrs.rhs_batch_dims;
  for (size_t d = 0; d < batch.size(); ++d) {
    if (batch[d] != static_cast<int64_t>(d) || order[d] != batch[d]) return;
  }
  if (match.scale) {
    const Ints counts = match.scale->counts;
    if (std::ranges::count_if(counts, [](int64_t count) { return count > 1; }) > 1) return;
    for (size_t d = 0; d < counts.size(); ++d) {
      match.scale->counts[static_cast<size_t>(order[d])] = counts[d];
    }
  }
  for (int64_t& d : contracting) d = order[static_cast<size_t>(d)];
  match.data = match.data->operand(0);
}

// Batches have a scale each, or one for all.
bool HasWholeBatches(const Instruction& dot, const ScaledOperandMatch& match, int64_t side) {
  if (!match.scale) return true;
  auto batch = dot.attrs<DotAttrs>().lhs_batch_dims.size();
  const Dims& dims = dot.operand(side)->shape().dims();
  bool all = true, one = true;
  for (size_t d = 0; d < batch; ++d) {
    all &= match.scale->counts[d] == dims[d];
    one &= match.scale->counts[d] == 1;
  }
  return all || one;
}

// Smaller operands are in cache when they are read again, as what they are converted to.
bool IsWorthIt(const Instruction& operand) {
  return operand.users().size() == 1 &&
         operand.shape().elements() * ByteWidth(operand.shape().dtype()) >=
             program::TargetFacts::kSecondLevelBytes;
}

Result<Instruction*> ScaleOf(Builder& b, const ScaledOperandMatch& match, int64_t rank,
                             bool needs_one) {
  if (match.scale) return ReshapeTo(b, match.scale->value, match.scale->counts);
  if (!needs_one) return b.ScalarConstant(DType::kBF16, 1);
  return b.Fill(Shape(DType::kBF16, Ints(static_cast<size_t>(rank), 1)), 1);
}

Result<bool> RecognizeScaledDot(Instruction* dot) {
  if (dot->op() != Op::kDot || !IsStaticallyShaped(*dot)) return false;
  DType dtype = dot->operand(0)->shape().dtype();
  bool plain = (dtype == DType::kBF16 || dtype == DType::kF32) &&
               dot->operand(1)->shape().dtype() == dtype && IsFloat(dot->shape().dtype()) &&
               BitWidth(dot->shape().dtype()) <= 32;
  const DotAttrs& old = dot->attrs<DotAttrs>();
  int64_t rank = std::ssize(old.lhs_batch_dims) + 2;
  if (!plain || dot->operand(0)->shape().rank() != rank ||
      dot->operand(1)->shape().rank() != rank) {
    return false;
  }
  ScaledOperandMatch sides[2];
  bool any = false;
  for (int64_t side : {0, 1}) {
    Instruction* operand = dot->operand(side);
    ScaledOperandMatch match = MatchOperand(operand);
    if (match.data == nullptr || !HasWholeBatches(*dot, match, side)) continue;
    sides[side] = std::move(match);
    any |= IsWorthIt(*operand);
  }
  if (!any) return false;
  Builder b(*dot->parent(), dot, dot);
  Instruction* operands[4];
  bool scales = sides[0].scale || sides[1].scale;
  DotAttrs attrs = old;
  for (int64_t side : {0, 1}) {
    Instruction* operand = dot->operand(side);
    bool narrow = sides[side].data != nullptr && operand->users().size() == 1;
    if (!narrow) sides[side] = {};
    bool as_is = narrow && sides[side].data->shape().dims() == operand->shape().dims();
    if (as_is) LookThroughTranspose(sides[side], attrs, side);
    operands[side] = narrow && !as_is ? TRY(ReshapeTo(b, sides[side].data, operand->shape().dims()))
                     : narrow         ? sides[side].data
                                      : operand;
    operands[side + 2] = TRY(ScaleOf(b, sides[side], rank, !scales && side == 1));
  }
  attrs.algorithm =
      dtype == DType::kBF16 ? hlo::DotAlgorithm::kBF16BF16F32 : hlo::DotAlgorithm::kF32F32F32;
  Shape shape(dot->shape().dtype(), dot->shape().dims());
  VLOG("compiler", 3) << dot->name() << " is a product of scaled numbers";
  hlo::ReplaceInstruction(dot, TRY(b.Add(Op::kScaledDot, operands, std::move(attrs), &shape)));
  return true;
}

}  // namespace

Result<bool> RecognizeScaledDots(hlo::Module& module, const PassContext& context) {
  // GPUs have no such routine yet.
  if (context.target.HasThreadGrid() || module.config().is_scheduled) return false;
  return RewriteEach(module, RecognizeScaledDot);
}

}  // namespace weft::compiler
