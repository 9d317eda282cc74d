#include "hlo/evaluate/custom_calls.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "hlo/module.h"
#include "hlo/ops/called.h"

namespace weft::hlo {
namespace {

using Known = std::optional<Literal>;

// Elements as integers of the same order.
std::vector<int64_t> OrderKeys(const Literal& values) {
  std::vector<int64_t> keys(static_cast<size_t>(values.size()));
  constexpr uint64_t kTop = uint64_t{1} << 63;
  for (int64_t i = 0; i < values.size(); ++i) {
    if (IsFloat(values.dtype())) {
      int64_t bits = std::bit_cast<int64_t>(values.GetDouble(i));
      keys[i] = bits < 0 ? static_cast<int64_t>(~(static_cast<uint64_t>(bits) ^ kTop)) : bits;
    } else {
      keys[i] = values.GetInt(i);
      if (values.dtype() == DType::kU64) {
        keys[i] = static_cast<int64_t>(static_cast<uint64_t>(keys[i]) ^ kTop);
      }
    }
  }
  return keys;
}

// The first operand, when its shape is that of the result.
Result<Known> PassThrough(const Instruction& call, std::span<Literal> operands) {
  if (operands.empty()) return std::nullopt;
  if (!ShapesMatch(operands[0].shape(), call.shape())) return std::nullopt;
  return std::move(operands[0]);
}

Result<Known> Pad(const Instruction& call, std::span<Literal> operands) {
  if (operands.size() != 1 || !call.shape().IsTuple() || !operands[0].shape().IsArray() ||
      call.shape().tuple_size() != operands[0].shape().rank() + 1) {
    return std::nullopt;
  }
  const Literal& from = operands[0];
  const Shape& padded = call.shape().tuple_element(0);
  if (padded.dtype() != from.dtype() || !Shape::SameDims(padded, from.shape())) {
    return std::nullopt;
  }
  std::vector<Literal> results = {from.WithShape(StripLayout(call.shape().tuple_element(0)))};
  for (int64_t d = 0; d < from.shape().rank(); ++d) {
    results.push_back(Literal::Scalar(DType::kS32, static_cast<int32_t>(from.dynamic_size(d))));
  }
  Literal fixed{results[0].shape()};
  if (fixed.byte_size() > 0) {
    std::copy_n(results[0].data(), fixed.byte_size(), fixed.mutable_data());
  }
  results[0] = std::move(fixed);
  return Literal::Tuple(std::move(results));
}

Result<Known> SliceToDynamic(const Instruction& call, std::span<Literal> operands) {
  int64_t rank = call.shape().rank();
  if (!call.shape().IsArray() || static_cast<int64_t>(operands.size()) != rank + 1 ||
      !Shape::SameDims(call.shape(), operands[0].shape()) ||
      call.shape().dtype() != operands[0].dtype()) {
    return std::nullopt;
  }
  Literal result = operands[0].WithShape(StripLayout(call.shape()));
  for (int64_t d = 0; d < rank; ++d) {
    const Literal& size = operands[static_cast<size_t>(d) + 1];
    if (!size.shape().IsArray() || !IsInteger(size.dtype()) || size.size() != 1) {
      return std::nullopt;
    }
    int64_t n = std::clamp<int64_t>(size.GetInt(0), 0, call.shape().dim(d));
    if (call.shape().is_dynamic(d)) result.set_dynamic_size(d, n);
  }
  return result;
}

Result<Known> TopK(const Instruction& call, std::span<Literal> operands, bool largest) {
  if (operands.empty() || !call.shape().IsTuple() || call.shape().tuple_size() != 2) {
    return std::nullopt;
  }
  const Shape& values = call.shape().tuple_element(0);
  if (!operands[0].shape().IsArray() || values.rank() < 1 ||
      values.rank() != operands[0].shape().rank() || IsComplex(operands[0].dtype())) {
    return std::nullopt;
  }
  return TRY(TopElements(operands[0], values.dim(values.rank() - 1), largest));
}

// A unary or binary op by name: evaluated as that instruction.
Result<Known> AsInstruction(Op op, const Instruction& call, std::span<Literal> operands) {
  const AttrsType* attrs_type = GetOp(op).attrs;
  if (Arity(op) != static_cast<int>(operands.size()) || !IsElementwise(op) ||
      (attrs_type != &kAttrsType<NoAttrs> && attrs_type != &kAttrsType<UnaryMathAttrs>)) {
    return std::nullopt;
  }
  Module module("custom_call");
  Computation* computation = module.AddComputation("main");
  std::vector<Instruction*> parameters;
  std::vector<const Shape*> shapes;
  for (size_t i = 0; i < operands.size(); ++i) {
    ParameterAttrs attrs;
    attrs.number = static_cast<int64_t>(i);
    parameters.push_back(
        computation->Add(Op::kParameter, StrCat("p", i), operands[i].shape(), {}, attrs));
    shapes.push_back(&parameters.back()->shape());
  }
  Attrs attrs(attrs_type);
  Result<Shape> shape = GetOp(op).infer(InferArgs{op, shapes, attrs, &call.shape()});
  if (!shape || !ShapesMatch(*shape, call.shape())) return std::nullopt;
  Instruction* instruction =
      computation->Add(op, "op", StripLayout(call.shape()), parameters, std::move(attrs));
  return TRY(EvaluateInstruction(*instruction, operands));
}

// "mhlo.asin", "chlo.erf", "stablehlo.cbrt", "xla.erf".
std::optional<Op> MathOp(std::string_view target) {
  for (std::string_view dialect : {"mhlo.", "chlo.", "stablehlo.", "xla."}) {
    if (!target.starts_with(dialect)) continue;
    std::string name(target.substr(dialect.size()));
    std::replace(name.begin(), name.end(), '_', '-');
    return FindOp(name);
  }
  return std::nullopt;
}

bool IsIdentity(std::string_view target) {
  constexpr std::string_view kTargets[] = {"Sharding",
                                           "SPMDFullToShardShape",
                                           "SPMDShardToFullShape",
                                           "MoveToHost",
                                           "MoveToDevice",
                                           "annotate_device_placement",
                                           "LayoutConstraint",
                                           "Pin",
                                           "Unpin",
                                           "ShardBarrierFrom",
                                           "ShardBarrierTo",
                                           "xla.sdy.FuncResultSharding",
                                           "xla.sdy.LocalToGlobalShape",
                                           "xla.sdy.GlobalToLocalShape",
                                           "ReplicationCheck",
                                           "tpu_custom_call_annotation",
                                           "InspectSharding",
                                           "control_dep"};
  return std::find(std::begin(kTargets), std::end(kTargets), target) != std::end(kTargets);
}

}  // namespace

Result<Literal> TopElements(const Literal& operand, int64_t k, bool largest) {
  const Shape& shape = operand.shape();
  int64_t n = shape.dim(shape.rank() - 1);
  if (k < 0 || k > n) {
    return InvalidArgument("topk: ", k, " of ", shape.ToStringWithoutLayout());
  }
  Shape values_shape = StripLayout(shape);
  values_shape.set_dim(shape.rank() - 1, k);
  Shape indices_shape = values_shape;
  indices_shape.set_dtype(DType::kS32);
  Literal values = TRY(Literal::Allocate(values_shape));
  Literal indices = TRY(Literal::Allocate(indices_shape));
  std::vector<int64_t> keys = OrderKeys(operand);
  int64_t width = ByteWidth(operand.dtype());
  std::vector<int32_t> order(static_cast<size_t>(n));
  int64_t rows = n == 0 ? 0 : operand.size() / n;
  std::byte* value_bytes = values.mutable_data();
  std::span<int32_t> index_values = indices.values<int32_t>();
  for (int64_t row = 0; row < rows; ++row) {
    std::iota(order.begin(), order.end(), 0);
    const int64_t* row_keys = keys.data() + row * n;
    auto better = [&](int32_t a, int32_t b) {
      if (row_keys[a] != row_keys[b]) {
        return largest ? row_keys[a] > row_keys[b] : row_keys[a] < row_keys[b];
      }
      return a < b;
    };
    std::partial_sort(order.begin(), order.begin() + k, order.end(), better);
    for (int64_t i = 0; i < k; ++i) {
      index_values[row * k + i] = order[i];
      std::copy_n(operand.data() + (row * n + order[i]) * width, width,
                  value_bytes + (row * k + i) * width);
    }
  }
  return Literal::Tuple({std::move(values), std::move(indices)});
}

Result<Known> EvaluateKnownCustomCall(EvalContext& context, const Instruction& instruction,
                                      std::span<Literal> operands) {
  const std::string& target = instruction.attrs<CustomCallAttrs>().custom_call_target;
  if (IsIdentity(target)) return PassThrough(instruction, operands);
  if (target == "AllocateBuffer" || target == "CreateBuffer") {
    if (!instruction.shape().IsArray()) return std::nullopt;
    return TRY(Literal::Allocate(StripLayout(instruction.shape())));
  }
  if (target == "TopK") return TopK(instruction, operands, /*largest=*/true);
  if (target == "mhlo.topk" || target == "chlo.top_k") {
    std::string_view config;
    if (instruction.extras() != nullptr) config = instruction.extras()->backend_config.text;
    const std::string* attributes = instruction.FrontendAttributeValue("mhlo.attributes");
    if (attributes != nullptr) config = *attributes;
    bool smallest = config.find("largest = false") != std::string_view::npos ||
                    config.find("\"largest\":false") != std::string_view::npos;
    return TopK(instruction, operands, !smallest);
  }
  if (target == "PadToStatic") return Pad(instruction, operands);
  if (target == "SliceToDynamic") return SliceToDynamic(instruction, operands);
  if (target == "GetRngSeed" && instruction.shape().dtype() == DType::kU64 &&
      instruction.shape().IsScalar()) {
    return Literal::Scalar(DType::kU64, context.options().seed);
  }
  if (std::optional<Op> op = MathOp(target)) return AsInstruction(*op, instruction, operands);
  return std::nullopt;
}

}  // namespace weft::hlo
