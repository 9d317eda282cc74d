#include <algorithm>

#include "compiler/passes.h"
#include "compiler/passes/expand/dots.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::ConvDims;
using hlo::ConvolutionAttrs;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;
using hlo::WindowDim;

bool IsForward(const Instruction& conv) {
  const ConvolutionAttrs& a = conv.attrs<ConvolutionAttrs>();
  return conv.operand_count() == 2 && a.sparsity_config == hlo::SparsityConfig() &&
         a.convolution_kind != hlo::ConvKind::kDgrad && a.convolution_kind != hlo::ConvKind::kWgrad;
}

// The operands' types become those of a canonical dot.
Result<bool> UnifyTypes(Instruction* conv) {
  Instruction *input = conv->operand(0), *kernel = conv->operand(1);
  DotTypes types =
      DotTypesFor(input->shape().dtype(), kernel->shape().dtype(), conv->shape().dtype());
  bool typed = input->shape().dtype() == types.operands &&
               kernel->shape().dtype() == types.operands && conv->shape().dtype() == types.result;
  if (typed) return false;
  Builder b(*conv->parent(), conv, conv);
  Instruction* operands[] = {TRY(b.Convert(input, types.operands)),
                             TRY(b.Convert(kernel, types.operands))};
  Shape shape(types.result, conv->shape().dims());
  Instruction* wide =
      TRY(b.Add(Op::kConvolution, operands, conv->attrs<ConvolutionAttrs>(), &shape));
  hlo::ReplaceInstruction(conv, TRY(b.Convert(wide, conv->shape().dtype())));
  return true;
}

// Groups of the batch become groups of features: [g * n, ..., f] is [n, ..., g * f].
Result<bool> MoveBatchGroups(Instruction* conv) {
  ConvolutionAttrs attrs = conv->attrs<ConvolutionAttrs>();
  int64_t groups = attrs.batch_group_count;
  if (groups == 1) return false;
  Instruction* input = conv->operand(0);
  const Shape from = input->shape();
  int64_t batch = attrs.dim_labels.input_batch, feature = attrs.dim_labels.input_feature;
  Builder b(*conv->parent(), conv, conv);
  Ints split, order, merged;
  for (int64_t d = 0; d < from.rank(); ++d) {
    if (d == batch) split.push_back(groups);
    split.push_back(d == batch ? from.dim(d) / groups : from.dim(d));
  }
  for (int64_t d = 0; d < from.rank(); ++d) {
    if (d == feature) order.push_back(batch);  // the groups
    order.push_back(d < batch ? d : d + 1);
    merged.push_back(d == batch     ? from.dim(d) / groups
                     : d == feature ? from.dim(d) * groups
                                    : from.dim(d));
  }
  input = TRY(ReshapeTo(b, input, split));
  input = TRY(TransposeTo(b, input, order));
  input = TRY(ReshapeTo(b, input, merged));
  attrs.batch_group_count = 1;
  attrs.feature_group_count = groups;
  Instruction* operands[] = {input, conv->operand(1)};
  Shape shape(conv->shape().dtype(), conv->shape().dims());
  hlo::ReplaceInstruction(conv, TRY(b.Add(Op::kConvolution, operands, attrs, &shape)));
  return true;
}

// How a window runs along a dimension, when that is as in a dot.
enum class DotWindow : uint8_t { kPoint, kWhole, kOther };

DotWindow DotWindowOf(const WindowDim& w, int64_t in, int64_t out) {
  if (w.pad_low != 0 || w.pad_high != 0 || w.base_dilation != 1) return DotWindow::kOther;
  if (w.size == 1 && w.stride == 1) return DotWindow::kPoint;
  bool whole = w.size == in && out == 1 && w.window_dilation == 1;
  return whole ? DotWindow::kWhole : DotWindow::kOther;
}

// The result dimensions of the dot, [input's free ones..., out], in the order of the convolution's
// result; dimensions that windows cover whole have size 1 there.
Result<Instruction*> AsConvolved(Builder& b, Instruction* product, const Shape& to,
                                 const Ints& out_dims) {
  Ints order(out_dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return out_dims[static_cast<size_t>(x)] < out_dims[static_cast<size_t>(y)];
  });
  product = TRY(TransposeTo(b, product, order));
  return ReshapeTo(b, product, to.dims());
}

// Whether features come before the positions, in the input and in the result, as in
// dim_labels=bf01_oi01->bf01: then a matrix by the features of each image moves nothing.
bool IsFeatureMajor(const ConvDims& d) {
  auto before = [](int64_t feature, const Ints& spatial) {
    return std::ranges::all_of(spatial, [=](int64_t s) { return feature < s; });
  };
  return d.input_batch == 0 && d.output_batch == 0 && before(d.input_feature, d.input_spatial) &&
         before(d.output_feature, d.output_spatial) && std::ranges::is_sorted(d.input_spatial) &&
         std::ranges::is_sorted(d.output_spatial);
}

// The kernel, once per image, by the images.
Result<Instruction*> FeatureMajorDot(Builder& b, const Instruction& conv, Instruction* kernel,
                                     const hlo::DotAttrs& plain) {
  const Shape& images = conv.operand(0)->shape();
  Shape copies(kernel->shape().dtype(), {images.dim(0)});
  Ints dims;
  for (int64_t k = 0; k < kernel->shape().rank(); ++k) {
    dims.push_back(k + 1);
    copies.AppendDim(kernel->shape().dim(k));
  }
  Instruction* operands[] = {TRY(b.Broadcast(kernel, copies, dims)), conv.operand(0)};
  hlo::DotAttrs dot = plain;
  if (dot.operand_precision.size() == 2) {
    std::swap(dot.operand_precision[0], dot.operand_precision[1]);
  }
  dot.lhs_contracting_dims = plain.rhs_contracting_dims;
  for (int64_t& k : dot.lhs_contracting_dims) ++k;
  dot.rhs_contracting_dims = plain.lhs_contracting_dims;
  dot.lhs_batch_dims = dot.rhs_batch_dims = {0};
  Shape shape(conv.shape().dtype(), {images.dim(0)});
  shape.AppendDim(conv.shape().dim(conv.attrs<ConvolutionAttrs>().dim_labels.output_feature));
  for (int64_t k = 1; k < images.rank(); ++k) {
    if (std::ranges::count(dot.rhs_contracting_dims, k) == 0) shape.AppendDim(images.dim(k));
  }
  Instruction* product = TRY(b.Add(Op::kDot, operands, std::move(dot), &shape));
  return ReshapeTo(b, product, conv.shape().dims());
}

// A convolution whose windows are points, or cover all of the input, is a dot.
Result<bool> ConvolutionToDot(Instruction* conv) {
  const ConvolutionAttrs& a = conv->attrs<ConvolutionAttrs>();
  const ConvDims& d = a.dim_labels;
  if (a.feature_group_count != 1 || a.batch_group_count != 1) return false;
  Instruction *input = conv->operand(0), *kernel = conv->operand(1);
  hlo::DotAttrs dot;
  dot.operand_precision = a.operand_precision;
  dot.algorithm = a.algorithm;
  dot.lhs_contracting_dims = {d.input_feature};
  Ints kernel_contracting = {d.kernel_input}, points, reversed;
  for (size_t s = 0; s < a.window.dims.size(); ++s) {
    switch (DotWindowOf(a.window.dims[s], input->shape().dim(d.input_spatial[s]),
                        conv->shape().dim(d.output_spatial[s]))) {
      case DotWindow::kOther: return false;
      case DotWindow::kPoint: points.push_back(d.kernel_spatial[s]); continue;
      case DotWindow::kWhole: break;
    }
    dot.lhs_contracting_dims.push_back(d.input_spatial[s]);
    kernel_contracting.push_back(d.kernel_spatial[s]);
    if (a.window.dims[s].reversal) reversed.push_back(d.kernel_spatial[s]);
  }
  Builder b(*conv->parent(), conv, conv);
  if (!reversed.empty()) {
    kernel = TRY(b.Add(Op::kReverse, {kernel}, hlo::DimensionsAttrs{.dimensions = reversed}));
  }
  // The kernel without its dimensions of size 1 for points.
  Ints sizes, place(static_cast<size_t>(kernel->shape().rank()));
  for (int64_t k = 0; k < kernel->shape().rank(); ++k) {
    if (std::ranges::count(points, k) > 0) continue;
    place[static_cast<size_t>(k)] = static_cast<int64_t>(sizes.size());
    sizes.push_back(kernel->shape().dim(k));
  }
  kernel = TRY(ReshapeTo(b, kernel, sizes));
  for (int64_t k : kernel_contracting) {
    dot.rhs_contracting_dims.push_back(place[static_cast<size_t>(k)]);
  }
  if (!points.empty() && points.size() == a.window.dims.size() && IsFeatureMajor(d)) {
    hlo::ReplaceInstruction(conv, TRY(FeatureMajorDot(b, *conv, kernel, dot)));
    return true;
  }
  Shape shape = Shape::Scalar(conv->shape().dtype());
  Ints out_dims;  // of the dot's dimensions
  for (int64_t k = 0; k < input->shape().rank(); ++k) {
    if (std::ranges::count(dot.lhs_contracting_dims, k) > 0) continue;
    shape.AppendDim(input->shape().dim(k));
    auto spatial = std::ranges::find(d.input_spatial, k);
    out_dims.push_back(
        k == d.input_batch
            ? d.output_batch
            : d.output_spatial[static_cast<size_t>(spatial - d.input_spatial.begin())]);
  }
  shape.AppendDim(conv->shape().dim(d.output_feature));
  out_dims.push_back(d.output_feature);
  Instruction* operands[] = {input, kernel};
  Instruction* product = TRY(b.Add(Op::kDot, operands, std::move(dot), &shape));
  hlo::ReplaceInstruction(conv, TRY(AsConvolved(b, product, conv->shape(), out_dims)));
  return true;
}

using ConvRewrite = Result<bool> (*)(Instruction*);

Result<bool> RewriteConvolutions(hlo::Module& module, ConvRewrite rewrite) {
  return RewriteEach(module, [rewrite](Instruction* i) -> Result<bool> {
    if (i->op() != Op::kConvolution || !IsStaticallyShaped(*i) || !IsForward(*i)) return false;
    return rewrite(i);
  });
}

}  // namespace

Result<bool> CanonicalizeConvolutions(hlo::Module& module, const PassContext&) {
  bool changed = TRY(RewriteConvolutions(module, ConvolutionToDot));
  changed |= TRY(RewriteConvolutions(module, UnifyTypes));
  changed |= TRY(RewriteConvolutions(module, MoveBatchGroups));
  changed |= TRY(RewriteConvolutions(module, ConvolutionToSums));
  return changed;
}

}  // namespace weft::compiler
