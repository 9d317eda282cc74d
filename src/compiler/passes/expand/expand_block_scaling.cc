// Custom calls of block-scaled numbers as HLO: scaled-dot, and elementwise formulas.
#include <algorithm>
#include <numeric>

#include "compiler/passes/expand/expand_ops.h"
#include "hlo/clone.h"
#include "hlo/evaluate/block_scaling.h"
#include "hlo/ops/called.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

int64_t MinorDim(const Instruction* i) {
  return i->shape().dim(i->shape().rank() - 1);
}

// The value with so many rows and columns: what is beyond is cut off, what is missing is `fill`.
Result<Instruction*> Resized(Builder& b, Instruction* value, int64_t rows, int64_t cols,
                             double fill) {
  const Shape shape = value->shape();
  int64_t rank = shape.rank();
  hlo::SliceAttrs cut;
  hlo::PadAttrs pad;
  bool cuts = false, pads = false;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t want = d == rank - 1 ? cols : d == rank - 2 ? rows : shape.dim(d);
    int64_t kept = std::min(want, shape.dim(d));
    cut.slice.push_back({0, kept, 1});
    pad.padding.push_back({0, want - kept, 0});
    cuts = cuts || kept < shape.dim(d);
    pads = pads || want > kept;
  }
  if (cuts) value = TRY(b.Add(Op::kSlice, {value}, std::move(cut)));
  if (!pads) return value;
  return b.Add(Op::kPad, {value, b.ScalarConstant(shape.dtype(), fill)}, std::move(pad));
}

// A scale for each block of an operand of k elements that is `padded` to whole blocks.
Result<Instruction*> ScaleFor(Builder& b, Instruction* scale, int64_t rows, int64_t k,
                              int64_t padded, int64_t block) {
  int64_t blocks = (k + block - 1) / block;
  scale = TRY(Resized(b, scale, rows, blocks, 1));
  return Resized(b, scale, rows, padded / block, 1);
}

Result<bool> ExpandBlockScaledDot(Instruction* call) {
  hlo::BlockScaledForm form = TRY(hlo::BlockScaledFormOf(*call));
  Builder b(*call->parent(), call, call);
  bool both = call->operand_count() > 3;
  int64_t unit = both ? std::lcm(form.lhs_block, form.rhs_block) : form.lhs_block;
  int64_t padded = (form.k + unit - 1) / unit * unit;
  Instruction* lhs = TRY(Resized(b, call->operand(0), form.m, padded, 0));
  Instruction* rhs = TRY(Resized(b, call->operand(1), form.n, padded, 0));
  Instruction* lhs_scale =
      TRY(ScaleFor(b, call->operand(2), form.m, form.k, padded, form.lhs_block));
  Instruction* rhs_scale =
      both ? TRY(ScaleFor(b, call->operand(3), form.n, form.k, padded, form.rhs_block))
           : b.ScalarConstant(DType::kBF16, 1);
  int64_t rank = call->shape().rank();
  hlo::DotAttrs attrs;
  if (rank == 3) attrs.lhs_batch_dims = attrs.rhs_batch_dims = {0};
  attrs.lhs_contracting_dims = attrs.rhs_contracting_dims = {rank - 1};
  Shape shape = hlo::StripLayout(call->shape());
  Instruction* operands[] = {lhs, rhs, lhs_scale, rhs_scale};
  Instruction* result = TRY(b.Add(Op::kScaledDot, operands, std::move(attrs), &shape));
  if (call->operand_count() > 4) {
    Instruction* global = TRY(FillWith(b, call->operand(4), shape));
    result = TRY(b.Add(Op::kMultiply, {result, global}));
  }
  hlo::ReplaceInstruction(call, result);
  return true;
}

// Scales as numbers of f32, one for each element of `dims`.
Result<Instruction*> OverBlocks(Builder& b, Instruction* scale, std::span<const int64_t> dims) {
  Shape blocks(DType::kF32, scale->shape().dims());
  Ints kept(static_cast<size_t>(blocks.rank()));
  std::iota(kept.begin(), kept.end(), 0);
  blocks.AppendDim(dims.back() / MinorDim(scale));
  Instruction* wide = TRY(b.Broadcast(TRY(b.Convert(scale, DType::kF32)), blocks, kept));
  return ReshapeTo(b, wide, dims);
}

Result<bool> ExpandDequantize(Instruction* call) {
  TRY(hlo::CheckDequantize(*call));
  Builder b(*call->parent(), call, call);
  Instruction* factors = TRY(OverBlocks(b, call->operand(1), call->shape().dims()));
  Instruction* data = TRY(b.Convert(call->operand(0), DType::kF32));
  Instruction* value = TRY(b.Add(Op::kMultiply, {data, factors}));
  hlo::ReplaceInstruction(call, TRY(b.Convert(value, call->shape().dtype())));
  return true;
}

// The largest element of a block becomes the largest power of two of the format, or somewhat more.
Result<bool> ExpandQuantize(Instruction* call) {
  TRY(hlo::CheckQuantize(*call));
  const Shape &data = call->shape().tuple_element(0), &scale = call->shape().tuple_element(1);
  Builder b(*call->parent(), call, call);
  Instruction* value = TRY(b.Convert(call->operand(0), DType::kF32));
  Ints dims(scale.dims().begin(), scale.dims().end());
  dims.push_back(data.dims().back() / dims.back());
  Instruction* blocks = TRY(ReshapeTo(b, TRY(b.Add(Op::kAbs, {value})), dims));
  ScalarFunctions functions(*call->parent()->module());
  hlo::Computation* maximum = TRY(functions.Get(Op::kMaximum, DType::kF32));
  Instruction* most =
      TRY(b.Reduce(blocks, b.ScalarConstant(DType::kF32, 0), {scale.rank()}, maximum));
  Instruction* unit = TRY(b.Fill(most->shape(), 1 / hlo::LargestPowerOf(data.dtype())));
  Instruction* scales = TRY(b.Convert(TRY(b.Add(Op::kMultiply, {most, unit})), scale.dtype()));
  Instruction* factors = TRY(OverBlocks(b, scales, data.dims()));
  Instruction* parts[] = {TRY(b.Convert(TRY(b.Add(Op::kDivide, {value, factors})), data.dtype())),
                          scales};
  hlo::ReplaceInstruction(call, TRY(b.Tuple(parts)));
  return true;
}

}  // namespace

Result<bool> ExpandBlockScaling(Instruction* call, std::string_view target) {
  if (!IsStaticallyShaped(*call)) return false;
  if (target == "__op$quantize") return ExpandQuantize(call);
  if (target == "__op$dequantize") return ExpandDequantize(call);
  return ExpandBlockScaledDot(call);
}

}  // namespace weft::compiler
