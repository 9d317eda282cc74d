#include <algorithm>

#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/reduction.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/elementwise.h"

namespace weft::hlo {
namespace {

Result<Shape> InferReduce(const InferArgs& args) {
  const auto& attrs = args.attrs.As<ReduceAttrs>();
  if (args.size() < 2 || args.size() % 2 != 0) {
    return InvalidArgument("reduce: takes arrays and as many initial values, got ", args.size(),
                           " operands");
  }
  int64_t n = args.size() / 2;
  std::vector<DType> types;
  for (int64_t i = 0; i < n; ++i) {
    TRY(ExpectArray(args.op, "operand", args.operand(i)));
    types.push_back(args.operand(i).dtype());
    if (!DimsAgree(args.operand(0), args.operand(i))) {
      return InvalidArgument(
          "reduce: operands of different dimensions: ", args.operand(0).ToStringWithoutLayout(),
          " and ", args.operand(i).ToStringWithoutLayout());
    }
  }
  TRY(CheckReducer(args.op, attrs.to_apply, args.operands.subspan(n), types));
  const Shape& array = args.operand(0);
  uint64_t reduced = 0;
  for (int64_t d : attrs.dimensions) {
    if (d < 0 || d >= array.rank() || (reduced >> d & 1)) {
      return InvalidArgument("reduce: dimension ", d,
                             d < 0 || d >= array.rank() ? " is not one of " : " twice for ",
                             array.ToStringWithoutLayout());
    }
    reduced |= uint64_t{1} << d;
  }
  auto shape_of = [&](const Shape& scalar) {
    Shape result = Shape::Scalar(scalar.dtype());
    for (int64_t d = 0; d < array.rank(); ++d) {
      if (!(reduced >> d & 1)) result.AppendDim(array.dim(d), array.is_dynamic(d));
    }
    return result;
  };
  const Shape& root = attrs.to_apply->root()->shape();
  if (!root.IsTuple()) return shape_of(root);
  std::vector<Shape> results;
  for (const Shape& element : root.elements_of_tuple()) results.push_back(shape_of(element));
  return Shape::Tuple(std::move(results));
}

Result<Shape> InferMap(const InferArgs& args) {
  const auto& attrs = args.attrs.As<MapAttrs>();
  if (args.size() == 0) return InvalidArgument("map: takes at least one operand");
  const Shape* array = &args.operand(0);
  for (const Shape* shape : args.operands) {
    TRY(ExpectArray(args.op, "operand", *shape));
    if (array->IsScalar()) array = shape;
    if (!shape->IsScalar() && !DimsAgree(*shape, *array)) {
      return InvalidArgument(
          "map: operands of different dimensions: ", array->ToStringWithoutLayout(), " and ",
          shape->ToStringWithoutLayout());
    }
  }
  TRY(ExpectComputation(args.op, "mapped computation", attrs.to_apply, args.size()));
  const Shape& root = attrs.to_apply->root()->shape();
  if (!root.IsScalar()) {
    return InvalidArgument("map: computation ", attrs.to_apply->name(),
                           " must return a scalar, returns ", root.ToStringWithoutLayout());
  }
  for (int64_t i = 0; i < args.size(); ++i) {
    const Shape& parameter = attrs.to_apply->parameter(i)->shape();
    if (!parameter.IsScalar() ||
        !SameTypeUpToPrecision(parameter.dtype(), args.operand(i).dtype())) {
      return InvalidArgument("map: parameter ", i, " of ", attrs.to_apply->name(), " is ",
                             parameter.ToStringWithoutLayout(), " for an operand ",
                             args.operand(i).ToStringWithoutLayout());
    }
  }
  return WithType(*array, root.dtype());
}

Result<Literal> EvaluateReduce(EvalContext& context, const Instruction& instruction,
                               std::span<Literal> operands) {
  const auto& attrs = instruction.attrs<ReduceAttrs>();
  size_t n = operands.size() / 2;
  const Literal& array = operands[0];
  uint64_t is_reduced = 0;
  for (int64_t d : attrs.dimensions) is_reduced |= uint64_t{1} << d;
  for (const Literal& other : operands.first(n)) {
    if (Shape::SameDims(other.shape(), array.shape())) continue;
    return InvalidArgument(
        "reduce: operands of different dimensions: ", array.shape().ToStringWithoutLayout(),
        " and ", other.shape().ToStringWithoutLayout());
  }
  StridedDims kept, reduced;
  Dims kept_dims;
  int64_t stride = array.size();
  for (int64_t d = 0; d < array.shape().rank(); ++d) {
    int64_t size = array.shape().dim(d);
    stride = size == 0 ? 0 : stride / size;
    if (is_reduced >> d & 1) {
      reduced.push_back({array.dynamic_size(d), stride});
    } else {
      kept.push_back({size, stride});
      kept_dims.push_back(d);
    }
  }
  std::vector<Literal> out;
  for (size_t k = 0; k < n; ++k) {
    const Shape& declared = instruction.shape().IsTuple()
                                ? instruction.shape().tuple_element(static_cast<int64_t>(k))
                                : instruction.shape();
    Shape shape = declared;
    for (size_t i = 0; i < kept_dims.size(); ++i) {
      shape.set_dim(static_cast<int64_t>(i), array.shape().dim(kept_dims[i]));
    }
    out.push_back(TRY(NewArray(context, instruction, std::move(shape))));
  }
  TRY(ReduceStrided(context, *attrs.to_apply, operands.first(n), operands.subspan(n), kept, reduced,
                    out));
  for (Literal& result : out) {
    for (size_t i = 0; i < kept_dims.size() && array.HasDynamicSizes(); ++i) {
      result.set_dynamic_size(static_cast<int64_t>(i), array.dynamic_size(kept_dims[i]));
    }
  }
  if (!instruction.shape().IsTuple()) return std::move(out[0]);
  return Literal::Tuple(std::move(out));
}

Result<Literal> EvaluateMap(EvalContext& context, const Instruction& instruction,
                            std::span<Literal> operands) {
  const Literal* full = &operands[0];
  for (const Literal& operand : operands) {
    if (full->shape().IsScalar()) full = &operand;
  }
  Literal out = TRY(
      NewArray(context, instruction, TRY(RunTimeShape(instruction, instruction.shape(), *full))));
  std::vector<ScalarFunction::In> in;
  for (const Literal& operand : operands) {
    if (operand.size() != out.size() && !operand.shape().IsScalar()) {
      return InvalidArgument("map: operand ", operand.shape().ToStringWithoutLayout(),
                             " for a result ", out.shape().ToStringWithoutLayout());
    }
    in.push_back({operand.dtype(), operand.data(), operand.shape().IsScalar()});
  }
  ElementFunction function(context, *instruction.attrs<MapAttrs>().to_apply);
  ScalarFunction::Out result[] = {{out.dtype(), out.mutable_data()}};
  TRY(function.CallMany(in, result, out.size()));
  CopyDynamicSizes(operands, out);
  return out;
}

}  // namespace

template <>
OpRow Define<Op::kReduce>() {
  return {
      .doc =
          "Combines all elements along some dimensions with a function, starting from an "
          "initial value. Several arrays can be reduced together, as tuples. The order is free.",
      .infer = InferReduce,
      .evaluate = EvaluateReduce,
      .dim_rule = RuleReduce};
}

template <>
OpRow Define<Op::kMap>() {
  return {.doc = "Applies a function of scalars to the elements of equal index of all operands.",
          .infer = InferMap,
          .evaluate = EvaluateMap,
          .dim_rule = RuleElementwise};
}

}  // namespace weft::hlo
