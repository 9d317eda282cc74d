#include <algorithm>

#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/shape_rules.h"

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

}  // namespace

template <>
OpRow Define<Op::kReduce>() {
  return {
      .doc =
          "Combines all elements along some dimensions with a function, starting from an "
          "initial value. Several arrays can be reduced together, as tuples. The order is free.",
      .infer = InferReduce};
}

template <>
OpRow Define<Op::kMap>() {
  return {.doc = "Applies a function of scalars to the elements of equal index of all operands.",
          .infer = InferMap};
}

}  // namespace weft::hlo
