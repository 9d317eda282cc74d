#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"

namespace weft::hlo {
namespace {

Result<Shape> InferSort(const InferArgs& args) {
  const auto& attrs = args.attrs.As<SortAttrs>();
  if (args.size() == 0) return InvalidArgument("sort: takes at least one operand");
  std::vector<Shape> shapes;
  for (const Shape* shape : args.operands) {
    TRY(ExpectArray(args.op, "operand", *shape));
    if (!DimsAgree(args.operand(0), *shape)) {
      return InvalidArgument(
          "sort: operands of different dimensions: ", args.operand(0).ToStringWithoutLayout(),
          " and ", shape->ToStringWithoutLayout());
    }
    shapes.push_back(WithType(*shape, shape->dtype()));
  }
  if (attrs.dimensions.size() != 1 || attrs.dimensions[0] < 0 ||
      attrs.dimensions[0] >= shapes[0].rank()) {
    return InvalidArgument("sort: dimensions={", StrJoin(attrs.dimensions, ","),
                           "} must be one dimension of ", shapes[0].ToStringWithoutLayout());
  }
  TRY(ExpectComputation(args.op, "comparator", attrs.to_apply, 2 * args.size()));
  if (!Shape::Compatible(attrs.to_apply->root()->shape(), Shape::Scalar(DType::kPred))) {
    return InvalidArgument("sort: comparator ", attrs.to_apply->name(),
                           " must return pred[], returns ",
                           attrs.to_apply->root()->shape().ToStringWithoutLayout());
  }
  for (int64_t i = 0; i < 2 * args.size(); ++i) {
    const Shape& parameter = attrs.to_apply->parameter(i)->shape();
    if (!ShapesAgree(parameter, Shape::Scalar(shapes[static_cast<size_t>(i / 2)].dtype()))) {
      return InvalidArgument("sort: parameter ", i, " of comparator ", attrs.to_apply->name(),
                             " is ", parameter.ToStringWithoutLayout(), " for an operand ",
                             args.operand(i / 2).ToStringWithoutLayout());
    }
  }
  if (shapes.size() == 1) return shapes[0];
  return Shape::Tuple(std::move(shapes));
}

Result<Shape> InferTopK(const InferArgs& args) {
  int64_t k = args.attrs.As<TopKAttrs>().k;
  const Shape& operand = args.operand(0);
  TRY(ExpectArray(args.op, "operand", operand));
  int64_t last = operand.rank() - 1;
  if (last < 0 || k < 0 || (!operand.is_unbounded(last) && operand.dim(last) < k)) {
    return InvalidArgument("topk: k=", k, " elements of the last dimension of ",
                           operand.ToStringWithoutLayout());
  }
  Shape values = WithType(operand, operand.dtype());
  values.set_dim(last, k);
  values.set_dynamic(last, false);
  return Shape::Tuple({values, WithType(values, DType::kS32)});
}

}  // namespace

template <>
OpRow Define<Op::kSort>() {
  return {
      .doc =
          "Sorts along one dimension, all operands by the same permutation. The comparator takes "
          "two elements of each operand and says whether the first come before the second.",
      .infer = InferSort};
}

template <>
OpRow Define<Op::kTopK>() {
  return {.doc =
              "The k largest (or smallest) elements of the last dimension in order, and their "
              "indices; of equal elements the first ones.",
          .infer = InferTopK};
}

}  // namespace weft::hlo
