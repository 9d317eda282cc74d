#include <cstring>
#include <vector>

#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/sorting.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/elementwise.h"

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

Result<Literal> EvaluateSort(EvalContext& context, const Instruction& instruction,
                             std::span<Literal> operands) {
  const auto& attrs = instruction.attrs<SortAttrs>();
  int64_t dim = attrs.dimensions[0];
  for (const Literal& operand : operands) {
    if (Shape::SameDims(operand.shape(), operands[0].shape())) continue;
    return InvalidArgument(
        "sort: operands of different dimensions: ", operands[0].shape().ToStringWithoutLayout(),
        " and ", operand.shape().ToStringWithoutLayout());
  }
  std::vector<Literal> results(operands.begin(), operands.end());
  TRY(SortRows(context, *attrs.to_apply, results, dim, operands[0].dynamic_size(dim)));
  if (!instruction.shape().IsTuple()) return std::move(results[0]);
  return Literal::Tuple(std::move(results));
}

Result<Literal> EvaluateTopK(EvalContext& context, const Instruction& instruction,
                             std::span<Literal> operands) {
  const auto& attrs = instruction.attrs<TopKAttrs>();
  const Literal& operand = operands[0];
  int64_t last = operand.shape().rank() - 1;
  int64_t length = operand.shape().dim(last), k = attrs.k, valid = operand.dynamic_size(last);
  Shape shape = WithType(operand.shape(), operand.dtype());
  shape.set_dim(last, k);
  shape.set_dynamic(last, false);
  if (k > valid) return InvalidArgument("topk: k=", k, " of ", valid, " elements");
  Literal values = TRY(NewArray(context, instruction, shape));
  Literal indices = TRY(NewArray(context, instruction, WithType(shape, DType::kS32)));
  for (int64_t d = 0; d < last; ++d) {
    if (operand.dynamic_size(d) == operand.shape().dim(d)) continue;
    values.set_dynamic_size(d, operand.dynamic_size(d));
    indices.set_dynamic_size(d, operand.dynamic_size(d));
  }
  int64_t width = ByteWidth(operand.dtype()), rows = length == 0 ? 0 : operand.size() / length;
  std::byte* value_data = values.mutable_data();
  std::span<int32_t> index_data = indices.values<int32_t>();
  std::vector<uint64_t> keys(static_cast<size_t>(valid));
  std::vector<int64_t> order(static_cast<size_t>(valid));
  for (int64_t row = 0; row < rows; ++row) {
    const std::byte* from = operand.data() + row * length * width;
    if (!OrderKeys(operand.dtype(), from, valid, /*zeros_equal=*/false, keys.data())) {
      return Unimplemented("topk: no order of elements of ",
                           operand.shape().ToStringWithoutLayout());
    }
    for (uint64_t& key : keys) key = attrs.largest ? ~key : key;
    SortByKeys(keys, order);
    for (int64_t i = 0; i < k; ++i) {
      int64_t at = row * k + i, place = order[static_cast<size_t>(i)];
      std::memcpy(value_data + at * width, from + place * width, static_cast<size_t>(width));
      index_data[static_cast<size_t>(at)] = static_cast<int32_t>(place);
    }
  }
  std::vector<Literal> results;
  results.push_back(std::move(values));
  results.push_back(std::move(indices));
  return Literal::Tuple(std::move(results));
}

}  // namespace

template <>
OpRow Define<Op::kSort>() {
  return {
      .doc =
          "Sorts along one dimension, all operands by the same permutation. The comparator takes "
          "two elements of each operand and says whether the first come before the second.",
      .infer = InferSort,
      .evaluate = EvaluateSort,
      .dim_rule = RuleSort};
}

template <>
OpRow Define<Op::kTopK>() {
  return {.doc =
              "The k largest (or smallest) elements of the last dimension in order, and their "
              "indices; of equal elements the first ones.",
          .infer = InferTopK,
          .evaluate = EvaluateTopK,
          .dim_rule = RuleTopK};
}

}  // namespace weft::hlo
