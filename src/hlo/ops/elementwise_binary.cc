#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"
#include "hlo/ops/elementwise.h"

namespace weft::hlo {
namespace {

Result<Shape> InferCompare(const InferArgs& args) {
  Shape shape = TRY(InferSameShape(args, kTakesAll));
  shape.set_dtype(DType::kPred);
  return shape;
}

// A written comparison type must be one that the operands have.
Status CheckCompare(const Instruction& instruction) {
  const CompareAttrs& attrs = instruction.attrs<CompareAttrs>();
  DType dtype = instruction.operand(1)->shape().dtype();
  ComparisonType type = attrs.type;
  if (type == ComparisonType::kUnset) return {};
  bool fits = IsSigned(dtype)                              ? type == ComparisonType::kSigned
              : IsUnsigned(dtype) || dtype == DType::kPred ? type == ComparisonType::kUnsigned
              : IsComplex(dtype)
                  ? type == ComparisonType::kFloat
                  : type == ComparisonType::kFloat || type == ComparisonType::kTotalOrder;
  if (fits) return {};
  return InvalidArgument("compare: type=", Name(type), " does not fit operands ",
                         instruction.operand(1)->shape().ToStringWithoutLayout());
}

Result<Shape> InferComplex(const InferArgs& args) {
  Shape shape = TRY(InferSameShape(args, kTakesFloat));
  DType dtype = ComplexType(args.operand(0).dtype());
  if (dtype == DType::kInvalid || args.operand(0).dtype() != args.operand(1).dtype()) {
    return InvalidArgument("complex: parts must both be f32 or both f64, got ",
                           args.operand(0).ToStringWithoutLayout(), " and ",
                           args.operand(1).ToStringWithoutLayout());
  }
  shape.set_dtype(dtype);
  return shape;
}

Result<Shape> InferSelect(const InferArgs& args) {
  const Shape &pred = args.operand(0), &on_true = args.operand(1), &on_false = args.operand(2);
  for (const Shape* shape : args.operands) TRY(ExpectArray(args.op, "operand", *shape));
  if (pred.dtype() != DType::kPred) {
    return InvalidArgument("select: first operand must be pred, got ",
                           pred.ToStringWithoutLayout());
  }
  if (!ShapesAgree(on_true, on_false) || (!pred.IsScalar() && !DimsAgree(pred, on_true)) ||
      (!pred.IsScalar() && !DimsAgree(pred, on_false))) {
    return InvalidArgument("select: operand shapes differ: ", pred.ToStringWithoutLayout(), ", ",
                           on_true.ToStringWithoutLayout(), " and ",
                           on_false.ToStringWithoutLayout());
  }
  Shape result = MergeDims(on_true, on_false);
  if (!pred.IsScalar()) result = MergeDims(result, pred);
  result.set_dtype(MorePrecise(on_true.dtype(), on_false.dtype()));
  return result;
}

Result<Shape> InferClamp(const InferArgs& args) {
  const Shape& operand = args.operand(1);
  for (const Shape* shape : args.operands) {
    TRY(ExpectArray(args.op, "operand", *shape));
    if (!SameTypeUpToPrecision(shape->dtype(), operand.dtype())) {
      return InvalidArgument(
          "clamp: operands of different element types: ", operand.ToStringWithoutLayout(), " and ",
          shape->ToStringWithoutLayout());
    }
    if (!shape->IsScalar() && !DimsAgree(*shape, operand)) {
      return InvalidArgument("clamp: bound ", shape->ToStringWithoutLayout(), " for an operand ",
                             operand.ToStringWithoutLayout());
    }
  }
  return WithType(operand, operand.dtype());
}

bool IsIntegral(const Instruction* i) {
  DType t = i->shape().dtype();
  return IsInteger(t) || t == DType::kPred;
}

Instruction* FoldSameOperands(Instruction& i) {
  return i.operand(0) == i.operand(1) ? i.operand(0) : nullptr;
}

// The operand that is left when the other one is the constant `value`.
Instruction* OtherThan(Instruction& i, double value, bool both_sides = true) {
  if (IsConstantOf(i.operand(1), value)) return i.operand(0);
  if (both_sides && IsConstantOf(i.operand(0), value)) return i.operand(1);
  return nullptr;
}

// x + 0 (integers: for floats -0 + 0 is 0), x - 0 (-0 - 0 is -0).
Instruction* FoldAdd(Instruction& i) {
  return IsIntegral(&i) ? OtherThan(i, 0) : nullptr;
}
Instruction* FoldSubtract(Instruction& i) {
  return IsIntegral(&i) ? OtherThan(i, 0, /*both_sides=*/false) : nullptr;
}
Instruction* FoldMultiply(Instruction& i) {
  if (IsComplex(i.shape().dtype())) return nullptr;
  if (Instruction* other = OtherThan(i, 1)) return other;
  if (!IsIntegral(&i)) return nullptr;
  for (Instruction* operand : i.operands()) {
    if (IsConstantOf(operand, 0)) return operand;
  }
  return nullptr;
}
Instruction* FoldDivide(Instruction& i) {
  return IsComplex(i.shape().dtype()) ? nullptr : OtherThan(i, 1, /*both_sides=*/false);
}
Instruction* FoldShift(Instruction& i) {
  return OtherThan(i, 0, /*both_sides=*/false);
}

// All bits set: true, or -1.
double AllOnes(const Instruction& i) {
  return i.shape().dtype() == DType::kPred ? 1 : -1;
}
Instruction* FoldAnd(Instruction& i) {
  if (Instruction* same = FoldSameOperands(i)) return same;
  if (!IsUnsigned(i.shape().dtype())) {
    if (Instruction* other = OtherThan(i, AllOnes(i))) return other;
  }
  for (Instruction* operand : i.operands()) {
    if (IsConstantOf(operand, 0)) return operand;
  }
  return nullptr;
}
Instruction* FoldOr(Instruction& i) {
  if (Instruction* same = FoldSameOperands(i)) return same;
  if (Instruction* other = OtherThan(i, 0)) return other;
  if (IsUnsigned(i.shape().dtype())) return nullptr;
  for (Instruction* operand : i.operands()) {
    if (IsConstantOf(operand, AllOnes(i))) return operand;
  }
  return nullptr;
}
Instruction* FoldXor(Instruction& i) {
  return OtherThan(i, 0);
}

// pred == true and pred != false are the pred.
Instruction* FoldCompare(Instruction& i) {
  if (i.operand(0)->shape().dtype() != DType::kPred) return nullptr;
  switch (i.attrs<CompareAttrs>().direction) {
    case Direction::kEq: return OtherThan(i, 1);
    case Direction::kNe: return OtherThan(i, 0);
    default: return nullptr;
  }
}

Instruction* FoldSelect(Instruction& i) {
  if (i.operand(1) == i.operand(2)) return i.operand(1);
  if (IsConstantOf(i.operand(0), 1)) return i.operand(1);
  if (IsConstantOf(i.operand(0), 0)) return i.operand(2);
  return nullptr;
}

}  // namespace

template <>
OpRow Define<Op::kAdd>() {
  return {.doc = "Sum. Integers wrap; of pred, or.",
          .infer = InferSame<kTakesAll>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldAdd>};
}

template <>
OpRow Define<Op::kAnd>() {
  return {.doc = "Bitwise and; of pred, logical and.",
          .infer = InferSame < kTakesPred | kTakesIntegers >
          , .evaluate = EvaluateElementwise, .fold = FoldToSameShape<FoldAnd>};
}

template <>
OpRow Define<Op::kAtan2>() {
  return {.doc = "Angle of the point (second, first), in [-pi, pi].",
          .infer = InferSame < kTakesFloat | kTakesComplex >,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kDivide>() {
  return {
      .doc =
          "Quotient; integers round toward zero, x / 0 has all bits set, INT_MIN / -1 is INT_MIN.",
      .infer = InferSame<kTakesNumbers>,
      .evaluate = EvaluateElementwise,
      .fold = FoldToSameShape<FoldDivide>};
}

template <>
OpRow Define<Op::kMaximum>() {
  return {.doc = "The larger one; NaN when either is NaN; 0 is larger than -0.",
          .infer = InferSame<kTakesAll>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldSameOperands>};
}

template <>
OpRow Define<Op::kMinimum>() {
  return {.doc = "The smaller one; NaN when either is NaN; -0 is smaller than 0.",
          .infer = InferSame<kTakesAll>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldSameOperands>};
}

template <>
OpRow Define<Op::kMulhi>() {
  return {.doc = "The high half of the product of twice the width.",
          .infer = InferSame<kTakesIntegers>,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kMultiply>() {
  return {.doc = "Product. Integers wrap; of pred, and.",
          .infer = InferSame<kTakesAll>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldMultiply>};
}

template <>
OpRow Define<Op::kOr>() {
  return {.doc = "Bitwise or; of pred, logical or.",
          .infer = InferSame < kTakesPred | kTakesIntegers >
          , .evaluate = EvaluateElementwise, .fold = FoldToSameShape<FoldOr>};
}

template <>
OpRow Define<Op::kPower>() {
  return {.doc =
              "First operand to the power of the second; integers wrap, negative integer exponents "
              "give 0 (1 for base 1).",
          .infer = InferSame<kTakesNumbers>,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kRemainder>() {
  return {.doc =
              "Remainder of the division rounded toward zero, with the sign of the first operand; "
              "x % 0 is x for integers.",
          .infer = InferSame<kTakesNumbers>,
          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kShiftLeft>() {
  return {.doc = "Shift by a number of bits; 0 when that is the width or more.",
          .infer = InferSame<kTakesIntegers>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldShift>};
}

template <>
OpRow Define<Op::kShiftRightArithmetic>() {
  return {.doc = "Shift right, copies of the sign bit coming in.",
          .infer = InferSame<kTakesIntegers>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldShift>};
}

template <>
OpRow Define<Op::kShiftRightLogical>() {
  return {.doc = "Shift right, zeros coming in.",
          .infer = InferSame<kTakesIntegers>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldShift>};
}

template <>
OpRow Define<Op::kSubtract>() {
  return {.doc = "Difference. Integers wrap.",
          .infer = InferSame<kTakesNumbers>,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldSubtract>};
}

template <>
OpRow Define<Op::kXor>() {
  return {.doc = "Bitwise exclusive or; of pred, not equal.",
          .infer = InferSame < kTakesPred | kTakesIntegers >
          , .evaluate = EvaluateElementwise, .fold = FoldToSameShape<FoldXor>};
}

template <>
OpRow Define<Op::kCompare>() {
  return {.doc =
              "True where the relation holds. NaN is unequal to all and not ordered, unless "
              "type=TOTALORDER: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN.",
          .infer = InferCompare,
          .check = CheckCompare,
          .evaluate = EvaluateElementwise,
          .fold = FoldToSameShape<FoldCompare>};
}

template <>
OpRow Define<Op::kComplex>() {
  return {.doc = "A complex number of a real and an imaginary part.",
          .infer = InferComplex,

          .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kSelect>() {
  return {
      .doc =
          "The second operand where the first is true, else the third. The first may be a scalar.",
      .infer = InferSelect,

      .evaluate = EvaluateElementwise,
      .fold = FoldToSameShape<FoldSelect>};
}

template <>
OpRow Define<Op::kClamp>() {
  return {.doc =
              "min(max(low, x), high) of operands low, x, high; bounds may be scalars; NaN when "
              "any is NaN.",
          .infer = InferClamp,

          .evaluate = EvaluateElementwise};
}

}  // namespace weft::hlo
