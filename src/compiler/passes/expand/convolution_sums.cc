// Convolutions in which every element of the result is made of few products, and nothing but the
// windows joins them: one channel or a few, or each channel by itself (depthwise). They become
// slices of the padded input by elements of the kernel, added up, which fuse like other ops.
#include <algorithm>

#include "compiler/analysis/element_cost.h"
#include "compiler/passes/expand/dots.h"
#include "hlo/clone.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::ConvDims;
using hlo::ConvolutionAttrs;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;
using hlo::WindowDim;

// Of the result, where all are made of the same input.
constexpr int64_t kFewFeatures = program::CodeBounds::kShortLoop;

bool HasSameOrder(const ConvDims& d) {
  return d.input_batch == d.output_batch && d.input_feature == d.output_feature &&
         d.input_spatial == d.output_spatial;
}

bool IsSmallConvolution(const Instruction& conv) {
  const ConvolutionAttrs& a = conv.attrs<ConvolutionAttrs>();
  const ConvDims& d = a.dim_labels;
  DType dtype = conv.shape().dtype();
  if (a.batch_group_count != 1 || !HasSameOrder(d)) return false;
  if (dtype != DType::kF32 && dtype != DType::kF64) return false;
  for (const Instruction* operand : conv.operands()) {
    if (operand->shape().dtype() != dtype || operand->shape().elements() == 0) return false;
  }
  const Shape& kernel = conv.operand(1)->shape();
  int64_t products = kernel.dim(d.kernel_input), features = kernel.dim(d.kernel_output);
  for (const WindowDim& w : a.window.dims) {
    if (w.base_dilation != 1) return false;
    products *= w.size;
  }
  bool each_channel = kernel.dim(d.kernel_input) == 1 && features == a.feature_group_count;
  return products <= kUnrolledTerms && conv.shape().elements() > 0 &&
         (each_channel || (a.feature_group_count == 1 && features <= kFewFeatures));
}

Result<Instruction*> PaddedInput(Builder& b, const Instruction& conv) {
  const ConvolutionAttrs& a = conv.attrs<ConvolutionAttrs>();
  Instruction* input = conv.operand(0);
  hlo::PadAttrs pad;
  pad.padding.resize(static_cast<size_t>(input->shape().rank()));
  bool any = false;
  for (size_t s = 0; s < a.window.dims.size(); ++s) {
    const WindowDim& w = a.window.dims[s];
    pad.padding[static_cast<size_t>(a.dim_labels.input_spatial[s])] = {w.pad_low, w.pad_high, 0};
    any |= w.pad_low != 0 || w.pad_high != 0;
  }
  if (!any) return input;
  Instruction* zero = b.ScalarConstant(input->shape().dtype(), 0);
  return b.Add(Op::kPad, {input, zero}, hlo::Attrs(std::move(pad)));
}

// What one element of the kernel, at `at` in the windows and of input feature `channel`, adds.
Result<Instruction*> Product(Builder& b, const Instruction& conv, Instruction* padded,
                             std::span<const int64_t> at, int64_t channel) {
  const ConvolutionAttrs& a = conv.attrs<ConvolutionAttrs>();
  const ConvDims& d = a.dim_labels;
  Instruction* kernel = conv.operand(1);
  const Shape& to = conv.shape();
  hlo::SliceAttrs part, weight;
  for (int64_t size : padded->shape().dims()) part.slice.push_back({0, size, 1});
  for (int64_t size : kernel->shape().dims()) weight.slice.push_back({0, size, 1});
  for (size_t s = 0; s < at.size(); ++s) {
    const WindowDim& w = a.window.dims[s];
    int64_t start = at[s] * w.window_dilation, count = to.dim(d.output_spatial[s]);
    part.slice[static_cast<size_t>(d.input_spatial[s])] = {
        start, start + (count - 1) * w.stride + 1, w.stride};
    int64_t k = w.reversal ? w.size - 1 - at[s] : at[s];
    weight.slice[static_cast<size_t>(d.kernel_spatial[s])] = {k, k + 1, 1};
  }
  if (a.feature_group_count == 1) {
    part.slice[static_cast<size_t>(d.input_feature)] = {channel, channel + 1, 1};
  }
  weight.slice[static_cast<size_t>(d.kernel_input)] = {channel, channel + 1, 1};
  Instruction* x = TRY(b.Add(Op::kSlice, {padded}, hlo::Attrs(std::move(part))));
  if (x->shape().dims() != to.dims()) {  // one channel for all features
    Ints sizes, places;
    for (int64_t k = 0; k < to.rank(); ++k) {
      if (k == d.output_feature) continue;
      sizes.push_back(to.dim(k));
      places.push_back(k);
    }
    x = TRY(b.Broadcast(TRY(ReshapeTo(b, x, sizes)), to, places));
  }
  Instruction* y = TRY(b.Add(Op::kSlice, {kernel}, hlo::Attrs(std::move(weight))));
  y = TRY(ReshapeTo(b, y, Ints{to.dim(d.output_feature)}));
  y = TRY(b.Broadcast(y, to, {d.output_feature}));
  return b.Add(Op::kMultiply, {x, y});
}

}  // namespace

Result<bool> ConvolutionToSums(Instruction* conv) {
  if (!IsSmallConvolution(*conv)) return false;
  const ConvolutionAttrs& a = conv->attrs<ConvolutionAttrs>();
  Builder b(*conv->parent(), conv, conv);
  Instruction* padded = TRY(PaddedInput(b, *conv));
  Instruction* sum = nullptr;
  Ints at(a.window.dims.size(), 0);
  for (bool more = true; more;) {
    for (int64_t c = 0; c < conv->operand(1)->shape().dim(a.dim_labels.kernel_input); ++c) {
      Instruction* product = TRY(Product(b, *conv, padded, at, c));
      sum = sum == nullptr ? product : TRY(b.Add(Op::kAdd, {sum, product}));
    }
    more = false;
    for (size_t s = at.size(); s-- > 0 && !more;) {
      more = ++at[s] < a.window.dims[s].size;
      if (!more) at[s] = 0;
    }
  }
  hlo::ReplaceInstruction(conv, sum);
  return true;
}

}  // namespace weft::compiler
