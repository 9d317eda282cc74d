#include "hlo/attrs.h"
#include "hlo/evaluate/move.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

Result<Shape> InferSlice(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  const Shape& from = args.operand(0);
  const SliceDims& slice = args.attrs.As<SliceAttrs>().slice;
  if (static_cast<int64_t>(slice.size()) != from.rank()) {
    return InvalidArgument("slice: ", slice.size(), " ranges for operand ",
                           from.ToStringWithoutLayout());
  }
  Shape to = Shape::Scalar(from.dtype());
  for (int64_t i = 0; i < from.rank(); ++i) {
    const SliceDim& s = slice[static_cast<size_t>(i)];
    if (s.start < 0 || s.limit < s.start || s.stride <= 0 ||
        (!from.is_unbounded(i) && s.limit > from.dim(i))) {
      return InvalidArgument("slice: range [", s.start, ":", s.limit, ":", s.stride,
                             "] of dimension ", i, " does not fit operand ",
                             from.ToStringWithoutLayout());
    }
    int64_t length = s.limit - s.start;
    int64_t size = length / s.stride + (length % s.stride != 0);
    // One element of a dynamic dimension is always there.
    to.AppendDim(size, size != 1 && from.is_dynamic(i) && !from.is_unbounded(i));
  }
  return to;
}

// Start indices are operands first ..: one rank-1 array, or a scalar per dimension.
Status CheckStartIndices(const InferArgs& args, int64_t first, const Shape& sliced) {
  std::string_view name = Mnemonic(args.op);
  int64_t count = args.size() - first;
  bool one_array = count == 1 && args.operand(first).IsArray() && args.operand(first).rank() == 1;
  if (one_array) {
    const Shape& index = args.operand(first);
    if (!IsInteger(index.dtype()) || index.dim(0) != sliced.rank()) {
      return InvalidArgument(name, ": start indices ", index.ToStringWithoutLayout(), " must be ",
                             sliced.rank(), " integers for operand ",
                             sliced.ToStringWithoutLayout());
    }
    return {};
  }
  if (count != sliced.rank()) {
    return InvalidArgument(name, ": ", count, " start indices for operand ",
                           sliced.ToStringWithoutLayout());
  }
  for (int64_t i = first; i < args.size(); ++i) {
    const Shape& index = args.operand(i);
    if (!index.IsScalar() || !IsInteger(index.dtype()) ||
        index.dtype() != args.operand(first).dtype()) {
      return InvalidArgument(name, ": start indices must be integer scalars of one type, got ",
                             args.operand(first).ToStringWithoutLayout(), " and ",
                             index.ToStringWithoutLayout());
    }
  }
  return {};
}

Result<Shape> InferDynamicSlice(const InferArgs& args) {
  if (args.size() == 0) return InvalidArgument("dynamic-slice: takes an operand and start indices");
  TRY(ExpectArrayOperand(args, 0));
  const Shape& from = args.operand(0);
  TRY(CheckStartIndices(args, 1, from));
  const Ints& sizes = args.attrs.As<DynamicSliceAttrs>().dynamic_slice_sizes;
  if (static_cast<int64_t>(sizes.size()) != from.rank()) {
    return InvalidArgument("dynamic-slice: dynamic_slice_sizes=", DimList(sizes), " for operand ",
                           from.ToStringWithoutLayout());
  }
  Shape to = Shape::Scalar(from.dtype());
  for (int64_t i = 0; i < from.rank(); ++i) {
    int64_t size = sizes[static_cast<size_t>(i)];
    if (size < 0 || (!from.is_unbounded(i) && size > from.dim(i))) {
      return InvalidArgument("dynamic-slice: dynamic_slice_sizes=", DimList(sizes),
                             " does not fit operand ", from.ToStringWithoutLayout());
    }
    to.AppendDim(size, from.is_dynamic(i) && size > 1 && size == from.dim(i));
  }
  return to;
}

Result<Shape> InferDynamicUpdateSlice(const InferArgs& args) {
  if (args.size() < 2) {
    return InvalidArgument("dynamic-update-slice: takes an operand, an update and start indices");
  }
  // A buffer is updated in place.
  const Shape& whole = args.operand(0);
  const Shape& into = whole.IsBuffer() ? whole.buffer_content() : whole;
  if (!into.IsArray()) TRY(ExpectArrayOperand(args, 0));
  TRY(ExpectArrayOperand(args, 1));
  const Shape& update = args.operand(1);
  TRY(CheckStartIndices(args, 2, into));
  bool fits = update.rank() == into.rank() && TypesAgree(into.dtype(), update.dtype());
  Shape to = WithoutLayout(into);
  for (int64_t i = 0; fits && i < into.rank(); ++i) {
    fits = into.is_unbounded(i) || update.dim(i) <= into.dim(i);
    if (update.is_dynamic(i) && update.dim(i) == into.dim(i)) to.set_dynamic(i, true);
  }
  if (!fits) {
    return InvalidArgument("dynamic-update-slice: update ", update.ToStringWithoutLayout(),
                           " does not fit operand ", into.ToStringWithoutLayout());
  }
  return whole.IsBuffer() ? Shape::Buffer(std::move(to)) : to;
}

Result<Shape> InferPad(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  const Shape& from = args.operand(0);
  const Shape& value = args.operand(1);
  const Padding& padding = args.attrs.As<PadAttrs>().padding;
  if (!value.IsScalar() || !TypesAgree(from.dtype(), value.dtype())) {
    return InvalidArgument("pad: the padding value must be a scalar of the operand's type, got ",
                           value.ToStringWithoutLayout(), " for ", from.ToStringWithoutLayout());
  }
  if (static_cast<int64_t>(padding.size()) != from.rank()) {
    return InvalidArgument("pad: padding of ", padding.size(), " dimensions for operand ",
                           from.ToStringWithoutLayout());
  }
  Shape to = Shape::Scalar(HigherPrecision(from.dtype(), value.dtype()));
  for (int64_t i = 0; i < from.rank(); ++i) {
    const PaddingDim& p = padding[static_cast<size_t>(i)];
    int64_t size = Shape::kUnbounded;
    if (p.interior < 0) {
      return InvalidArgument("pad: negative interior padding ", p.interior, " in dimension ", i);
    }
    if (!from.is_unbounded(i)) {
      int64_t inner;
      if (__builtin_mul_overflow(std::max<int64_t>(from.dim(i) - 1, 0), p.interior, &inner) ||
          __builtin_add_overflow(from.dim(i), inner, &size) ||
          __builtin_add_overflow(size, p.low, &size) ||
          __builtin_add_overflow(size, p.high, &size) || size < 0) {
        return InvalidArgument("pad: padding ", p.low, "_", p.high, "_", p.interior,
                               " of dimension ", i, " of operand ", from.ToStringWithoutLayout(),
                               " gives no valid size");
      }
    }
    to.AppendDim(size, from.is_dynamic(i));
  }
  return to;
}

// The size of a dimension in which all operands agree, but for `?` and bounds.
Status MergeConcatDim(const Shape& shape, int64_t i, Shape& to) {
  bool bounded = shape.is_dynamic(i) && !shape.is_unbounded(i);
  if (!SizesAgree(to.dim(i), shape.dim(i))) {
    return InvalidArgument("concatenate: operands differ in dimension ", i, ": ",
                           to.ToStringWithoutLayout(), " and ", shape.ToStringWithoutLayout());
  }
  if (to.is_unbounded(i)) {
    to.set_dim(i, shape.dim(i));
    to.set_dynamic(i, shape.is_dynamic(i));
  } else if (bounded) {
    to.set_dynamic(i, true);
  }
  return {};
}

Result<Shape> InferConcatenate(const InferArgs& args) {
  if (args.size() == 0) return InvalidArgument("concatenate: takes at least one operand");
  for (int64_t i = 0; i < args.size(); ++i) TRY(ExpectArrayOperand(args, i));
  const Ints& dims = args.attrs.As<DimensionsAttrs>().dimensions;
  Shape to = WithoutLayout(args.operand(0));
  TRY(CheckDimList(args.op, "dimensions", dims, to.rank()));
  if (dims.size() != 1) {
    return InvalidArgument("concatenate: dimensions=", DimList(dims), " must name one dimension");
  }
  int64_t along = dims[0];
  for (int64_t k = 1; k < args.size(); ++k) {
    const Shape& shape = args.operand(k);
    if (shape.rank() != to.rank() || !TypesAgree(shape.dtype(), to.dtype())) {
      return InvalidArgument("concatenate: operands differ in rank or element type: ",
                             args.operand(0).ToStringWithoutLayout(), " and ",
                             shape.ToStringWithoutLayout());
    }
    to.set_dtype(HigherPrecision(to.dtype(), shape.dtype()));
    for (int64_t i = 0; i < to.rank(); ++i) {
      if (i != along) TRY(MergeConcatDim(shape, i, to));
    }
    int64_t size = Shape::kUnbounded;
    if (!to.is_unbounded(along) && !shape.is_unbounded(along) &&
        __builtin_add_overflow(to.dim(along), shape.dim(along), &size)) {
      return InvalidArgument("concatenate: the size of dimension ", along, " overflows");
    }
    to.set_dim(along, size);
    to.set_dynamic(along, to.is_dynamic(along) || shape.is_dynamic(along));
  }
  return to;
}

}  // namespace

template <>
OpRow Define<Op::kSlice>() {
  return {.doc = "The elements from start to limit (exclusive) by stride in each dimension.",
          .infer = InferSlice,
          .evaluate = EvaluateSlice,
          .fold = FoldSameShapeIdentity,
          .dim_rule = RuleSlice};
}

template <>
OpRow Define<Op::kDynamicSlice>() {
  return {.doc =
              "A block of dynamic_slice_sizes elements at start indices that are operands; "
              "starts are clamped so that the block lies within the operand.",
          .infer = InferDynamicSlice,
          .evaluate = EvaluateDynamicSlice,
          .fold = FoldSameShapeIdentity,
          .dim_rule = RuleDynamicSlice};
}

template <>
OpRow Define<Op::kDynamicUpdateSlice>() {
  return {.doc =
              "The first operand with the block at the start indices replaced by the second; "
              "starts are clamped so that the block lies within the operand.",
          .infer = InferDynamicUpdateSlice,
          .evaluate = EvaluateDynamicUpdateSlice,
          .dim_rule = RuleDynamicUpdateSlice};
}

template <>
OpRow Define<Op::kPad>() {
  return {.doc =
              "Padding low_high_interior in each dimension: the scalar operand before, after "
              "and between elements; negative low and high cut elements off.",
          .infer = InferPad,
          .evaluate = EvaluatePad,
          .fold = FoldSameShapeIdentity,
          .dim_rule = RulePad};
}

template <>
OpRow Define<Op::kConcatenate>() {
  return {.doc = "Operands one after the other along one dimension.",
          .infer = InferConcatenate,
          .evaluate = EvaluateConcatenate,
          .fold = FoldSameShapeIdentity,
          .dim_rule = RuleConcatenate};
}

}  // namespace weft::hlo
