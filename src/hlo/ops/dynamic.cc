#include <cstring>
#include <limits>

#include "hlo/attrs.h"
#include "hlo/evaluate/result.h"
#include "hlo/instruction.h"
#include "hlo/module.h"
#include "hlo/op.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

Result<int64_t> SizedDimension(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  const Ints& dims = args.attrs.As<DimensionsAttrs>().dimensions;
  const Shape& shape = args.operand(0);
  TRY(CheckDimList(args.op, "dimensions", dims, shape.rank()));
  if (dims.size() != 1) {
    return InvalidArgument(Mnemonic(args.op), ": dimensions=", DimList(dims),
                           " must name one dimension");
  }
  if (shape.dim(dims[0]) > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument(Mnemonic(args.op), ": the size of dimension ", dims[0], " of ",
                           shape.ToStringWithoutLayout(), " does not fit s32");
  }
  return dims[0];
}

Result<Shape> InferGetDimensionSize(const InferArgs& args) {
  TRY(SizedDimension(args));
  return Shape::Scalar(DType::kS32);
}

Result<Literal> EvaluateGetDimensionSize(EvalContext&, const Instruction& instruction,
                                         std::span<Literal> operands) {
  int64_t dim = instruction.attrs<DimensionsAttrs>().dimensions[0];
  return Literal::Scalar(DType::kS32, static_cast<int32_t>(operands[0].dynamic_size(dim)));
}

Result<Shape> InferSetDimensionSize(const InferArgs& args) {
  int64_t dim = TRY(SizedDimension(args));
  const Shape& size = args.operand(1);
  if (!size.IsScalar() || size.dtype() != DType::kS32) {
    return InvalidArgument("set-dimension-size: the size must be s32[], got ",
                           size.ToStringWithoutLayout());
  }
  Shape to = WithoutLayout(args.operand(0));
  to.set_dynamic(dim, true);
  return to;
}

// Elements beyond the size stay where they are.
Result<Literal> EvaluateSetDimensionSize(EvalContext&, const Instruction& instruction,
                                         std::span<Literal> operands) {
  int64_t dim = instruction.attrs<DimensionsAttrs>().dimensions[0];
  int64_t size = operands[1].GetInt(0);
  Shape bound = operands[0].shape();
  if (size < 0 || size > bound.dim(dim)) {
    return InvalidArgument("set-dimension-size: size ", size, " of dimension ", dim,
                           " is not within ", bound.ToStringWithoutLayout());
  }
  Literal from = TRY(ConvertedTo(std::move(operands[0]), instruction.shape().dtype()));
  Literal out = from.WithShape(instruction.shape());
  out.set_dynamic_size(dim, size);
  return out;
}

Result<Shape> InferDynamicReshape(const InferArgs& args) {
  if (args.size() == 0) {
    return InvalidArgument("dynamic-reshape: takes an array and one size per result dimension");
  }
  TRY(ExpectArrayOperand(args, 0));
  TRY(ExpectDeclaredArray(args));
  const Shape& from = args.operand(0);
  const Shape& to = *args.declared;
  bool known = !from.HasUnboundedDims() && !to.HasUnboundedDims();
  if (from.dtype() != to.dtype() || args.size() != to.rank() + 1 ||
      (known && (!from.CheckedElements() || from.CheckedElements() != to.CheckedElements()))) {
    return InvalidArgument("dynamic-reshape: cannot turn ", from.ToStringWithoutLayout(), " into ",
                           to.ToStringWithoutLayout(), " with ", args.size() - 1, " sizes");
  }
  for (int64_t i = 1; i < args.size(); ++i) {
    if (args.operand(i).dtype() != DType::kS32) {
      return InvalidArgument("dynamic-reshape: sizes must be s32[], got ",
                             args.operand(i).ToStringWithoutLayout());
    }
  }
  return WithoutLayout(to);
}

// The elements that are there, in row-major order, move to the front of the new shape's own
// row-major order of elements that are there.
Result<Literal> EvaluateDynamicReshape(EvalContext& context, const Instruction& instruction,
                                       std::span<Literal> operands) {
  const Literal& from = operands[0];
  Literal out = TRY(NewResult(context, instruction.shape()));
  int64_t there = 1, wanted = 1;
  for (int64_t i = 0; i < from.shape().rank(); ++i) there *= from.dynamic_size(i);
  for (int64_t i = 0; i < out.shape().rank(); ++i) {
    int64_t size = operands[static_cast<size_t>(i) + 1].size() == 1
                       ? operands[static_cast<size_t>(i) + 1].GetInt(0)
                       : -1;
    if (size < 0 || size > out.shape().dim(i)) {
      return InvalidArgument("dynamic-reshape: size ", size, " of dimension ", i, " is not within ",
                             out.shape().ToStringWithoutLayout());
    }
    out.set_dynamic_size(i, size);
    wanted *= size;
  }
  if (wanted != there) {
    return InvalidArgument("dynamic-reshape: ", there, " elements cannot become ", wanted);
  }
  // Positions of existing elements, in order.
  auto next = [](const Literal& l, Dims& index) {
    for (int64_t d = l.shape().rank() - 1; d >= 0; --d) {
      if (++index[static_cast<size_t>(d)] < l.dynamic_size(d)) return;
      index[static_cast<size_t>(d)] = 0;
    }
  };
  auto position = [](const Literal& l, const Dims& index) {
    int64_t at = 0;
    for (int64_t d = 0; d < l.shape().rank(); ++d) {
      at = at * l.shape().dim(d) + index[static_cast<size_t>(d)];
    }
    return at;
  };
  Dims from_index(static_cast<size_t>(from.shape().rank()), 0);
  Dims to_index(static_cast<size_t>(out.shape().rank()), 0);
  int64_t width = ByteWidth(out.dtype());
  std::byte* to = out.mutable_data();
  for (int64_t i = 0; i < there; ++i) {
    std::memcpy(to + position(out, to_index) * width,
                from.data() + position(from, from_index) * width, static_cast<size_t>(width));
    next(from, from_index);
    next(out, to_index);
  }
  return out;
}

// get-dimension-size of a static dimension is a constant.
Instruction* FoldGetDimensionSize(Instruction& instruction) {
  const Shape& shape = instruction.operand(0)->shape();
  int64_t dim = instruction.attrs<DimensionsAttrs>().dimensions[0];
  if (shape.is_dynamic(dim)) return nullptr;
  Literal size = Literal::Scalar(DType::kS32, static_cast<int32_t>(shape.dim(dim)));
  return instruction.parent()->Add(
      Op::kConstant, instruction.parent()->module()->UniqueName("constant"),
      Shape::Scalar(DType::kS32), {}, ConstantAttrs{std::move(size)}, &instruction);
}

}  // namespace

template <>
OpRow Define<Op::kGetDimensionSize>() {
  return {.doc = "The run-time size of a dimension as s32[].",
          .infer = InferGetDimensionSize,
          .evaluate = EvaluateGetDimensionSize,
          .fold = FoldGetDimensionSize,
          .no_dim_rule = "sizes are known when the program runs"};
}

template <>
OpRow Define<Op::kSetDimensionSize>() {
  return {.doc =
              "The operand with the run-time size of one dimension set; elements beyond it are "
              "not part of the value.",
          .infer = InferSetDimensionSize,
          .evaluate = EvaluateSetDimensionSize,
          .no_dim_rule = "sizes are known when the program runs"};
}

template <>
OpRow Define<Op::kDynamicReshape>() {
  return {.doc = "A reshape whose result sizes are operands; the declared shape gives the bounds.",
          .infer = InferDynamicReshape,
          .evaluate = EvaluateDynamicReshape,
          .no_dim_rule = "sizes are known when the program runs"};
}

}  // namespace weft::hlo
