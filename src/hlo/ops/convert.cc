#include <algorithm>
#include <cmath>

#include "base/elements.h"
#include "base/thread_pool.h"
#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/lanes.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/array_rules.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/elementwise.h"

namespace weft::hlo {
namespace {

// The element type that an op with written shape converts to.
Result<DType> WrittenType(const InferArgs& args) {
  if (args.declared == nullptr || !args.declared->IsArray()) {
    return InvalidArgument(Mnemonic(args.op), ": the result must be an array type, operand is ",
                           args.operand(0).ToStringWithoutLayout());
  }
  return args.declared->dtype();
}

Result<Shape> InferConvert(const InferArgs& args) {
  TRY(ExpectArray(args.op, "operand", args.operand(0)));
  return WithType(args.operand(0), TRY(WrittenType(args)));
}

// Bits of an element where it stands among others: pred takes a byte.
int StoredBits(DType t) {
  return t == DType::kPred ? 8 : BitWidth(t);
}

Result<Shape> InferBitcastConvert(const InferArgs& args) {
  const Shape& operand = args.operand(0);
  TRY(ExpectArray(args.op, "operand", operand));
  DType to = TRY(WrittenType(args));
  int from_bits = StoredBits(operand.dtype()), to_bits = StoredBits(to);
  int ratio = std::max(from_bits, to_bits) / std::min(from_bits, to_bits);
  if (IsComplex(operand.dtype()) != IsComplex(to) ||
      ratio * std::min(from_bits, to_bits) != std::max(from_bits, to_bits)) {
    return InvalidArgument("bitcast-convert: no such conversion: ", operand.ToStringWithoutLayout(),
                           " to ", Name(to));
  }
  Shape result = WithType(operand, to);
  if (from_bits > to_bits) {
    if (operand.rank() >= kMaxRank) {
      return InvalidArgument("bitcast-convert: too many dimensions: ",
                             operand.ToStringWithoutLayout());
    }
    result.AppendDim(ratio);
  } else if (from_bits < to_bits) {
    int64_t last = operand.rank() - 1;
    if (last < 0 || operand.dim(last) != ratio) {
      return InvalidArgument("bitcast-convert: last dimension of ", operand.ToStringWithoutLayout(),
                             " must be ", ratio, " to make one ", Name(to));
    }
    result.DeleteDim(last);
  }
  return result;
}

Result<Shape> InferReducePrecision(const InferArgs& args) {
  const auto& attrs = args.attrs.As<ReducePrecisionAttrs>();
  if (attrs.exponent_bits < 1 || attrs.mantissa_bits < 0) {
    return InvalidArgument(
        "reduce-precision: needs exponent_bits >= 1 and mantissa_bits >= 0, got ",
        attrs.exponent_bits, " and ", attrs.mantissa_bits);
  }
  return InferSameShape(args, kTakesFloat);
}

Result<Shape> InferStochasticConvert(const InferArgs& args) {
  const Shape &operand = args.operand(0), &random = args.operand(1);
  for (const Shape* shape : args.operands) TRY(ExpectArray(args.op, "operand", *shape));
  TRY(ExpectType(args.op, kTakesFloat, operand));
  TRY(ExpectType(args.op, kTakesUnsigned, random));
  if (BitWidth(operand.dtype()) != BitWidth(random.dtype()) || !DimsAgree(operand, random)) {
    return InvalidArgument("stochastic-convert: random bits ", random.ToStringWithoutLayout(),
                           " must have the width and dimensions of the operand ",
                           operand.ToStringWithoutLayout());
  }
  return WithType(operand, TRY(WrittenType(args)));
}

Result<Literal> EvaluateConvert(EvalContext& context, const Instruction& instruction,
                                std::span<Literal> operands) {
  const Literal& operand = operands[0];
  Literal out = TRY(
      NewArray(context, instruction, TRY(RunTimeShape(instruction, instruction.shape(), operand))));
  std::byte* data = out.mutable_data();
  DefaultPool().ParallelFor(out.size(), 8 * kBlockLanes, [&](int64_t begin, int64_t end) {
    ConvertElements(operand.dtype(), operand.data() + begin * ByteWidth(operand.dtype()),
                    out.dtype(), data + begin * ByteWidth(out.dtype()), end - begin);
  });
  CopyDynamicSizes(operands, out);
  return out;
}

Result<Literal> EvaluateBitcastConvert(EvalContext& context, const Instruction& instruction,
                                       std::span<Literal> operands) {
  const Literal& operand = operands[0];
  Shape shape = TRY(RunTimeShape(instruction, instruction.shape(), operand));
  DType from = operand.dtype(), to = shape.dtype();
  if (shape.CheckedElements() == operand.size() && BitWidth(from) == BitWidth(to) &&
      !IsSubByte(from) && to != DType::kPred) {
    return operand.WithShape(std::move(shape));
  }
  if (shape.ByteSize() > context.options().max_tensor_bytes) {
    return ResourceExhausted("bitcast-convert: a result of shape ", shape.ToStringWithoutLayout(),
                             " is too large to evaluate");
  }
  return Literal::Unpack(std::move(shape), operand.Pack());
}

// x rounded away from zero when the random bits are less than its fraction; see the row.
int64_t StochasticInteger(double x, uint64_t random, int random_bits, DType to) {
  int bits = BitWidth(to);
  double top = std::ldexp(1.0, bits - 1);
  int64_t largest = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  if (std::isnan(x)) return 0;
  if (x >= top) return largest;
  if (x <= -top) return -largest - 1;
  double magnitude = std::fabs(x), whole = std::floor(magnitude);
  // At most 2^(bits-1), when x is in (-2^(bits-1), -largest).
  uint64_t result = static_cast<uint64_t>(whole);
  double fraction = std::ldexp(magnitude - whole, random_bits);
  if (static_cast<double>(random) < std::floor(fraction)) ++result;
  if (x > 0 && result > static_cast<uint64_t>(largest)) return largest;
  return static_cast<int64_t>(x < 0 ? uint64_t{0} - result : result);
}

Result<Literal> EvaluateStochasticConvert(EvalContext& context, const Instruction& instruction,
                                          std::span<Literal> operands) {
  const Literal &operand = operands[0], &random = operands[1];
  Literal out = TRY(
      NewArray(context, instruction, TRY(RunTimeShape(instruction, instruction.shape(), operand))));
  if (!IsSigned(out.dtype())) {
    return Unimplemented("stochastic-convert: from ", Name(operand.dtype()), " to ",
                         Name(out.dtype()), " is not implemented");
  }
  if (random.size() != operand.size() || out.size() != operand.size()) {
    return InvalidArgument("stochastic-convert: operands of different sizes");
  }
  int random_bits = BitWidth(random.dtype());
  for (int64_t i = 0; i < operand.size(); ++i) {
    uint64_t bits = static_cast<uint64_t>(random.GetInt(i));
    out.SetInt(i, StochasticInteger(operand.GetDouble(i), bits, random_bits, out.dtype()));
  }
  CopyDynamicSizes(operands, out);
  return out;
}

// Conversions to the same type are their operand.
Instruction* FoldConvert(Instruction& i) {
  return i.operand(0);
}

Instruction* FoldBitcastConvert(Instruction& i) {
  Instruction* operand = i.operand(0);
  if (operand->op() == Op::kBitcastConvert && HaveSameShape(i, *operand->operand(0))) {
    return operand->operand(0);
  }
  return operand;
}

}  // namespace

template <>
OpRow Define<Op::kConvert>() {
  return {.doc =
              "Each element in another type. Floats to integers truncate and saturate (NaN is 0), "
              "integers wrap, pred is != 0, complex to real drops the imaginary part.",
          .infer = InferConvert,
          .evaluate = EvaluateConvert,
          .fold = FoldToSameShape<FoldConvert>};
}

template <>
OpRow Define<Op::kBitcastConvert>() {
  return {
      .doc =
          "The bits of each element as another type. To a narrower type a last dimension of the "
          "parts is added, low part first; to a wider one it is taken away.",
      .infer = InferBitcastConvert,
      .evaluate = EvaluateBitcastConvert,
      .fold = FoldToSameShape<FoldBitcastConvert>,
      .dim_rule = RuleBitcastConvert};
}

template <>
OpRow Define<Op::kReducePrecision>() {
  return {
      .doc =
          "Rounds to a float of so many exponent and mantissa bits, kept in the operand's type. "
          "What is too large becomes infinite, what would be subnormal becomes 0.",
      .infer = InferReducePrecision,
      .evaluate = EvaluateElementwise};
}

template <>
OpRow Define<Op::kStochasticConvert>() {
  return {.doc =
              "Floats to signed integers, rounded away from zero with a probability of the "
              "fraction: when the random bits, read as a fraction, are less than it.",
          .infer = InferStochasticConvert,
          .evaluate = EvaluateStochasticConvert};
}

}  // namespace weft::hlo
