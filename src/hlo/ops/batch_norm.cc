#include <cmath>
#include <vector>

#include "base/elements.h"
#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"
#include "hlo/ops/dim_rules.h"
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

// An array as [outer, features, inner], and sums over all but the features.
struct FeatureView {
  int64_t outer = 1, features, inner = 1;

  FeatureView(const Shape& shape, int64_t feature) : features(shape.dim(feature)) {
    for (int64_t d = 0; d < feature; ++d) outer *= shape.dim(d);
    for (int64_t d = feature + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  }
  int64_t count() const { return outer * inner; }
  // Calls fn(feature, element) for every element of the array.
  template <class Fn>
  void ForEach(const Fn& fn) const {
    int64_t i = 0;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t f = 0; f < features; ++f) {
        for (int64_t k = 0; k < inner; ++k) fn(static_cast<size_t>(f), static_cast<size_t>(i++));
      }
    }
  }
};

std::vector<double> Doubles(const Literal& literal) {
  std::vector<double> values(static_cast<size_t>(literal.size()));
  LoadF64(literal.dtype(), literal.data(), literal.size(), values.data());
  return values;
}

Result<Literal> FromDoubles(EvalContext& context, const Instruction& instruction,
                            const Shape& declared, const Literal& like,
                            std::span<const double> values) {
  Shape shape = TRY(RunTimeShape(instruction, declared, like));
  if (shape.CheckedElements() != static_cast<int64_t>(values.size())) {
    return InvalidArgument(Mnemonic(instruction.op()), ": result ", shape.ToStringWithoutLayout(),
                           " for ", values.size(), " elements");
  }
  Literal literal = TRY(NewArray(context, instruction, std::move(shape)));
  StoreF64(literal.dtype(), values.data(), literal.size(), literal.mutable_data());
  return literal;
}

// (array, per feature, per feature)
Result<Literal> BatchNormTuple(EvalContext& context, const Instruction& instruction,
                               std::span<const Literal> operands, std::span<const double> array,
                               std::span<const double> first, std::span<const double> second) {
  std::span<const double> parts[] = {array, first, second};
  std::vector<Literal> results;
  for (int64_t i = 0; i < 3; ++i) {
    results.push_back(TRY(FromDoubles(context, instruction, instruction.shape().tuple_element(i),
                                      operands[i == 0 ? 0 : 1], parts[i])));
  }
  return Literal::Tuple(std::move(results));
}

Result<FeatureView> CheckedView(const Instruction& instruction, std::span<const Literal> operands,
                                int64_t full) {
  FeatureView view(operands[0].shape(), instruction.attrs<BatchNormAttrs>().feature_index);
  for (size_t i = 1; i < operands.size(); ++i) {
    int64_t expected = static_cast<int64_t>(i) == full ? operands[0].size() : view.features;
    if (operands[i].size() == expected) continue;
    return InvalidArgument(Mnemonic(instruction.op()), ": operand ", i, " is ",
                           operands[i].shape().ToStringWithoutLayout(), " for an array ",
                           operands[0].shape().ToStringWithoutLayout());
  }
  return view;
}

std::vector<double> Normalize(const FeatureView& view, std::span<const double> x,
                              std::span<const double> scale, std::span<const double> offset,
                              std::span<const double> mean, std::span<const double> variance,
                              double epsilon) {
  std::vector<double> y(x.size());
  view.ForEach([&](size_t f, size_t i) {
    y[i] = scale[f] * ((x[i] - mean[f]) / std::sqrt(variance[f] + epsilon)) + offset[f];
  });
  return y;
}

Result<Literal> EvaluateBatchNormTraining(EvalContext& context, const Instruction& instruction,
                                          std::span<Literal> operands) {
  FeatureView view = TRY(CheckedView(instruction, operands, -1));
  std::vector<double> x = Doubles(operands[0]);
  size_t features = static_cast<size_t>(view.features);
  double count = static_cast<double>(view.count());
  std::vector<double> mean(features), variance(features);
  view.ForEach([&](size_t f, size_t i) { mean[f] += x[i]; });
  for (double& m : mean) m /= count;
  view.ForEach([&](size_t f, size_t i) { variance[f] += (x[i] - mean[f]) * (x[i] - mean[f]); });
  for (double& v : variance) v /= count;
  double epsilon = instruction.attrs<BatchNormAttrs>().epsilon;
  std::vector<double> y =
      Normalize(view, x, Doubles(operands[1]), Doubles(operands[2]), mean, variance, epsilon);
  return BatchNormTuple(context, instruction, operands, y, mean, variance);
}

Result<Literal> EvaluateBatchNormInference(EvalContext& context, const Instruction& instruction,
                                           std::span<Literal> operands) {
  FeatureView view = TRY(CheckedView(instruction, operands, -1));
  std::vector<double> y = Normalize(
      view, Doubles(operands[0]), Doubles(operands[1]), Doubles(operands[2]), Doubles(operands[3]),
      Doubles(operands[4]), instruction.attrs<BatchNormAttrs>().epsilon);
  return FromDoubles(context, instruction, instruction.shape(), operands[0], y);
}

Result<Literal> EvaluateBatchNormGrad(EvalContext& context, const Instruction& instruction,
                                      std::span<Literal> operands) {
  FeatureView view = TRY(CheckedView(instruction, operands, 4));
  std::vector<double> x = Doubles(operands[0]), scale = Doubles(operands[1]),
                      mean = Doubles(operands[2]), variance = Doubles(operands[3]),
                      dy = Doubles(operands[4]);
  double epsilon = instruction.attrs<BatchNormAttrs>().epsilon;
  double count = static_cast<double>(view.count());
  size_t features = static_cast<size_t>(view.features);
  std::vector<double> sum(features), product(features), dscale(features), dx(x.size());
  view.ForEach([&](size_t f, size_t i) {
    sum[f] += dy[i];
    product[f] += dy[i] * (x[i] - mean[f]);
  });
  for (size_t f = 0; f < features; ++f) dscale[f] = product[f] / std::sqrt(variance[f] + epsilon);
  view.ForEach([&](size_t f, size_t i) {
    double inverse = 1 / (variance[f] + epsilon);
    dx[i] = scale[f] * std::sqrt(inverse) *
            (dy[i] - sum[f] / count - (x[i] - mean[f]) * product[f] / count * inverse);
  });
  return BatchNormTuple(context, instruction, operands, dx, dscale, sum);
}

}  // namespace

template <>
OpRow Define<Op::kBatchNormTraining>() {
  return {
      .doc =
          "Normalises each feature to mean 0 and variance 1, then scales and shifts it. Operands: "
          "array, scale, offset. Gives the result and the mean and variance per feature.",
      .infer = InferBatchNormTuple<-1>,
      .evaluate = EvaluateBatchNormTraining,
      .dim_rule = RuleBatchNorm};
}

template <>
OpRow Define<Op::kBatchNormInference>() {
  return {.doc =
              "Normalises each feature with a given mean and variance. Operands: array, scale, "
              "offset, mean, variance.",
          .infer = InferBatchNormInference,
          .evaluate = EvaluateBatchNormInference,
          .dim_rule = RuleBatchNorm};
}

template <>
OpRow Define<Op::kBatchNormGrad>() {
  return {.doc =
              "The gradients of batch-norm-training for array, scale and offset. Operands: array, "
              "scale, mean, variance, gradient of the result.",
          .infer = InferBatchNormTuple<4>,
          .evaluate = EvaluateBatchNormGrad,
          .dim_rule = RuleBatchNorm};
}

}  // namespace weft::hlo
