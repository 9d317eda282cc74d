#include "hlo/ops/elementwise.h"

#include <algorithm>
#include <optional>

#include "base/thread_pool.h"
#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/lanes.h"
#include "hlo/instruction.h"
#include "hlo/ops/array_rules.h"

namespace weft::hlo {

Status ExpectType(Op op, unsigned set, const Shape& shape) {
  unsigned bit = 0;
  switch (Class(shape.dtype())) {
    case DTypeClass::kPred: bit = kTakesPred; break;
    case DTypeClass::kSigned: bit = kTakesSigned; break;
    case DTypeClass::kUnsigned: bit = kTakesUnsigned; break;
    case DTypeClass::kFloat: bit = kTakesFloat; break;
    case DTypeClass::kComplex: bit = kTakesComplex; break;
    default: break;
  }
  if (set & bit) return {};
  std::string names;
  static constexpr std::string_view kNames[] = {"pred", "signed", "unsigned", "float", "complex"};
  for (int i = 0; i < 5; ++i) {
    if (set >> i & 1) StrAppend(names, names.empty() ? "" : ", ", kNames[i]);
  }
  return InvalidArgument(Mnemonic(op), ": element type must be one of ", names, "; got ",
                         shape.ToStringWithoutLayout());
}

Result<Shape> InferSameShape(const InferArgs& args, unsigned set) {
  Shape result;
  for (int64_t i = 0; i < args.size(); ++i) {
    const Shape& shape = args.operand(i);
    TRY(ExpectArray(args.op, "operand", shape));
    TRY(ExpectType(args.op, set, shape));
    if (i == 0) {
      result = WithType(shape, shape.dtype());
      continue;
    }
    if (!SameTypeUpToPrecision(result.dtype(), shape.dtype())) {
      return InvalidArgument(Mnemonic(args.op), ": operands of different element types: ",
                             args.operand(0).ToStringWithoutLayout(), " and ",
                             shape.ToStringWithoutLayout());
    }
    if (!DimsAgree(result, shape)) {
      return InvalidArgument(Mnemonic(args.op), ": operands of different shapes: ",
                             args.operand(0).ToStringWithoutLayout(), " and ",
                             shape.ToStringWithoutLayout());
    }
    result = MergeDims(result, shape);
    result.set_dtype(MorePrecise(result.dtype(), shape.dtype()));
  }
  return result;
}

namespace {

// The elements of one operand as lanes, block by block.
class OperandLanes {
 public:
  OperandLanes(const Literal& literal, Lane lane, bool broadcast)
      : dtype_(literal.dtype()), lane_(lane), broadcast_(broadcast), data_(literal.data()) {
    if (broadcast_) FillLanes(dtype_, data_, kBlockLanes, lane_, block_.bytes);
  }
  const void* Block(int64_t begin, int64_t n) {
    if (broadcast_) return block_.bytes;
    const std::byte* src = data_ + begin * ByteWidth(dtype_);
    if (IsStoredAsLane(dtype_) && LaneOf(dtype_) == lane_) return src;
    LoadLanes(dtype_, src, n, lane_, block_.bytes);
    return block_.bytes;
  }

 private:
  DType dtype_;
  Lane lane_;
  bool broadcast_;
  const std::byte* data_;
  LaneBlock block_;
};

// `out` = op(operands), elements [begin, end).
void RunLaneOp(const LaneOp& op, const Instruction& instruction, std::span<Literal> operands,
               Literal& out, std::byte* out_data, int64_t begin, int64_t end) {
  std::optional<OperandLanes> in[3];
  for (size_t i = 0; i < operands.size(); ++i) {
    bool broadcast = operands[i].shape().IsScalar() && !out.shape().IsScalar();
    in[i].emplace(operands[i], op.in[i], broadcast);
  }
  DType type = out.dtype();
  bool direct = IsStoredAsLane(type) && LaneOf(type) == op.out;
  LaneBlock result;
  for (int64_t at = begin; at < end; at += kBlockLanes) {
    int64_t n = std::min(kBlockLanes, end - at);
    LaneArgs args{{}, nullptr, n, op.in_type, type, &instruction.attrs()};
    for (size_t i = 0; i < operands.size(); ++i) args.in[i] = in[i]->Block(at, n);
    std::byte* dst = out_data + at * ByteWidth(type);
    args.out = direct ? dst : result.bytes;
    op.kernel(args);
    if (!direct) StoreLanes(op.out, result.bytes, n, type, dst);
  }
}

}  // namespace

Result<Shape> RunTimeShape(const Instruction& instruction, const Shape& declared,
                           const Literal& like) {
  if (!declared.HasUnboundedDims()) return declared;
  Shape shape = declared;
  for (int64_t i = 0; i < shape.rank() && i < like.shape().rank(); ++i) {
    if (!shape.is_unbounded(i)) continue;
    shape.set_dim(i, like.shape().dim(i));
    shape.set_dynamic(i, like.shape().is_dynamic(i));
  }
  if (shape.HasUnboundedDims()) {
    return InvalidArgument(Mnemonic(instruction.op()), ": the size of ",
                           declared.ToStringWithoutLayout(), " is not known");
  }
  return shape;
}

Result<Literal> NewArray(EvalContext& context, const Instruction& instruction, Shape shape) {
  std::optional<int64_t> n = shape.CheckedElements();
  if (!n || shape.ByteSize() > context.options().max_tensor_bytes) {
    return ResourceExhausted(Mnemonic(instruction.op()), ": a result of shape ",
                             shape.ToStringWithoutLayout(), " is too large to evaluate");
  }
  return Literal::Uninitialized(std::move(shape));
}

Result<Literal> EvaluateElementwise(EvalContext& context, const Instruction& instruction,
                                    std::span<Literal> operands) {
  InlineVec<DType, 4> types;
  const Literal* full = &operands[0];  // an operand that is not a broadcast scalar
  for (const Literal& operand : operands) {
    types.push_back(operand.dtype());
    if (full->shape().IsScalar()) full = &operand;
  }
  LaneOp op =
      TRY(FindLaneOp(instruction.op(), instruction.attrs(), types, instruction.shape().dtype()));
  Literal out = TRY(
      NewArray(context, instruction, TRY(RunTimeShape(instruction, instruction.shape(), *full))));
  for (const Literal& operand : operands) {
    if (operand.size() == out.size() || operand.shape().IsScalar()) continue;
    return InvalidArgument(Mnemonic(instruction.op()), ": operand ",
                           operand.shape().ToStringWithoutLayout(), " for a result ",
                           out.shape().ToStringWithoutLayout());
  }
  if (out.size() > 0) {
    std::byte* data = out.mutable_data();
    DefaultPool().ParallelFor(out.size(), 8 * kBlockLanes, [&](int64_t begin, int64_t end) {
      RunLaneOp(op, instruction, operands, out, data, begin, end);
    });
  }
  CopyDynamicSizes(operands, out);
  return out;
}

void CopyDynamicSizes(std::span<const Literal> operands, Literal& result) {
  for (const Literal& operand : operands) {
    if (!operand.HasDynamicSizes() || operand.shape().rank() != result.shape().rank()) continue;
    for (int64_t d = 0; d < result.shape().rank(); ++d) {
      int64_t size = operand.dynamic_size(d);
      if (size < result.dynamic_size(d)) result.set_dynamic_size(d, size);
    }
  }
}

bool HaveSameShape(const Instruction& a, const Instruction& b) {
  return Shape::Compatible(a.shape(), b.shape());
}

bool IsConstantOf(const Instruction* instruction, double value) {
  while (instruction->op() == Op::kBroadcast) instruction = instruction->operand(0);
  if (!instruction->IsConstant() || instruction->attrs<ConstantAttrs>().elided) return false;
  const Literal& literal = instruction->literal();
  if (!literal.shape().IsArray() || literal.size() == 0) return false;
  for (int64_t i = 0; i < literal.size(); ++i) {
    if (literal.GetDouble(i) != value) return false;
  }
  return true;
}

}  // namespace weft::hlo
