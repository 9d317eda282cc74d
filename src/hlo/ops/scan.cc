#include <cstring>
#include <optional>

#include "base/elements.h"
#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/scalar_function.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"
#include "hlo/ops/elementwise.h"

namespace weft::hlo {
namespace {

std::span<const Shape> ElementsOrSelf(const Shape& shape) {
  if (shape.IsTuple()) return shape.elements_of_tuple();
  return {&shape, 1};
}

Result<int64_t> ScanLength(const InferArgs& args, int64_t dim, int64_t inputs, int64_t outputs) {
  const Shape* shape = nullptr;
  if (inputs > 0) {
    shape = &args.operand(0);
  } else if (args.declared != nullptr && outputs > 0 && !ElementsOrSelf(*args.declared).empty()) {
    shape = &ElementsOrSelf(*args.declared)[0];
  }
  if (shape == nullptr || !shape->IsArray() || dim >= shape->rank()) {
    return InvalidArgument("scan: dimension ", dim, " of ",
                           shape == nullptr ? "nothing" : shape->ToStringWithoutLayout());
  }
  return shape->dim(dim);
}

Shape InsertDim(const Shape& shape, int64_t at, int64_t size) {
  Shape result = Shape::Scalar(shape.dtype());
  for (int64_t i = 0; i <= shape.rank(); ++i) {
    if (i == at) result.AppendDim(size, size == Shape::kUnbounded);
    if (i < shape.rank()) result.AppendDim(shape.dim(i), shape.is_dynamic(i));
  }
  return result;
}

// Outputs with the scanned dimension put in, then carries.
Result<std::vector<Shape>> ScanResults(const InferArgs& args, std::span<const Shape> roots,
                                       int64_t outputs, int64_t length) {
  int64_t dim = args.attrs.As<ScanAttrs>().dimensions[0];
  std::vector<Shape> shapes;
  for (int64_t i = 0; i < static_cast<int64_t>(roots.size()); ++i) {
    const Shape& root = roots[static_cast<size_t>(i)];
    if (i < outputs) {
      TRY(ExpectArray(args.op, "output", root));
      if (dim > root.rank() || root.rank() >= kMaxRank) {
        return InvalidArgument("scan: output ", root.ToStringWithoutLayout(), " has no dimension ",
                               dim);
      }
      shapes.push_back(InsertDim(root, dim, length));
    } else {
      shapes.push_back(root);
      shapes.back().ClearLayout();
    }
  }
  return shapes;
}

Result<Shape> InferScan(const InferArgs& args) {
  const auto& attrs = args.attrs.As<ScanAttrs>();
  if (attrs.dimensions.size() != 1 || attrs.dimensions[0] < 0) {
    return InvalidArgument("scan: takes one dimension, got {", StrJoin(attrs.dimensions, ","), "}");
  }
  TRY(ExpectComputation(args.op, "body", attrs.to_apply, args.size()));
  int64_t dim = attrs.dimensions[0];
  std::span<const Shape> roots = ElementsOrSelf(attrs.to_apply->root()->shape());
  int64_t results = static_cast<int64_t>(roots.size());
  int64_t carries = attrs.num_carries;
  if (carries < 0 || carries > args.size() || carries > results ||
      (carries == args.size() && carries == results)) {
    return InvalidArgument("scan: ", carries, " carries of ", args.size(), " operands and ",
                           results, " results");
  }
  int64_t inputs = args.size() - carries, outputs = results - carries;
  int64_t length = TRY(ScanLength(args, dim, inputs, outputs));
  for (int64_t i = 0; i < args.size(); ++i) {
    Shape expected = args.operand(i);
    if (i < inputs) {
      TRY(ExpectArray(args.op, "input", expected));
      if (dim >= expected.rank() || expected.dim(dim) != length) {
        return InvalidArgument("scan: input ", expected.ToStringWithoutLayout(), " must have size ",
                               length, " in dimension ", dim);
      }
      expected = WithType(expected, expected.dtype());
      expected.DeleteDim(dim);
    }
    const Shape& parameter = attrs.to_apply->parameter(i)->shape();
    if (!ShapesAgree(parameter, expected)) {
      return InvalidArgument("scan: parameter ", i, " of ", attrs.to_apply->name(), " is ",
                             parameter.ToStringWithoutLayout(), ", must be ",
                             expected.ToStringWithoutLayout());
    }
    if (i >= inputs && !ShapesAgree(parameter, roots[outputs + i - inputs])) {
      return InvalidArgument("scan: carry ", i - inputs, " of ", attrs.to_apply->name(), " is ",
                             parameter.ToStringWithoutLayout(), " but becomes ",
                             roots[outputs + i - inputs].ToStringWithoutLayout());
    }
  }
  std::vector<Shape> shapes = TRY(ScanResults(args, roots, outputs, length));
  bool tuple = args.declared != nullptr && args.declared->IsValid()
                   ? args.declared->IsTuple()
                   : attrs.to_apply->root()->shape().IsTuple();
  if (!tuple && shapes.size() == 1) return shapes[0];
  return Shape::Tuple(std::move(shapes));
}

// An array as [outer, length, inner] around the scanned dimension; slices are [outer, inner].
struct ScanAxis {
  int64_t outer = 1, length = 1, row_bytes = 1;  // row_bytes: of `inner` elements

  ScanAxis(const Shape& shape, int64_t dim) : length(shape.dim(dim)) {
    for (int64_t d = 0; d < dim; ++d) outer *= shape.dim(d);
    for (int64_t d = dim + 1; d < shape.rank(); ++d) row_bytes *= shape.dim(d);
    row_bytes *= ByteWidth(shape.dtype());
  }
  void Read(const std::byte* array, int64_t t, std::byte* slice) const {
    for (int64_t o = 0; o < outer && row_bytes > 0; ++o) {
      std::memcpy(slice + o * row_bytes, array + (o * length + t) * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  }
  void Write(const std::byte* slice, int64_t t, std::byte* array) const {
    for (int64_t o = 0; o < outer && row_bytes > 0; ++o) {
      std::memcpy(array + (o * length + t) * row_bytes, slice + o * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  }
};

Literal WithElementType(const Literal& value, DType dtype) {
  if (value.dtype() == dtype || !value.shape().IsArray()) return value;
  Literal result = Literal::Uninitialized(WithType(value.shape(), dtype));
  ConvertElements(value.dtype(), value.data(), dtype, result.mutable_data(), value.size());
  return result;
}

// One evaluation of a scan: the state between steps.
class ScanRun {
 public:
  ScanRun(EvalContext& context, const Instruction& instruction, std::span<Literal> operands)
      : context_(context),
        attrs_(instruction.attrs<ScanAttrs>()),
        body_(*attrs_.to_apply),
        operands_(operands),
        inputs_(operands.size() - static_cast<size_t>(attrs_.num_carries)) {}

  Result<std::vector<Literal>> Run(const Instruction& instruction) {
    int64_t dim = attrs_.dimensions[0];
    std::span<const Shape> shapes = ElementsOrSelf(instruction.shape());
    size_t outputs = shapes.size() - (operands_.size() - inputs_);
    int64_t length = inputs_ > 0 ? operands_[0].shape().dim(dim) : shapes[0].dim(dim);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Shape& shape = body_.parameter(static_cast<int64_t>(i))->shape();
      if (i >= inputs_) {
        arguments_.push_back(WithElementType(operands_[i], shape.dtype()));
      } else {
        axes_.emplace_back(operands_[i].shape(), dim);
        Shape slice = operands_[i].shape();
        slice.ClearLayout();
        slice.DeleteDim(dim);
        arguments_.push_back(Literal::Uninitialized(std::move(slice)));
      }
    }
    std::vector<Literal> results;
    for (size_t i = 0; i < outputs; ++i) {
      Shape shape = shapes[i];
      shape.set_dim(dim, length);
      results.push_back(TRY(NewArray(context_, instruction, std::move(shape))));
    }
    Result<ScalarFunction> compiled =
        arguments_[0].shape().IsArray()
            ? ScalarFunction::Compile(body_, arguments_[0].shape().dims())
            : Result<ScalarFunction>(Unimplemented("scan: not arrays"));
    for (int64_t step = 0; step < length; ++step) {
      int64_t t = attrs_.is_reverse ? length - 1 - step : step;
      for (size_t i = 0; i < inputs_; ++i) {
        axes_[i].Read(operands_[i].data(), t, arguments_[i].mutable_data());
      }
      std::vector<Literal> pieces = compiled ? RunCompiled(*compiled) : TRY(RunBody());
      for (size_t i = 0; i < outputs; ++i) {
        Literal piece = WithElementType(pieces[i], results[i].dtype());
        ScanAxis(results[i].shape(), dim).Write(piece.data(), t, results[i].mutable_data());
      }
      for (size_t i = outputs; i < pieces.size(); ++i) {
        Literal& carry = arguments_[inputs_ + i - outputs];
        carry = WithElementType(pieces[i], carry.dtype());
      }
    }
    for (size_t i = outputs; i < shapes.size(); ++i) {
      results.push_back(WithElementType(arguments_[inputs_ + i - outputs], shapes[i].dtype()));
    }
    return results;
  }

 private:
  std::vector<Literal> RunCompiled(const ScalarFunction& f) {
    if (!frame_) frame_.emplace(f, arguments_[0].size());
    std::vector<ScalarFunction::In> in;
    std::vector<ScalarFunction::Out> out;
    for (const Literal& a : arguments_) in.push_back({a.dtype(), a.data()});
    std::vector<Literal> pieces;
    for (int64_t i = 0; i < f.result_count(); ++i) {
      pieces.push_back(Literal::Uninitialized(WithType(arguments_[0].shape(), f.result_type(i))));
      out.push_back({f.result_type(i), pieces.back().mutable_data()});
    }
    f.Run(*frame_, in, out, arguments_[0].size());
    return pieces;
  }

  Result<std::vector<Literal>> RunBody() {
    std::vector<Literal> arguments;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      DType type = body_.parameter(static_cast<int64_t>(i))->shape().dtype();
      arguments.push_back(WithElementType(arguments_[i], type));
    }
    Literal result = TRY(context_.Call(body_, arguments));
    if (result.shape().IsTuple()) return std::move(result).TakeTuple();
    std::vector<Literal> one;
    one.push_back(std::move(result));
    return one;
  }

  EvalContext& context_;
  const ScanAttrs& attrs_;
  const Computation& body_;
  std::span<Literal> operands_;
  size_t inputs_;
  std::vector<ScanAxis> axes_;      // of the inputs
  std::vector<Literal> arguments_;  // slices of the inputs, then the carries
  std::optional<ScalarFunction::Frame> frame_;
};

Result<Literal> EvaluateScan(EvalContext& context, const Instruction& instruction,
                             std::span<Literal> operands) {
  const auto& attrs = instruction.attrs<ScanAttrs>();
  size_t inputs = operands.size() - static_cast<size_t>(attrs.num_carries);
  int64_t dim = attrs.dimensions[0];
  for (const Literal& input : operands.first(inputs)) {
    if (input.shape().dim(dim) != operands[0].shape().dim(dim)) {
      return InvalidArgument("scan: inputs of different lengths");
    }
  }
  std::vector<Literal> results = TRY(ScanRun(context, instruction, operands).Run(instruction));
  if (!instruction.shape().IsTuple()) return std::move(results[0]);
  return Literal::Tuple(std::move(results));
}

}  // namespace

template <>
OpRow Define<Op::kScan>() {
  return {.doc =
              "Walks along one dimension of its inputs with carried values: the body takes the "
              "slices of the inputs and the carries and returns slices of the outputs and the next "
              "carries. Gives the outputs, then the last carries.",
          .infer = InferScan,
          .evaluate = EvaluateScan,
          .no_dim_rule = "the body computes on slices; its dimensions are those of the body"};
}

}  // namespace weft::hlo
