// Reductions, windows, and convolution's window.
#include "hlo/import/attr_values.h"
#include "hlo/import/to_hlo.h"
#include "hlo/import/windows.h"

namespace weft::hlo::mlir {

Result<Window> WindowOf(const WindowLists& lists) {
  size_t rank = lists.size.size();
  auto check = [&](size_t length, std::string_view what) -> Status {
    if (length == 0 || length == rank) return {};
    return InvalidArgument(what, " has ", length, " entries for a window of ", rank, " dimensions");
  };
  TRY(check(lists.stride.size(), "window_strides"));
  TRY(check(lists.base_dilation.size(), "base dilation"));
  TRY(check(lists.window_dilation.size(), "window dilation"));
  TRY(check(lists.padding.size(), "padding"));
  TRY(check(lists.reversal.size(), "window_reversal"));
  Window window;
  for (size_t i = 0; i < rank; ++i) {
    WindowDim& dim = window.dims.emplace_back();
    dim.size = lists.size[i];
    if (!lists.stride.empty()) dim.stride = lists.stride[i];
    if (!lists.base_dilation.empty()) dim.base_dilation = lists.base_dilation[i];
    if (!lists.window_dilation.empty()) dim.window_dilation = lists.window_dilation[i];
    if (!lists.padding.empty()) {
      if (lists.padding[i].size() != 2) return InvalidArgument("padding is not pairs");
      dim.pad_low = lists.padding[i][0];
      dim.pad_high = lists.padding[i][1];
    }
    if (!lists.reversal.empty()) dim.reversal = lists.reversal[i];
  }
  return window;
}

Result<ConvolutionAttrs> ConvolutionOf(Converter& c, const Operation& op,
                                       const std::vector<Ints>& padding) {
  const Shape& lhs = TRY(c.Operand(op, 0))->shape();
  const Shape& rhs = TRY(c.Operand(op, 1))->shape();
  ConvolutionAttrs attrs;
  attrs.feature_group_count = TRY(IntAttr(op, "feature_group_count", 1));
  attrs.batch_group_count = TRY(IntAttr(op, "batch_group_count", 1));
  attrs.operand_precision = TRY(PrecisionOf(op));
  ConvDims& dims = attrs.dim_labels;
  dims.input_batch = TRY(RequiredInt(op, "input_batch_dimension"));
  dims.input_feature = TRY(RequiredInt(op, "input_feature_dimension"));
  dims.kernel_input = TRY(RequiredInt(op, "kernel_input_feature_dimension"));
  dims.kernel_output = TRY(RequiredInt(op, "kernel_output_feature_dimension"));
  dims.output_batch = TRY(RequiredInt(op, "output_batch_dimension"));
  dims.output_feature = TRY(RequiredInt(op, "output_feature_dimension"));
  dims.input_spatial = TRY(IntsAttr(op, "input_spatial_dimensions"));
  dims.kernel_spatial = TRY(IntsAttr(op, "kernel_spatial_dimensions"));
  dims.output_spatial = TRY(IntsAttr(op, "output_spatial_dimensions"));
  dims.input_rank = lhs.rank();
  dims.kernel_rank = rhs.rank();
  dims.output_rank = static_cast<int64_t>(dims.output_spatial.size()) + 2;
  WindowLists lists;
  for (int64_t d : dims.kernel_spatial) {
    if (d < 0 || d >= rhs.rank()) {
      return InvalidArgument("kernel_spatial_dimensions names dimension ", d, " of ",
                             rhs.ToStringWithoutLayout());
    }
    lists.size.push_back(rhs.dim(d));
  }
  lists.stride = TRY(IntsAttr(op, "window_strides"));
  lists.base_dilation = TRY(IntsAttr(op, "lhs_dilation"));
  lists.window_dilation = TRY(IntsAttr(op, "rhs_dilation"));
  lists.reversal = TRY(BoolsAttr(op, "window_reversal"));
  lists.padding = padding;
  attrs.window = TRY(WindowOf(lists));
  return attrs;
}

namespace {

Status ConvertReduce(Converter& c, const Operation& op) {
  ReduceAttrs attrs;
  attrs.dimensions = TRY(IntsAttr(op, "dimensions"));
  attrs.to_apply = TRY(c.RegionFunction(op, 0, "reducer"));
  return c.EmitAndBind(op, Op::kReduce, std::move(attrs));
}

Status ConvertReduceWindow(Converter& c, const Operation& op) {
  WindowLists lists;
  lists.size = TRY(IntsAttr(op, "window_dimensions"));
  lists.stride = TRY(IntsAttr(op, "window_strides"));
  lists.base_dilation = TRY(IntsAttr(op, "base_dilations"));
  lists.window_dilation = TRY(IntsAttr(op, "window_dilations"));
  lists.padding = TRY(IntRowsAttr(op, "padding"));
  ReduceWindowAttrs attrs;
  attrs.window = TRY(WindowOf(lists));
  attrs.to_apply = TRY(c.RegionFunction(op, 0, "reducer"));
  return c.EmitAndBind(op, Op::kReduceWindow, std::move(attrs));
}

Status ConvertSelectAndScatter(Converter& c, const Operation& op) {
  WindowLists lists;
  lists.size = TRY(IntsAttr(op, "window_dimensions"));
  lists.stride = TRY(IntsAttr(op, "window_strides"));
  lists.padding = TRY(IntRowsAttr(op, "padding"));
  if (lists.size.empty()) {  // not given: windows of one element
    lists.size.assign(static_cast<size_t>(TRY(c.Operand(op, 0))->shape().rank()), 1);
  }
  SelectAndScatterAttrs attrs;
  attrs.window = TRY(WindowOf(lists));
  attrs.select = TRY(c.RegionFunction(op, 0, "select"));
  attrs.scatter = TRY(c.RegionFunction(op, 1, "scatter"));
  return c.EmitAndBind(op, Op::kSelectAndScatter, std::move(attrs));
}

constexpr HandlerRow kReductionRows[] = {
    {"reduce", ConvertReduce},
    {"reduce_window", ConvertReduceWindow},
    {"select_and_scatter", ConvertSelectAndScatter},
};

}  // namespace

std::span<const HandlerRow> ReductionHandlers() {
  return kReductionRows;
}

}  // namespace weft::hlo::mlir
