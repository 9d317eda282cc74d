#include <optional>

#include "hlo/attrs.h"
#include "hlo/evaluate/move.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

Result<Shape> InferBroadcast(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  TRY(ExpectDeclaredArray(args));
  const Shape& from = args.operand(0);
  const Shape& to = *args.declared;
  const Ints& dims = args.attrs.As<BroadcastAttrs>().dimensions;
  auto error = [&](const auto&... what) {
    return InvalidArgument("broadcast: ", what..., ": ", from.ToStringWithoutLayout(), " to ",
                           to.ToStringWithoutLayout(), " with dimensions=", DimList(dims));
  };
  if (!TypesAgree(from.dtype(), to.dtype())) return error("element types differ");
  if (static_cast<int64_t>(dims.size()) != from.rank()) {
    return error("dimensions must name one result dimension per operand dimension");
  }
  for (int64_t i = 0; i < from.rank(); ++i) {
    int64_t d = dims[static_cast<size_t>(i)];
    if (d < 0 || d >= to.rank()) return error("there is no result dimension ", d);
    if (from.dim(i) != to.dim(d)) {
      return error("operand dimension ", i, " and result dimension ", d, " differ in size");
    }
  }
  return WithoutLayout(to);
}

Result<Shape> InferIota(const InferArgs& args) {
  TRY(ExpectDeclaredArray(args));
  const Shape& shape = *args.declared;
  int64_t dim = args.attrs.As<IotaAttrs>().iota_dimension;
  if (dim < 0 || dim >= shape.rank()) {
    return InvalidArgument("iota: iota_dimension=", dim, " is not a dimension of ",
                           shape.ToStringWithoutLayout());
  }
  if (shape.dtype() == DType::kPred) {
    return InvalidArgument("iota: elements must be numbers, got ", shape.ToStringWithoutLayout());
  }
  return WithoutLayout(shape);
}

Result<Shape> InferReshape(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  TRY(ExpectDeclaredArray(args));
  const Shape& from = args.operand(0);
  const Shape& to = *args.declared;
  if (from.dtype() != to.dtype()) {
    return InvalidArgument("reshape: element types differ: ", from.ToStringWithoutLayout(), " to ",
                           to.ToStringWithoutLayout());
  }
  if (from.HasUnboundedDims() || to.HasUnboundedDims()) return WithoutLayout(to);
  if (!from.CheckedElements() || from.CheckedElements() != to.CheckedElements()) {
    return InvalidArgument("reshape: numbers of elements differ: ", from.ToStringWithoutLayout(),
                           " to ", to.ToStringWithoutLayout());
  }
  return WithoutLayout(to);
}

Result<Shape> InferTranspose(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  const Shape& from = args.operand(0);
  const Ints& dims = args.attrs.As<DimensionsAttrs>().dimensions;
  TRY(CheckDimList(args.op, "dimensions", dims, from.rank()));
  if (static_cast<int64_t>(dims.size()) != from.rank()) {
    return InvalidArgument("transpose: dimensions=", DimList(dims),
                           " is not a permutation of the dimensions of ",
                           from.ToStringWithoutLayout());
  }
  Shape to = Shape::Scalar(from.dtype());
  for (int64_t d : dims) to.AppendDim(from.dim(d), from.is_dynamic(d));
  return to;
}

Result<Shape> InferReverse(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  TRY(CheckDimList(args.op, "dimensions", args.attrs.As<DimensionsAttrs>().dimensions,
                   args.operand(0).rank()));
  return WithoutLayout(args.operand(0));
}

// Bits of the packed array; -1 when they cannot be told.
int64_t PackedBits(const Shape& shape) {
  int64_t bits = shape.dtype() == DType::kPred ? 8 : BitWidth(shape.dtype());
  std::optional<int64_t> n = shape.CheckedElements();
  int64_t total;
  if (!n || __builtin_mul_overflow(*n, bits, &total)) return -1;
  return total;
}

Result<Shape> InferBitcast(const InferArgs& args) {
  TRY(ExpectDeclaredShape(args));
  const Shape& from = args.operand(0);
  const Shape& to = *args.declared;
  auto padded = [](const Shape& s) { return s.layout() != nullptr && s.layout()->extras; };
  bool fine = Shape::Compatible(from, to);
  if (from.IsArray() && to.IsArray()) {
    fine = fine || PackedBits(from) == PackedBits(to) || from.ByteSize() == to.ByteSize() ||
           padded(from) || padded(to) || from.HasUnboundedDims() || to.HasUnboundedDims();
  } else if (from.IsBuffer() || to.IsBuffer()) {
    fine = true;
  }
  if (fine) return WithoutLayout(to);
  return InvalidArgument("bitcast: sizes differ: ", from.ToString(), " to ", to.ToString());
}

Result<Shape> InferCopy(const InferArgs& args) {
  return WithoutLayout(args.operand(0));
}

}  // namespace

template <>
OpRow Define<Op::kBroadcast>() {
  return {.doc =
              "Adds dimensions: operand dimension i becomes result dimension dimensions[i]; "
              "elements repeat along the others.",
          .infer = InferBroadcast,
          .evaluate = EvaluateBroadcast,
          .fold = FoldSameShapeIdentity,
          .dim_rule = RuleBroadcast};
}

template <>
OpRow Define<Op::kIota>() {
  return {.doc = "Counts 0, 1, 2 ... along iota_dimension, the same at all other indices.",
          .infer = InferIota,
          .evaluate = EvaluateIota,
          .dim_rule = RuleSource};
}

template <>
OpRow Define<Op::kReshape>() {
  return {.doc = "The same elements in row-major order under other dimensions.",
          .infer = InferReshape,
          .evaluate = EvaluateReshape,
          .fold = FoldReshape,
          .dim_rule = RuleReshape};
}

template <>
OpRow Define<Op::kTranspose>() {
  return {.doc = "Permutes dimensions: result dimension i is operand dimension dimensions[i].",
          .infer = InferTranspose,
          .evaluate = EvaluateTranspose,
          .fold = FoldTranspose,
          .dim_rule = RuleTranspose};
}

template <>
OpRow Define<Op::kReverse>() {
  return {.doc = "Turns the order of elements around along the dimensions named.",
          .infer = InferReverse,
          .evaluate = EvaluateReverse,
          .fold = FoldReverse,
          .dim_rule = RuleReverse};
}

template <>
OpRow Define<Op::kBitcast>() {
  return {.doc =
              "The same bytes in memory under another shape and layout: operand elements in the "
              "order of its layout are result elements in the order of the result's layout.",
          .infer = InferBitcast,
          .evaluate = EvaluateBitcast,
          .no_dim_rule =
              "what goes together depends on layouts; normalize-layouts says it in other ops"};
}

template <>
OpRow Define<Op::kCopy>() {
  return {.doc = "The same value in a buffer of its own, perhaps with another layout.",
          .infer = InferCopy,
          .evaluate = EvaluateCopy,
          .dim_rule = RuleElementwise};
}

}  // namespace weft::hlo
