#include "hlo/attrs.h"
#include "hlo/evaluate/contract.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

// 1 + (size - 1) * dilation, 0 for nothing; false on overflow.
bool DilatedSize(int64_t size, int64_t dilation, int64_t* out) {
  if (size == 0) return *out = 0, true;
  return !__builtin_mul_overflow(size - 1, dilation, out) && !__builtin_add_overflow(*out, 1, out);
}

// The number of window positions along one dimension.
Result<int64_t> WindowPositions(int64_t base, const WindowDim& w) {
  if (w.size <= 0 || w.stride <= 0 || w.base_dilation <= 0 || w.window_dilation <= 0) {
    return InvalidArgument("convolution: window size ", w.size, ", stride ", w.stride,
                           " and dilations ", w.base_dilation, ", ", w.window_dilation,
                           " must be positive");
  }
  if (base == Shape::kUnbounded) return base;
  int64_t padded, window;
  if (!DilatedSize(base, w.base_dilation, &padded) ||
      !DilatedSize(w.size, w.window_dilation, &window) ||
      __builtin_add_overflow(padded, w.pad_low, &padded) ||
      __builtin_add_overflow(padded, w.pad_high, &padded)) {
    return InvalidArgument("convolution: the window overflows: size ", w.size, ", padding ",
                           w.pad_low, "_", w.pad_high, ", dilations ", w.base_dilation, ", ",
                           w.window_dilation, " on ", base, " elements");
  }
  return padded <= 0 || window > padded ? 0 : (padded - window) / w.stride + 1;
}

// One operand's dimension numbers are a permutation of all dimensions.
bool IsConvPermutation(int64_t first, int64_t second, const Ints& spatial, int64_t rank) {
  Ints all = spatial;
  all.push_back(first);
  all.push_back(second);
  std::sort(all.begin(), all.end());
  for (int64_t i = 0; i < rank; ++i) {
    if (all[static_cast<size_t>(i)] != i) return false;
  }
  return true;
}

Status CheckConvDims(const InferArgs& args, const ConvolutionAttrs& a) {
  const Shape& lhs = args.operand(0);
  const Shape& rhs = args.operand(1);
  const ConvDims& d = a.dim_labels;
  auto error = [&](const auto&... what) {
    return InvalidArgument("convolution: ", what..., ": ", lhs.ToStringWithoutLayout(), " and ",
                           rhs.ToStringWithoutLayout());
  };
  size_t spatial = d.input_spatial.size();
  int64_t rank = static_cast<int64_t>(spatial) + 2;
  if (d.kernel_spatial.size() != spatial || d.output_spatial.size() != spatial) {
    return error("dim_labels name different numbers of spatial dimensions");
  }
  if (a.window.dims.size() != spatial) {
    return error("a window of ", a.window.dims.size(), " dimensions for ", spatial,
                 " spatial dimensions");
  }
  if (lhs.rank() != rank || rhs.rank() != rank) return error("operands must have rank ", rank);
  if (!IsConvPermutation(d.input_batch, d.input_feature, d.input_spatial, rank) ||
      !IsConvPermutation(d.kernel_input, d.kernel_output, d.kernel_spatial, rank) ||
      !IsConvPermutation(d.output_batch, d.output_feature, d.output_spatial, rank)) {
    return error("dim_labels must name each dimension once");
  }
  if (a.feature_group_count <= 0 || a.batch_group_count <= 0 ||
      (a.feature_group_count > 1 && a.batch_group_count > 1)) {
    return error("feature_group_count=", a.feature_group_count,
                 " and batch_group_count=", a.batch_group_count,
                 " must be positive and one of them 1");
  }
  return {};
}

// Sizes of features and batch against the groups.
Status CheckConvGroups(const InferArgs& args, const ConvolutionAttrs& a) {
  const Shape& lhs = args.operand(0);
  const Shape& rhs = args.operand(1);
  const ConvDims& d = a.dim_labels;
  auto error = [&](const auto&... what) {
    return InvalidArgument("convolution: ", what..., ": ", lhs.ToStringWithoutLayout(), " and ",
                           rhs.ToStringWithoutLayout());
  };
  int64_t features = lhs.dim(d.input_feature), batch = lhs.dim(d.input_batch);
  int64_t kernel_in = rhs.dim(d.kernel_input), kernel_out = rhs.dim(d.kernel_output);
  if (a.sparsity_config.rhs &&
      __builtin_mul_overflow(kernel_in, a.sparsity_config.rhs->block_size, &kernel_in)) {
    return error("sparse kernel too large");
  }
  auto divides = [](int64_t size, int64_t by) {
    return size == Shape::kUnbounded || size % by == 0;
  };
  if (!divides(kernel_out, a.batch_group_count) || !divides(kernel_out, a.feature_group_count)) {
    return error("feature_group_count=", a.feature_group_count,
                 " and batch_group_count=", a.batch_group_count,
                 " must divide the kernel's output features");
  }
  if (!divides(batch, a.batch_group_count)) {
    return error("batch_group_count=", a.batch_group_count, " must divide the batch");
  }
  if (!divides(features, a.feature_group_count) ||
      (features != Shape::kUnbounded && !SizesAgree(features / a.feature_group_count, kernel_in))) {
    return error("the kernel's input features must be the input's divided by feature_group_count=",
                 a.feature_group_count);
  }
  return {};
}

Result<Shape> InferForwardConvolution(const InferArgs& args) {
  if (args.size() < 2) return InvalidArgument("convolution: takes an input and a kernel");
  for (int64_t i = 0; i < args.size(); ++i) TRY(ExpectArrayOperand(args, i));
  const ConvolutionAttrs& a = args.attrs.As<ConvolutionAttrs>();
  const Shape& lhs = args.operand(0);
  const Shape& rhs = args.operand(1);
  const ConvDims& d = a.dim_labels;
  TRY(CheckConvDims(args, a));
  TRY(CheckConvGroups(args, a));
  if (rhs.is_dynamic(d.kernel_output)) {
    return InvalidArgument("convolution: the kernel's output features must be static: ",
                           rhs.ToStringWithoutLayout());
  }
  Shape to(DeclaredTypeOr(args, lhs.dtype(), rhs.dtype()), lhs.dims());
  auto set = [&](int64_t dim, int64_t size, bool dynamic) {
    to.set_dim(dim, size);
    to.set_dynamic(dim, dynamic);
  };
  int64_t batch = lhs.dim(d.input_batch);
  set(d.output_batch, batch == Shape::kUnbounded ? batch : batch / a.batch_group_count,
      lhs.is_dynamic(d.input_batch));
  set(d.output_feature, rhs.dim(d.kernel_output), false);
  for (size_t i = 0; i < a.window.dims.size(); ++i) {
    const WindowDim& w = a.window.dims[i];
    int64_t in = d.input_spatial[i], kernel = d.kernel_spatial[i];
    if (!SizesAgree(rhs.dim(kernel), w.size)) {
      return InvalidArgument("convolution: window size ", w.size,
                             " is not that of kernel dimension ", kernel, " of ",
                             rhs.ToStringWithoutLayout());
    }
    int64_t size = TRY(WindowPositions(lhs.dim(in), w));
    set(d.output_spatial[i], size, lhs.is_dynamic(in) || rhs.is_dynamic(kernel));
  }
  return to;
}

// The gradient kinds, which only some backends know, may have shapes that forward ones cannot have.
Result<Shape> InferConvolution(const InferArgs& args) {
  Result<Shape> forward = InferForwardConvolution(args);
  ConvKind kind = args.attrs.As<ConvolutionAttrs>().convolution_kind;
  bool gradient = kind == ConvKind::kDgrad || kind == ConvKind::kWgrad;
  if (gradient && args.declared != nullptr && args.declared->IsArray() && args.size() >= 2 &&
      args.declared->rank() == args.operand(0).rank()) {
    return WithoutLayout(*args.declared);
  }
  return forward;
}

Status CheckConvolution(const Instruction& instruction) {
  const ConvolutionAttrs& a = instruction.attrs<ConvolutionAttrs>();
  for (const auto& sparse : {a.sparsity_config.lhs, a.sparsity_config.rhs}) {
    if (sparse &&
        (sparse->index_operand < 2 || sparse->index_operand >= instruction.operand_count())) {
      return InvalidArgument("convolution: sparsity_config names operand ", sparse->index_operand,
                             " of ", instruction.operand_count());
    }
  }
  return {};
}

}  // namespace

template <>
OpRow Define<Op::kConvolution>() {
  return {.doc =
              "Sums of products of a kernel that slides over the input's spatial dimensions. "
              "feature_group_count cuts the features, batch_group_count the batch into groups "
              "that are convolved with their own part of the kernel's output features.",
          .infer = InferConvolution,
          .check = CheckConvolution,
          .evaluate = EvaluateConvolution,
          .dim_rule = RuleConvolution};
}

}  // namespace weft::hlo
