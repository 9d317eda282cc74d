#include "base/elements.h"
#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/reduction.h"
#include "hlo/evaluate/windows.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/elementwise.h"

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

// The run-time sizes of a literal's dimensions.
Dims RunTimeSizes(const Literal& literal) {
  Dims sizes;
  for (int64_t d = 0; d < literal.shape().rank(); ++d) sizes.push_back(literal.dynamic_size(d));
  return sizes;
}

Result<Literal> EvaluateReduceWindow(EvalContext& context, const Instruction& instruction,
                                     std::span<Literal> operands) {
  const auto& attrs = instruction.attrs<ReduceWindowAttrs>();
  size_t n = operands.size() / 2;
  const Literal& array = operands[0];
  for (const Literal& other : operands.first(n)) {
    if (Shape::SameDims(other.shape(), array.shape())) continue;
    return InvalidArgument(
        "reduce-window: operands of different dimensions: ", array.shape().ToStringWithoutLayout(),
        " and ", other.shape().ToStringWithoutLayout());
  }
  Dims sizes = RunTimeSizes(array);
  bool tuple = instruction.shape().IsTuple();
  std::vector<Literal> out;
  for (size_t k = 0; k < n; ++k) {
    const Shape& declared =
        tuple ? instruction.shape().tuple_element(static_cast<int64_t>(k)) : instruction.shape();
    Shape shape =
        TRY(WindowedShape(instruction.op(), array.shape(), attrs.window, declared.dtype()));
    out.push_back(TRY(NewArray(context, instruction, std::move(shape))));
  }
  TRY(ReduceWindows(context, *attrs.to_apply, attrs.window, operands.first(n), operands.subspan(n),
                    sizes, out));
  for (Literal& result : out) {
    for (size_t d = 0; d < sizes.size() && array.HasDynamicSizes(); ++d) {
      result.set_dynamic_size(static_cast<int64_t>(d),
                              TRY(WindowedSize(instruction.op(), sizes[d], attrs.window.dims[d])));
    }
  }
  if (!tuple) return std::move(out[0]);
  return Literal::Tuple(std::move(out));
}

// The place of the element that the select function keeps of those that a window covers; -1 when it
// covers none.
Result<int64_t> SelectedPlace(ElementFunction& select, const Literal& operand, const Window& window,
                              std::span<const int64_t> sizes, std::span<const int64_t> strides,
                              std::span<const int64_t> placement) {
  DType type = operand.dtype();
  int64_t width = ByteWidth(type), selected = -1;
  std::byte keep{0};
  ScalarFunction::In in[2] = {{type, nullptr}, {type, nullptr}};
  ScalarFunction::Out out[] = {{DType::kPred, &keep}};
  Status status;
  ForEachInWindow(window.dims, sizes, strides, placement, [&](int64_t place) {
    if (!status) return;
    in[1].data = operand.data() + place * width;
    if (selected >= 0) {
      in[0].data = operand.data() + selected * width;
      status = select.Call(in, out);
      if (keep != std::byte{0}) return;
    }
    selected = place;
  });
  TRY(std::move(status));
  return selected;
}

// The comparison that a select function of two parameters is, as max pooling has it.
std::optional<Direction> SelectDirection(const Computation& select) {
  const Instruction* root = select.root();
  if (root == nullptr || root->op() != Op::kCompare || select.parameters().size() != 2 ||
      root->attrs<CompareAttrs>().total_order()) {
    return std::nullopt;
  }
  for (int64_t i = 0; i < 2; ++i) {
    const Instruction* operand = root->operand(i);
    if (!operand->IsParameter() || operand->parameter_number() != i) return std::nullopt;
  }
  Direction direction = root->attrs<CompareAttrs>().direction;
  return direction == Direction::kEq || direction == Direction::kNe ? std::nullopt
                                                                    : std::optional(direction);
}

// select-and-scatter of floats that are compared and added.
template <class T, class Keep>
void SelectAndAdd(const Literal& operand, const Literal& source, const Window& window,
                  std::span<const int64_t> sizes, std::span<const int64_t> strides,
                  const Keep& keep, Literal& out) {
  const T* values = operand.values<T>().data();
  const T* updates = source.values<T>().data();
  T* to = out.values<T>().data();
  Dims placement(sizes.size(), 0);
  for (int64_t i = 0; i < source.size(); ++i) {
    int64_t selected = -1;
    ForEachInWindow(window.dims, sizes, strides, placement, [&](int64_t place) {
      if (selected < 0 || !keep(values[selected], values[place])) selected = place;
    });
    if (selected >= 0) to[selected] = updates[i] + to[selected];
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++placement[d] < source.shape().dim(static_cast<int64_t>(d))) break;
      placement[d] = 0;
    }
  }
}

template <class T>
void SelectAndAdd(Direction direction, const Literal& operand, const Literal& source,
                  const Window& window, std::span<const int64_t> sizes,
                  std::span<const int64_t> strides, Literal& out) {
  auto run = [&](const auto& keep) {
    SelectAndAdd<T>(operand, source, window, sizes, strides, keep, out);
  };
  switch (direction) {
    case Direction::kGe: return run([](T x, T y) { return x >= y; });
    case Direction::kGt: return run([](T x, T y) { return x > y; });
    case Direction::kLe: return run([](T x, T y) { return x <= y; });
    default: return run([](T x, T y) { return x < y; });
  }
}

bool TrySelectAndAdd(const ElementFunction& scatter, const SelectAndScatterAttrs& attrs,
                     const Literal& operand, const Literal& source, std::span<const int64_t> sizes,
                     std::span<const int64_t> strides, Literal& out) {
  DType type = out.dtype();
  std::optional<Direction> direction = SelectDirection(*attrs.select);
  if (!direction || operand.dtype() != type || source.dtype() != type ||
      scatter.compiled() == nullptr || scatter.compiled()->commutative_op() != Op::kAdd ||
      scatter.compiled()->parameter_type(0) != type ||
      attrs.select->parameter(0)->shape().dtype() != type) {
    return false;
  }
  if (type == DType::kF32) {
    SelectAndAdd<float>(*direction, operand, source, attrs.window, sizes, strides, out);
  } else if (type == DType::kF64) {
    SelectAndAdd<double>(*direction, operand, source, attrs.window, sizes, strides, out);
  } else {
    return false;
  }
  return true;
}

Result<Literal> EvaluateSelectAndScatter(EvalContext& context, const Instruction& instruction,
                                         std::span<Literal> operands) {
  const auto& attrs = instruction.attrs<SelectAndScatterAttrs>();
  const Literal &operand = operands[0], &source = operands[1], &init = operands[2];
  Literal out = TRY(
      NewArray(context, instruction, TRY(RunTimeShape(instruction, instruction.shape(), operand))));
  Shape expected =
      TRY(WindowedShape(instruction.op(), operand.shape(), attrs.window, source.dtype()));
  if (!Shape::SameDims(expected, source.shape())) {
    return InvalidArgument("select-and-scatter: source ", source.shape().ToStringWithoutLayout(),
                           " must have the shape of the windows, ",
                           expected.ToStringWithoutLayout());
  }
  DType type = out.dtype();
  std::byte* data = out.mutable_data();
  int64_t width = ByteWidth(type);
  for (int64_t i = 0; i < out.size(); ++i) {
    ConvertElements(init.dtype(), init.data(), type, data + i * width, 1);
  }
  Dims sizes = RunTimeSizes(operand);
  Dims strides(sizes.size(), 1), placement(sizes.size(), 0);
  for (size_t d = sizes.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * operand.shape().dim(static_cast<int64_t>(d));
  }
  ElementFunction select(context, *attrs.select), scatter(context, *attrs.scatter);
  if (TrySelectAndAdd(scatter, attrs, operand, source, sizes, strides, out)) {
    CopyDynamicSizes(operands.first(1), out);
    return out;
  }
  for (int64_t i = 0; i < source.size(); ++i) {
    int64_t place = TRY(SelectedPlace(select, operand, attrs.window, sizes, strides, placement));
    if (place >= 0) {
      std::byte* at = data + place * width;
      ScalarFunction::In in[] = {{type, at},
                                 {source.dtype(), source.data() + i * ByteWidth(source.dtype())}};
      ScalarFunction::Out to[] = {{type, at}};
      TRY(scatter.Call(in, to));
    }
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++placement[d] < source.shape().dim(static_cast<int64_t>(d))) break;
      placement[d] = 0;
    }
  }
  CopyDynamicSizes(operands.first(1), out);
  return out;
}

}  // namespace

template <>
OpRow Define<Op::kReduceWindow>() {
  return {.doc =
              "Reduces each placement of a window over an array, padded with the initial value, to "
              "one element. Several arrays can be reduced together, as tuples.",
          .infer = InferReduceWindow,
          .evaluate = EvaluateReduceWindow,
          .dim_rule = RuleReduceWindow};
}

template <>
OpRow Define<Op::kSelectAndScatter>() {
  return {.doc =
              "For each placement of a window, selects one element of the operand and combines the "
              "source element of that placement into the result at its place; the rest is the "
              "initial value. The gradient of max pooling.",
          .infer = InferSelectAndScatter,
          .evaluate = EvaluateSelectAndScatter,
          .dim_rule = RuleSelectAndScatter};
}

}  // namespace weft::hlo
