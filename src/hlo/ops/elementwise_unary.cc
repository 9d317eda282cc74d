#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"
#include "hlo/ops/elementwise.h"

namespace weft::hlo {
namespace {

// abs, real, imag: complex numbers give real ones.
template <unsigned set>
Result<Shape> InferPartType(const InferArgs& args) {
  Shape shape = TRY(InferSameShape(args, set));
  shape.set_dtype(RealType(shape.dtype()));
  return shape;
}

Result<Shape> InferPredType(const InferArgs& args) {
  Shape shape = TRY(InferSameShape(args, kTakesFloat));
  shape.set_dtype(DType::kPred);
  return shape;
}

// f(f(x)) is x.
template <Op op>
Instruction* FoldInvolution(Instruction& instruction) {
  Instruction* operand = instruction.operand(0);
  if (instruction.shape().dtype() == DType::kF8E8M0FNU) return nullptr;  // has no sign
  return operand->op() == op ? operand->operand(0) : nullptr;
}

// f(f(x)) is f(x).
template <Op op>
Instruction* FoldIdempotent(Instruction& instruction) {
  Instruction* operand = instruction.operand(0);
  return operand->op() == op ? operand : nullptr;
}

// Parts of what complex() put together.
template <int64_t part>
Instruction* FoldPart(Instruction& instruction) {
  Instruction* operand = instruction.operand(0);
  if (operand->op() == Op::kComplex) return operand->operand(part);
  if (part == 0 && !IsComplex(operand->shape().dtype())) return operand;
  return nullptr;
}

}  // namespace

template <>
OpRow Define<Op::kAbs>() {
  return {.doc =
              "Absolute value; of complex numbers the magnitude, as a real number. The smallest "
              "integer stays itself.",
          .infer = InferPartType < kTakesSigned | kTakesFloat | kTakesComplex >
          , .evaluate = EvaluateElementwise, .fold = FoldToSameShape<FoldIdempotent<Op::kAbs>>};
}

template <>
OpRow Define<Op::kAcos>() {
  return {.doc = "Arc cosine, in [0, pi].",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kAcosh>() {
  return {.doc = "Inverse hyperbolic cosine; NaN below 1.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kAsin>() {
  return {.doc = "Arc sine, in [-pi/2, pi/2].",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kAsinh>() {
  return {.doc = "Inverse hyperbolic sine.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kAtanh>() {
  return {.doc = "Inverse hyperbolic tangent; NaN beyond [-1, 1].",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kCbrt>() {
  return {.doc = "Cube root, of negative numbers too.",
          .infer = InferSame<kTakesFloat>,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kCeil>() {
  return {.doc = "The next integer at or above.",
          .infer = InferSame<kTakesFloat>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldIdempotent<Op::kCeil>>};
}

template <>
OpRow Define<Op::kCountLeadingZeros>() {
  return {.doc = "Zero bits above the highest one bit; the width for 0.",
          .infer = InferSame<kTakesIntegers>,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kCosine>() {
  return {.doc = "Cosine of radians.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kCosh>() {
  return {.doc = "Hyperbolic cosine.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kErf>() {
  return {
      .doc = "Error function.", .infer = InferSame<kTakesFloat>, .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kExponential>() {
  return {.doc = "e to the power of the operand.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kExpm1>() {
  return {.doc = "exp(x) - 1 without cancellation near 0.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kFloor>() {
  return {.doc = "The next integer at or below.",
          .infer = InferSame<kTakesFloat>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldIdempotent<Op::kFloor>>};
}

template <>
OpRow Define<Op::kImag>() {
  return {.doc = "Imaginary part; 0 for real operands.",
          .infer = InferPartType < kTakesFloat | kTakesComplex >
          , .evaluate = EvaluateElementwise, .fold = FoldToSameShape<FoldPart<1>>};
}

template <>
OpRow Define<Op::kIsFinite>() {
  return {.doc = "True where the operand is neither infinite nor NaN.",
          .infer = InferPredType,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kLog>() {
  return {.doc = "Natural logarithm; NaN below 0, -inf at 0.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kLog1p>() {
  return {.doc = "log(1 + x) without cancellation near 0.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kLogistic>() {
  return {.doc = "1 / (1 + exp(-x)).",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kNegate>() {
  return {.doc = "The operand with its sign changed; integers wrap.",
          .infer = InferSame<kTakesNumbers>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldInvolution<Op::kNegate>>};
}

template <>
OpRow Define<Op::kNot>() {
  return {.doc = "Logical not of pred, bitwise not of integers.",
          .infer = InferSame < kTakesPred | kTakesIntegers >
          , .evaluate = EvaluateElementwise, .fold = FoldToSameShape<FoldInvolution<Op::kNot>>};
}

template <>
OpRow Define<Op::kPopulationCount>() {
  return {.doc = "Number of one bits.",
          .infer = InferSame<kTakesIntegers>,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kReal>() {
  return {.doc = "Real part; the operand itself when it is real.",
          .infer = InferPartType < kTakesFloat | kTakesComplex >
          , .evaluate = EvaluateElementwise, .fold = FoldToSameShape<FoldPart<0>>};
}

template <>
OpRow Define<Op::kRoundNearestAfz>() {
  return {.doc = "The nearest integer, halves away from zero.",
          .infer = InferSame<kTakesFloat>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldIdempotent<Op::kRoundNearestAfz>>};
}

template <>
OpRow Define<Op::kRoundNearestEven>() {
  return {.doc = "The nearest integer, halves to the even one.",
          .infer = InferSame<kTakesFloat>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldIdempotent<Op::kRoundNearestEven>>};
}

template <>
OpRow Define<Op::kRsqrt>() {
  return {.doc = "1 / sqrt(x).",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kSign>() {
  return {.doc = "-1, 0 or 1; signed zeros and NaN stay; of complex numbers x / |x|.",
          .infer = InferSame < kTakesSigned | kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kSine>() {
  return {.doc = "Sine of radians.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kSinh>() {
  return {.doc = "Hyperbolic sine.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kSqrt>() {
  return {.doc = "Square root; NaN below 0.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kTan>() {
  return {.doc = "Tangent of radians.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kTanh>() {
  return {.doc = "Hyperbolic tangent.",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

}  // namespace weft::hlo
