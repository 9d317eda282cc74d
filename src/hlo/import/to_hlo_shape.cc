// Operations that move elements: broadcasts, reshapes, slices, padding, sorting.
#include <algorithm>

#include "hlo/import/attr_values.h"
#include "hlo/import/to_hlo.h"

namespace weft::hlo::mlir {

// Dimensions of size 1 may grow: they are dropped first.
Result<Instruction*> Converter::EmitBroadcast(Instruction* operand, const Shape& shape,
                                              const Ints& dims) {
  const Shape& from = operand->shape();
  if (!from.IsArray() || !shape.IsArray() || static_cast<int64_t>(dims.size()) != from.rank()) {
    return InvalidArgument("broadcast_dimensions has ", dims.size(), " entries for operand ",
                           from.ToStringWithoutLayout());
  }
  Shape kept = Shape::Scalar(from.dtype());
  Ints kept_dims;
  bool identity = from.rank() == shape.rank() && !from.HasDynamicDims();
  for (int64_t i = 0; i < from.rank(); ++i) {
    int64_t to = dims[static_cast<size_t>(i)];
    if (to < 0 || to >= shape.rank()) {
      return InvalidArgument("broadcast_dimensions names dimension ", to, " of ",
                             shape.ToStringWithoutLayout());
    }
    identity &= to == i && from.dim(i) == shape.dim(to);
    if (from.dim(i) == 1 && shape.dim(to) != 1) continue;
    kept.AppendDim(from.dim(i), from.is_dynamic(i));
    kept_dims.push_back(to);
  }
  if (identity) return operand;
  if (kept.rank() != from.rank()) {
    operand = Emit(Op::kReshape, {operand}, ReshapeAttrs{}, std::move(kept));
  }
  return Emit(Op::kBroadcast, {operand}, BroadcastAttrs{.dimensions = std::move(kept_dims)}, shape);
}

namespace {

Status ConvertBroadcastInDim(Converter& c, const Operation& op) {
  Instruction* operand = TRY(c.Operand(op, 0));
  Ints dims = TRY(IntsAttr(op, "broadcast_dimensions"));
  Shape shape = TRY(c.ResultShape(op));
  if (operand->shape().dtype() != shape.dtype()) {
    return InvalidArgument("element types differ: ", operand->shape().ToStringWithoutLayout(),
                           " and ", shape.ToStringWithoutLayout());
  }
  return c.Bind(op, TRY(c.EmitBroadcast(operand, shape, dims)));
}

Status ConvertBroadcast(Converter& c, const Operation& op) {
  Instruction* operand = TRY(c.Operand(op, 0));
  Ints sizes = TRY(IntsAttr(op, "broadcast_sizes"));
  Ints dims;
  for (int64_t i = 0; i < operand->shape().rank(); ++i) {
    dims.push_back(i + static_cast<int64_t>(sizes.size()));
  }
  return c.Bind(op, TRY(c.EmitBroadcast(operand, TRY(c.ResultShape(op)), dims)));
}

Status ConvertConcatenate(Converter& c, const Operation& op) {
  return c.EmitAndBind(op, Op::kConcatenate,
                       DimensionsAttrs{.dimensions = {TRY(RequiredInt(op, "dimension"))}});
}

Status ConvertReverse(Converter& c, const Operation& op) {
  return c.EmitAndBind(op, Op::kReverse,
                       DimensionsAttrs{.dimensions = TRY(IntsAttr(op, "dimensions"))});
}

Status ConvertTranspose(Converter& c, const Operation& op) {
  return c.EmitAndBind(op, Op::kTranspose,
                       DimensionsAttrs{.dimensions = TRY(IntsAttr(op, "permutation"))});
}

Status ConvertGetDimensionSize(Converter& c, const Operation& op) {
  return c.EmitAndBind(op, Op::kGetDimensionSize,
                       DimensionsAttrs{.dimensions = {TRY(RequiredInt(op, "dimension"))}});
}

Status ConvertSetDimensionSize(Converter& c, const Operation& op) {
  return c.EmitAndBind(op, Op::kSetDimensionSize,
                       DimensionsAttrs{.dimensions = {TRY(RequiredInt(op, "dimension"))}});
}

Status ConvertSlice(Converter& c, const Operation& op) {
  Ints start = TRY(IntsAttr(op, "start_indices"));
  Ints limit = TRY(IntsAttr(op, "limit_indices"));
  Ints strides = TRY(IntsAttr(op, "strides"));
  if (start.size() != limit.size() || start.size() != strides.size()) {
    return InvalidArgument("start_indices, limit_indices and strides differ in length");
  }
  SliceAttrs attrs;
  for (size_t i = 0; i < start.size(); ++i) {
    attrs.slice.push_back({.start = start[i], .limit = limit[i], .stride = strides[i]});
  }
  return c.EmitAndBind(op, Op::kSlice, std::move(attrs));
}

Status ConvertPad(Converter& c, const Operation& op) {
  Ints low = TRY(IntsAttr(op, "edge_padding_low"));
  Ints high = TRY(IntsAttr(op, "edge_padding_high"));
  Ints interior = TRY(IntsAttr(op, "interior_padding"));
  if (low.size() != high.size() || low.size() != interior.size()) {
    return InvalidArgument(
        "edge_padding_low, edge_padding_high and interior_padding differ in length");
  }
  PadAttrs attrs;
  for (size_t i = 0; i < low.size(); ++i) {
    attrs.padding.push_back({.low = low[i], .high = high[i], .interior = interior[i]});
  }
  return c.EmitAndBind(op, Op::kPad, std::move(attrs));
}

Status ConvertDynamicSlice(Converter& c, const Operation& op) {
  return c.EmitAndBind(op, Op::kDynamicSlice, DynamicSliceAttrs{TRY(IntsAttr(op, "slice_sizes"))});
}

Status ConvertSort(Converter& c, const Operation& op) {
  SortAttrs attrs;
  int64_t dimension = TRY(IntAttr(op, "dimension", -1));
  Instruction* first = TRY(c.Operand(op, 0));
  if (dimension < 0) dimension += first->shape().rank();
  attrs.dimensions = {dimension};
  attrs.is_stable = BoolAttr(op, "is_stable");
  attrs.to_apply = TRY(c.RegionFunction(op, 0, "comparator"));
  return c.EmitAndBind(op, Op::kSort, std::move(attrs));
}

Status ConvertMap(Converter& c, const Operation& op) {
  MapAttrs attrs;
  attrs.dimensions = TRY(IntsAttr(op, "dimensions"));
  attrs.to_apply = TRY(c.RegionFunction(op, 0, "mapped"));
  return c.EmitAndBind(op, Op::kMap, std::move(attrs));
}

Status ConvertTopK(Converter& c, const Operation& op) {
  return c.EmitAndBind(op, Op::kTopK, TopKAttrs{.k = TRY(RequiredInt(op, "k"))});
}

constexpr HandlerRow kShapeRows[] = {
    {"bitcast_convert", Plain<Op::kBitcastConvert>},
    {"broadcast", ConvertBroadcast},
    {"broadcast_in_dim", ConvertBroadcastInDim},
    {"chlo.top_k", ConvertTopK},
    {"concatenate", ConvertConcatenate},
    {"dynamic_slice", ConvertDynamicSlice},
    {"dynamic_update_slice", Plain<Op::kDynamicUpdateSlice>},
    {"get_dimension_size", ConvertGetDimensionSize},
    {"map", ConvertMap},
    {"pad", ConvertPad},
    {"reshape", Plain<Op::kReshape>},
    {"reverse", ConvertReverse},
    {"set_dimension_size", ConvertSetDimensionSize},
    {"slice", ConvertSlice},
    {"sort", ConvertSort},
    {"transpose", ConvertTranspose},
};

}  // namespace

std::span<const HandlerRow> ShapeHandlers() {
  return kShapeRows;
}

}  // namespace weft::hlo::mlir
