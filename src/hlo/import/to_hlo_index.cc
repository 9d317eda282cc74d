// Gather and scatter.
#include "hlo/import/attr_values.h"
#include "hlo/import/to_hlo.h"
#include "hlo/import/windows.h"

namespace weft::hlo::mlir {

Result<GatherAttrs> GatherOf(const Operation& op) {
  GatherAttrs attrs;
  attrs.offset_dims = TRY(IntsAttr(op, "offset_dims"));
  attrs.collapsed_slice_dims = TRY(IntsAttr(op, "collapsed_slice_dims"));
  attrs.start_index_map = TRY(IntsAttr(op, "start_index_map"));
  attrs.operand_batching_dims = TRY(IntsAttr(op, "operand_batching_dims"));
  attrs.start_indices_batching_dims = TRY(IntsAttr(op, "start_indices_batching_dims"));
  attrs.index_vector_dim = TRY(IntAttr(op, "index_vector_dim", 0));
  attrs.indices_are_sorted = BoolAttr(op, "indices_are_sorted");
  return attrs;
}

namespace {

Status ConvertGather(Converter& c, const Operation& op) {
  GatherAttrs attrs = TRY(GatherOf(op));
  attrs.slice_sizes = TRY(IntsAttr(op, "slice_sizes"));
  return c.EmitAndBind(op, Op::kGather, std::move(attrs));
}

Status ConvertScatter(Converter& c, const Operation& op) {
  ScatterAttrs attrs;
  attrs.update_window_dims = TRY(IntsAttr(op, "update_window_dims"));
  attrs.inserted_window_dims = TRY(IntsAttr(op, "inserted_window_dims"));
  attrs.scatter_dims_to_operand_dims = TRY(IntsAttr(op, "scatter_dims_to_operand_dims"));
  attrs.input_batching_dims = TRY(IntsAttr(op, "input_batching_dims"));
  attrs.scatter_indices_batching_dims = TRY(IntsAttr(op, "scatter_indices_batching_dims"));
  attrs.index_vector_dim = TRY(IntAttr(op, "index_vector_dim", 0));
  attrs.indices_are_sorted = BoolAttr(op, "indices_are_sorted");
  attrs.unique_indices = BoolAttr(op, "unique_indices");
  attrs.to_apply = TRY(c.RegionFunction(op, 0, "update"));
  return c.EmitAndBind(op, Op::kScatter, std::move(attrs));
}

// operand[..., index[...], ...]: dimension `dim` of the operand is replaced by those of the index
// that are not batch dimensions.
Status ConvertTorchIndexSelect(Converter& c, const Operation& op) {
  Instruction* operand = TRY(c.Operand(op, 0));
  Instruction* index = TRY(c.Operand(op, 1));
  int64_t dim = TRY(RequiredInt(op, "dim"));
  int64_t batch = TRY(IntAttr(op, "batch_dims", 0));
  const Shape& from = operand->shape();
  if (dim < batch || dim >= from.rank() || batch < 0 || batch > index->shape().rank()) {
    return InvalidArgument("dim = ", dim, " and batch_dims = ", batch, " do not fit ",
                           from.ToStringWithoutLayout());
  }
  GatherAttrs attrs;
  attrs.index_vector_dim = index->shape().rank();
  attrs.start_index_map = {dim};
  attrs.collapsed_slice_dims = {dim};
  for (int64_t i = 0; i < batch; ++i) {
    attrs.operand_batching_dims.push_back(i);
    attrs.start_indices_batching_dims.push_back(i);
  }
  int64_t added = index->shape().rank() - batch;
  for (int64_t i = 0; i < from.rank(); ++i) {
    bool whole = i >= batch && i != dim;
    attrs.slice_sizes.push_back(whole ? from.dim(i) : 1);
    if (whole) attrs.offset_dims.push_back(i < dim ? i : i - 1 + added);
  }
  return c.EmitAndBind(op, Op::kGather, std::move(attrs));
}

constexpr HandlerRow kIndexRows[] = {
    {"gather", ConvertGather},
    {"scatter", ConvertScatter},
    {"torch_index_select", ConvertTorchIndexSelect},
};

}  // namespace

std::span<const HandlerRow> IndexHandlers() {
  return kIndexRows;
}

}  // namespace weft::hlo::mlir
