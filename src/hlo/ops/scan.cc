#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"

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
  std::vector<Shape> shapes;
  for (int64_t i = 0; i < results; ++i) {
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
  bool tuple = args.declared != nullptr && args.declared->IsValid()
                   ? args.declared->IsTuple()
                   : attrs.to_apply->root()->shape().IsTuple();
  if (!tuple && shapes.size() == 1) return shapes[0];
  return Shape::Tuple(std::move(shapes));
}

}  // namespace

template <>
OpRow Define<Op::kScan>() {
  return {.doc =
              "Walks along one dimension of its inputs with carried values: the body takes the "
              "slices of the inputs and the carries and returns slices of the outputs and the next "
              "carries. Gives the outputs, then the last carries.",
          .infer = InferScan};
}

}  // namespace weft::hlo
