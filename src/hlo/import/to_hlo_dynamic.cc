// Operations whose shapes are operands: brought to the static form where types and constants say
// enough.
#include "hlo/import/attr_values.h"
#include "hlo/import/to_hlo.h"
#include "hlo/import/windows.h"

namespace weft::hlo::mlir {
namespace {

Result<Shape> StaticResult(Converter& c, const Operation& op) {
  Shape shape = TRY(c.ResultShape(op));
  if (shape.IsArray() && !shape.HasUnboundedDims()) return shape;
  return std::unexpected(
      Error(Code::kUnimplemented,
            StrCat("the result has a dimension of unknown size: ", shape.ToStringWithoutLayout()))
          .Hint("give the arguments static shapes"));
}

Result<Ints> ConstantOperand(Converter& c, const Operation& op, size_t i, std::string_view what) {
  Instruction* operand = TRY(c.Operand(op, i));
  std::optional<Ints> values = TRY(c.ConstantInts(operand));
  if (values) return std::move(*values);
  return Unimplemented(what, " is not a constant: ", operand->ToString());
}

Status DynamicReshape(Converter& c, const Operation& op) {
  Shape shape = TRY(StaticResult(c, op));
  Instruction* operand = TRY(c.Operand(op, 0));
  if (shape.HasDynamicDims()) return Unimplemented("dynamic sizes within bounds");
  return c.Bind(op, c.Emit(Op::kReshape, {operand}, ReshapeAttrs{}, std::move(shape)));
}

Status DynamicBroadcast(Converter& c, const Operation& op) {
  Shape shape = TRY(StaticResult(c, op));
  Instruction* operand = TRY(c.Operand(op, 0));
  Ints dims = TRY(IntsAttr(op, "broadcast_dimensions"));
  return c.Bind(op, TRY(c.EmitBroadcast(operand, shape, dims)));
}

Status DynamicIota(Converter& c, const Operation& op) {
  Shape shape = TRY(StaticResult(c, op));
  IotaAttrs attrs{.iota_dimension = TRY(RequiredInt(op, "iota_dimension"))};
  return c.Bind(op, c.Emit(Op::kIota, {}, attrs, std::move(shape)));
}

Status DynamicPad(Converter& c, const Operation& op) {
  Shape shape = TRY(StaticResult(c, op));
  std::vector<Instruction*> operands = TRY(c.Operands(op, 0, 2));
  Ints low = TRY(ConstantOperand(c, op, 2, "edge_padding_low"));
  Ints high = TRY(ConstantOperand(c, op, 3, "edge_padding_high"));
  Ints interior = TRY(ConstantOperand(c, op, 4, "interior_padding"));
  if (low.size() != high.size() || low.size() != interior.size()) {
    return InvalidArgument("paddings differ in length");
  }
  PadAttrs attrs;
  for (size_t i = 0; i < low.size(); ++i) {
    attrs.padding.push_back({.low = low[i], .high = high[i], .interior = interior[i]});
  }
  return c.Bind(op, c.Emit(Op::kPad, operands, std::move(attrs), std::move(shape)));
}

// With constant bounds a slice; with static sizes and strides of one, a dynamic-slice.
Status RealDynamicSlice(Converter& c, const Operation& op) {
  Shape shape = TRY(StaticResult(c, op));
  Instruction* operand = TRY(c.Operand(op, 0));
  Ints strides = TRY(ConstantOperand(c, op, 3, "strides"));
  Instruction* starts = TRY(c.Operand(op, 1));
  std::optional<Ints> start = TRY(c.ConstantInts(starts));
  if (static_cast<int64_t>(strides.size()) != shape.rank() ||
      operand->shape().rank() != shape.rank()) {
    return InvalidArgument("strides has ", strides.size(), " entries for ",
                           operand->shape().ToStringWithoutLayout());
  }
  if (start) {
    Ints limit = TRY(ConstantOperand(c, op, 2, "limit_indices"));
    if (start->size() != strides.size() || limit.size() != strides.size()) {
      return InvalidArgument("start_indices, limit_indices and strides differ in length");
    }
    SliceAttrs attrs;
    for (size_t i = 0; i < limit.size(); ++i) {
      attrs.slice.push_back({.start = (*start)[i], .limit = limit[i], .stride = strides[i]});
    }
    return c.Bind(op, c.Emit(Op::kSlice, {operand}, std::move(attrs), std::move(shape)));
  }
  if (Ints(strides.size(), 1) != strides || starts->shape().rank() != 1 ||
      starts->shape().dim(0) != shape.rank()) {
    return Unimplemented("start_indices is not a constant and strides are not 1");
  }
  std::vector<Instruction*> operands = {operand};
  DType index = starts->shape().dtype();
  for (int64_t i = 0; i < shape.rank(); ++i) {
    Instruction* one =
        c.Emit(Op::kSlice, {starts}, SliceAttrs{{{.start = i, .limit = i + 1}}}, Shape(index, {1}));
    operands.push_back(c.Emit(Op::kReshape, {one}, ReshapeAttrs{}, Shape::Scalar(index)));
  }
  DynamicSliceAttrs attrs{Ints(shape.dims().begin(), shape.dims().end())};
  return c.Bind(op, c.Emit(Op::kDynamicSlice, operands, std::move(attrs), std::move(shape)));
}

Status DynamicGather(Converter& c, const Operation& op) {
  Shape shape = TRY(StaticResult(c, op));
  GatherAttrs attrs = TRY(GatherOf(op));
  attrs.slice_sizes = TRY(ConstantOperand(c, op, 2, "slice_sizes"));
  std::vector<Instruction*> operands = TRY(c.Operands(op, 0, 2));
  return c.Bind(op, c.Emit(Op::kGather, operands, std::move(attrs), std::move(shape)));
}

Status DynamicConv(Converter& c, const Operation& op) {
  Shape shape = TRY(StaticResult(c, op));
  Ints flat = TRY(ConstantOperand(c, op, 2, "padding"));
  std::vector<Ints> padding;
  for (size_t i = 0; i + 1 < flat.size(); i += 2) padding.push_back({flat[i], flat[i + 1]});
  ConvolutionAttrs attrs = TRY(ConvolutionOf(c, op, padding));
  std::vector<Instruction*> operands = TRY(c.Operands(op, 0, 2));
  return c.Bind(op, c.Emit(Op::kConvolution, operands, std::move(attrs), std::move(shape)));
}

constexpr HandlerRow kDynamicRows[] = {
    {"dynamic_broadcast_in_dim", DynamicBroadcast},
    {"dynamic_conv", DynamicConv},
    {"dynamic_gather", DynamicGather},
    {"dynamic_iota", DynamicIota},
    {"dynamic_pad", DynamicPad},
    {"dynamic_reshape", DynamicReshape},
    {"real_dynamic_slice", RealDynamicSlice},
};

}  // namespace

std::span<const HandlerRow> DynamicHandlers() {
  return kDynamicRows;
}

}  // namespace weft::hlo::mlir
