#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

Result<Shape> InferReduceWindow(const InferArgs& args) {
  const auto& attrs = args.attrs.As<ReduceWindowAttrs>();
  if (args.size() < 2 || args.size() % 2 != 0) {
    return InvalidArgument("reduce-window: takes arrays and as many initial values, got ",
                           args.size(), " operands");
  }
  int64_t n = args.size() / 2;
  std::vector<DType> types;
  for (int64_t i = 0; i < n; ++i) {
    TRY(ExpectArray(args.op, "operand", args.operand(i)));
    types.push_back(args.operand(i).dtype());
    if (!DimsAgree(args.operand(0), args.operand(i))) {
      return InvalidArgument("reduce-window: operands of different dimensions: ",
                             args.operand(0).ToStringWithoutLayout(), " and ",
                             args.operand(i).ToStringWithoutLayout());
    }
  }
  TRY(CheckReducer(args.op, attrs.to_apply, args.operands.subspan(n), types));
  std::vector<Shape> results;
  for (int64_t i = 0; i < n; ++i) {
    results.push_back(
        TRY(WindowedShape(args.op, args.operand(i), attrs.window, args.operand(n + i).dtype())));
  }
  if (!attrs.to_apply->root()->shape().IsTuple()) return results[0];
  return Shape::Tuple(std::move(results));
}

Result<Shape> InferSelectAndScatter(const InferArgs& args) {
  const auto& attrs = args.attrs.As<SelectAndScatterAttrs>();
  const Shape &operand = args.operand(0), &source = args.operand(1), &init = args.operand(2);
  TRY(ExpectArray(args.op, "operand", operand));
  TRY(ExpectArray(args.op, "source", source));
  TRY(ExpectComputation(args.op, "select function", attrs.select, 2));
  if (!Shape::Compatible(attrs.select->root()->shape(), Shape::Scalar(DType::kPred))) {
    return InvalidArgument("select-and-scatter: select function ", attrs.select->name(),
                           " must return pred[], returns ",
                           attrs.select->root()->shape().ToStringWithoutLayout());
  }
  for (const Instruction* p : attrs.select->parameters()) {
    if (!ShapesAgree(p->shape(), Shape::Scalar(operand.dtype()))) {
      return InvalidArgument("select-and-scatter: parameter ", p->shape().ToStringWithoutLayout(),
                             " of select function ", attrs.select->name(), " for an operand ",
                             operand.ToStringWithoutLayout());
    }
  }
  const Shape* inits[] = {&init};
  DType types[] = {source.dtype()};
  TRY(CheckReducer(args.op, attrs.scatter, inits, types));
  Shape windowed = TRY(WindowedShape(args.op, operand, attrs.window, operand.dtype()));
  if (!ShapesAgree(source, windowed)) {
    return InvalidArgument("select-and-scatter: source ", source.ToStringWithoutLayout(),
                           " must have the shape of the windows, ",
                           windowed.ToStringWithoutLayout());
  }
  return WithType(operand, operand.dtype());
}

}  // namespace

template <>
OpRow Define<Op::kReduceWindow>() {
  return {.doc =
              "Reduces each placement of a window over an array, padded with the initial value, to "
              "one element. Several arrays can be reduced together, as tuples.",
          .infer = InferReduceWindow};
}

template <>
OpRow Define<Op::kSelectAndScatter>() {
  return {.doc =
              "For each placement of a window, selects one element of the operand and combines the "
              "source element of that placement into the result at its place; the rest is the "
              "initial value. The gradient of max pooling.",
          .infer = InferSelectAndScatter};
}

}  // namespace weft::hlo
