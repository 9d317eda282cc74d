// Operations on elements of the same index, constants and conversions.
#include "hlo/import/attr_values.h"
#include "hlo/import/to_hlo.h"

namespace weft::hlo::mlir {
namespace {

Result<ResultAccuracy> AccuracyOf(const Operation& op) {
  ResultAccuracy accuracy;
  const Attr* attr = op.Find("result_accuracy");
  if (attr == nullptr || attr->kind != Attr::Kind::kDict) return accuracy;
  const Attr* mode = attr->Find("mode");
  if (mode != nullptr && mode->kind == Attr::Kind::kDict) mode = mode->Find("mode");
  if (mode != nullptr && mode->text == "HIGHEST") accuracy.mode = ResultAccuracy::Mode::kHighest;
  if (mode != nullptr && mode->text == "TOLERANCE") {
    accuracy.mode = ResultAccuracy::Mode::kTolerance;
    if (const Attr* atol = attr->Find("atol")) accuracy.atol = atol->number;
    if (const Attr* rtol = attr->Find("rtol")) accuracy.rtol = rtol->number;
    if (const Attr* ulps = attr->Find("ulps")) accuracy.ulps = ulps->integer;
  }
  return accuracy;
}

template <Op kHloOp>
Status Math(Converter& c, const Operation& op) {
  ResultAccuracy accuracy = TRY(AccuracyOf(op));
  if (accuracy == ResultAccuracy()) return Plain<kHloOp>(c, op);
  return c.EmitAndBind(op, kHloOp, UnaryMathAttrs{.result_accuracy = accuracy});
}

Status ConvertCompare(Converter& c, const Operation& op) {
  CompareAttrs attrs;
  attrs.direction =
      TRY(EnumOf("comparison_direction", TextAttr(op, "comparison_direction"), Direction()));
  if (TextAttr(op, "compare_type") == "TOTALORDER") attrs.type = ComparisonType::kTotalOrder;
  return c.EmitAndBind(op, Op::kCompare, attrs);
}

// HLO wants the scalar operands of these written out.
Status BroadcastScalars(Converter& c, const Operation& op, Op hlo_op) {
  Shape shape = TRY(c.ResultShape(op));
  std::vector<Instruction*> operands = TRY(c.Operands(op));
  if (operands.size() != 3) return InvalidArgument("has ", operands.size(), " operands, not 3");
  for (Instruction*& operand : operands) {
    if (!operand->shape().IsScalar() || shape.rank() == 0) continue;
    Shape wide = shape;
    wide.set_dtype(operand->shape().dtype());
    operand = TRY(c.EmitBroadcast(operand, wide, {}));
  }
  return c.Bind(op, c.Emit(hlo_op, operands, NoAttrs{}, std::move(shape)));
}

Status ConvertClamp(Converter& c, const Operation& op) {
  return BroadcastScalars(c, op, Op::kClamp);
}

Status ConvertSelect(Converter& c, const Operation& op) {
  return BroadcastScalars(c, op, Op::kSelect);
}

Status ConvertReducePrecision(Converter& c, const Operation& op) {
  ReducePrecisionAttrs attrs;
  attrs.exponent_bits = TRY(RequiredInt(op, "exponent_bits"));
  attrs.mantissa_bits = TRY(RequiredInt(op, "mantissa_bits"));
  return c.EmitAndBind(op, Op::kReducePrecision, attrs);
}

// Larger splats are a scalar and a broadcast.
constexpr int64_t kMaxWrittenSplat = 16;

Status ConvertConstant(Converter& c, const Operation& op) {
  const Attr* value = op.Find("value");
  if (value == nullptr) return InvalidArgument("attribute value is missing");
  Shape shape = TRY(c.ResultShape(op));
  std::optional<int64_t> count = shape.IsArray() ? shape.CheckedElements() : std::nullopt;
  if (!count || !shape.IsStatic()) {
    return InvalidArgument("a constant cannot have type ", shape.ToStringWithoutLayout());
  }
  bool wide = value->splat && *count > kMaxWrittenSplat;
  Shape written = wide ? Shape::Scalar(shape.dtype()) : shape;
  Literal literal = TRY(LiteralOf(*value, written));
  Instruction* constant =
      c.Emit(Op::kConstant, {}, ConstantAttrs{.literal = std::move(literal)}, written);
  if (wide) constant = TRY(c.EmitBroadcast(constant, shape, {}));
  return c.Bind(op, constant);
}

Status ConvertIota(Converter& c, const Operation& op) {
  return c.EmitAndBind(op, Op::kIota,
                       IotaAttrs{.iota_dimension = TRY(RequiredInt(op, "iota_dimension"))});
}

// (x + iy)^2 = 2 (x - y) (x/2 + y/2) + 2ixy: a difference of squares would lose what they have in
// common, and x + y may overflow where x - y is zero.
Status SquareComplex(Converter& c, const Operation& op, Instruction* z, Shape shape) {
  Shape part = shape;
  part.set_dtype(shape.dtype() == DType::kC64 ? DType::kF32 : DType::kF64);
  auto emit = [&](Op hlo_op, std::initializer_list<Instruction*> operands) {
    return c.Emit(hlo_op, operands, NoAttrs{}, part);
  };
  Literal half(Shape::Scalar(part.dtype()));
  half.SetDouble(0, 0.5);
  Instruction* scalar =
      c.Emit(Op::kConstant, {}, ConstantAttrs{.literal = half}, Shape::Scalar(part.dtype()));
  Instruction* halves = part.rank() == 0 ? scalar : TRY(c.EmitBroadcast(scalar, part, {}));
  Instruction *x = emit(Op::kReal, {z}), *y = emit(Op::kImag, {z});
  Instruction* sum =
      emit(Op::kAdd, {emit(Op::kMultiply, {x, halves}), emit(Op::kMultiply, {y, halves})});
  Instruction* re = emit(Op::kMultiply, {emit(Op::kSubtract, {x, y}), sum});
  Instruction* im = emit(Op::kMultiply, {x, y});
  re = emit(Op::kAdd, {re, re});
  im = emit(Op::kAdd, {im, im});
  return c.Bind(op, c.Emit(Op::kComplex, {re, im}, NoAttrs{}, std::move(shape)));
}

Status ConvertSquare(Converter& c, const Operation& op) {
  Instruction* x = TRY(c.Operand(op, 0));
  Shape shape = TRY(c.ResultShape(op));
  if (IsComplex(shape.dtype())) return SquareComplex(c, op, x, std::move(shape));
  return c.Bind(op, c.Emit(Op::kMultiply, {x, x}, NoAttrs{}, std::move(shape)));
}

Status Quantised(Converter&, const Operation&) {
  return Unimplemented("quantised types are not supported");
}

constexpr HandlerRow kElementwiseRows[] = {
    {"abs", Plain<Op::kAbs>},
    {"add", Plain<Op::kAdd>},
    {"and", Plain<Op::kAnd>},
    {"atan2", Plain<Op::kAtan2>},
    {"cbrt", Math<Op::kCbrt>},
    {"ceil", Plain<Op::kCeil>},
    {"clamp", ConvertClamp},
    {"compare", ConvertCompare},
    {"complex", Plain<Op::kComplex>},
    {"constant", ConvertConstant},
    {"convert", Plain<Op::kConvert>},
    {"cosine", Math<Op::kCosine>},
    {"count_leading_zeros", Plain<Op::kCountLeadingZeros>},
    {"divide", Plain<Op::kDivide>},
    {"exponential", Math<Op::kExponential>},
    {"exponential_minus_one", Math<Op::kExpm1>},
    {"floor", Plain<Op::kFloor>},
    {"imag", Plain<Op::kImag>},
    {"iota", ConvertIota},
    {"is_finite", Plain<Op::kIsFinite>},
    {"log", Math<Op::kLog>},
    {"log_plus_one", Math<Op::kLog1p>},
    {"logistic", Math<Op::kLogistic>},
    {"maximum", Plain<Op::kMaximum>},
    {"minimum", Plain<Op::kMinimum>},
    {"multiply", Plain<Op::kMultiply>},
    {"negate", Plain<Op::kNegate>},
    {"not", Plain<Op::kNot>},
    {"or", Plain<Op::kOr>},
    {"popcnt", Plain<Op::kPopulationCount>},
    {"power", Plain<Op::kPower>},
    {"real", Plain<Op::kReal>},
    {"reduce_precision", ConvertReducePrecision},
    {"remainder", Plain<Op::kRemainder>},
    {"round_nearest_afz", Plain<Op::kRoundNearestAfz>},
    {"round_nearest_even", Plain<Op::kRoundNearestEven>},
    {"rsqrt", Math<Op::kRsqrt>},
    {"select", ConvertSelect},
    {"shift_left", Plain<Op::kShiftLeft>},
    {"shift_right_arithmetic", Plain<Op::kShiftRightArithmetic>},
    {"shift_right_logical", Plain<Op::kShiftRightLogical>},
    {"sign", Plain<Op::kSign>},
    {"sine", Math<Op::kSine>},
    {"sqrt", Math<Op::kSqrt>},
    {"subtract", Plain<Op::kSubtract>},
    {"tan", Math<Op::kTan>},
    {"tanh", Math<Op::kTanh>},
    {"uniform_dequantize", Quantised},
    {"uniform_quantize", Quantised},
    {"xor", Plain<Op::kXor>},
    // What CHLO text may contain and HLO has.
    {"chlo.acos", Math<Op::kAcos>},
    {"chlo.acosh", Math<Op::kAcosh>},
    {"chlo.asin", Math<Op::kAsin>},
    {"chlo.asinh", Math<Op::kAsinh>},
    {"chlo.atanh", Math<Op::kAtanh>},
    {"chlo.cosh", Math<Op::kCosh>},
    {"chlo.erf", Math<Op::kErf>},
    {"chlo.mulhi", Plain<Op::kMulhi>},
    {"chlo.sinh", Math<Op::kSinh>},
    {"chlo.square", ConvertSquare},
    {"chlo.tan", Math<Op::kTan>},
};

}  // namespace

std::span<const HandlerRow> ElementwiseHandlers() {
  return kElementwiseRows;
}

}  // namespace weft::hlo::mlir
