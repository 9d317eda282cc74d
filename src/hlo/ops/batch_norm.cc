#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"
#include "hlo/ops/elementwise.h"

namespace weft::hlo {
namespace {

// Operand 0 is the array; the operands from 1 on are vectors of one value per feature, but the one
// numbered `full`, which has the shape of the array.
Result<Shape> FeatureVector(const InferArgs& args, int64_t full) {
  const Shape& array = args.operand(0);
  int64_t feature = args.attrs.As<BatchNormAttrs>().feature_index;
  TRY(ExpectArray(args.op, "operand", array));
  TRY(ExpectType(args.op, kTakesFloat, array));
  if (feature < 0 || feature >= array.rank()) {
    return InvalidArgument(Mnemonic(args.op), ": feature_index=", feature,
                           " is not a dimension of ", array.ToStringWithoutLayout());
  }
  Shape vector(array.dtype(), {array.dim(feature)});
  vector.set_dynamic(0, array.is_dynamic(feature));
  for (int64_t i = 1; i < args.size(); ++i) {
    const Shape& expected = i == full ? array : vector;
    if (!args.operand(i).IsArray() || !ShapesAgree(args.operand(i), expected)) {
      return InvalidArgument(Mnemonic(args.op), ": operand ", i, " is ",
                             args.operand(i).ToStringWithoutLayout(), ", must be ",
                             expected.ToStringWithoutLayout());
    }
  }
  return vector;
}

Result<Shape> InferBatchNormInference(const InferArgs& args) {
  TRY(FeatureVector(args, -1));
  return WithType(args.operand(0), args.operand(0).dtype());
}

template <int64_t full>
Result<Shape> InferBatchNormTuple(const InferArgs& args) {
  Shape vector = TRY(FeatureVector(args, full));
  return Shape::Tuple({WithType(args.operand(0), args.operand(0).dtype()), vector, vector});
}

}  // namespace

template <>
OpRow Define<Op::kBatchNormTraining>() {
  return {
      .doc =
          "Normalises each feature to mean 0 and variance 1, then scales and shifts it. Operands: "
          "array, scale, offset. Gives the result and the mean and variance per feature.",
      .infer = InferBatchNormTuple<-1>};
}

template <>
OpRow Define<Op::kBatchNormInference>() {
  return {.doc =
              "Normalises each feature with a given mean and variance. Operands: array, scale, "
              "offset, mean, variance.",
          .infer = InferBatchNormInference};
}

template <>
OpRow Define<Op::kBatchNormGrad>() {
  return {.doc =
              "The gradients of batch-norm-training for array, scale and offset. Operands: array, "
              "scale, mean, variance, gradient of the result.",
          .infer = InferBatchNormTuple<4>};
}

}  // namespace weft::hlo
