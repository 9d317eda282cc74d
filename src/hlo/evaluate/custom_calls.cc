#include "hlo/evaluate/custom_calls.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "hlo/attention_call.h"
#include "hlo/evaluate/attention.h"
#include "hlo/evaluate/block_scaling.h"
#include "hlo/evaluate/linalg.h"
#include "hlo/evaluate/strided.h"
#include "hlo/module.h"
#include "hlo/ops/called.h"

namespace weft::hlo {
namespace {

using Known = std::optional<Literal>;

// Elements as integers of the same order.
std::vector<int64_t> SortKeysOf(const Literal& values) {
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

Result<Known> TopK(const Instruction& call, std::span<Literal> operands) {
  std::optional<TopKCall> how = TopKOfCustomCall(call);
  if (!how || operands.empty() || IsComplex(operands[0].dtype())) return std::nullopt;
  const Shape& values = call.shape().tuple_element(0);
  if (!operands[0].shape().IsArray() || values.rank() != operands[0].shape().rank()) {
    return std::nullopt;
  }
  return TRY(TopElements(operands[0], values.dim(values.rank() - 1), how->largest));
}

// The text of a custom call's configuration: JSON, or an MLIR dictionary.
std::string_view ConfigOf(const Instruction& call) {
  if (const std::string* attributes = call.FrontendAttributeValue("mhlo.attributes")) {
    return *attributes;
  }
  return call.extras() != nullptr ? std::string_view(call.extras()->backend_config.text) : "";
}

// The integer after `key =` or `"key":`.
std::optional<int64_t> ConfigInt(std::string_view config, std::string_view key) {
  for (size_t at = config.find(key); at != config.npos; at = config.find(key, at + 1)) {
    size_t from = config.find_first_not_of("\" :=", at + key.size());
    if (from == config.npos || from == at + key.size()) continue;
    size_t to = config.find_first_not_of("-0123456789", from);
    return ParseInt(config.substr(from, to == config.npos ? to : to - from));
  }
  return std::nullopt;
}

// An array with dimension `dim` moved to the end, or the last one moved to `dim`.
Result<Literal> MoveDimension(const Literal& from, int64_t dim, bool to_end) {
  const Shape& shape = from.shape();
  Dims strides = RowMajorStrides(shape.dims()), order;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (to_end ? d != dim : d != shape.rank() - 1) order.push_back(d);
  }
  if (to_end) {
    order.push_back(dim);
  } else {
    order.insert_at(static_cast<size_t>(dim), shape.rank() - 1);
  }
  Shape to = Shape::Scalar(shape.dtype());
  Dims from_strides;
  for (int64_t d : order) {
    to.AppendDim(shape.dim(d));
    from_strides.push_back(strides[static_cast<size_t>(d)]);
  }
  Literal out = TRY(Literal::AllocateUnset(to));
  CopyStrided(to.dims(), from.data(), from_strides, out.mutable_data(), RowMajorStrides(to.dims()),
              ByteWidth(shape.dtype()));
  return out;
}

// (operand, iota, initial value, initial index): the exact top elements, as many as the result
// takes, of dimension `reduction_dim`; a comparator of `<` asks for the smallest.
Result<Known> ApproxTopK(const Instruction& call, std::span<Literal> operands) {
  std::optional<TopKCall> how = TopKOfCustomCall(call);
  if (!how || operands.size() < 2 || !operands[0].shape().IsArray() ||
      IsComplex(operands[0].dtype())) {
    return std::nullopt;
  }
  const Shape& values = call.shape().tuple_element(0);
  int64_t dim = how->dimension;
  if (values.rank() != operands[0].shape().rank()) return std::nullopt;
  Literal rows = TRY(MoveDimension(operands[0], dim, /*to_end=*/true));
  Literal top = TRY(TopElements(rows, values.dim(dim), how->largest));
  std::vector<Literal> parts = std::move(top).TakeTuple();
  for (Literal& part : parts) part = TRY(MoveDimension(part, dim, /*to_end=*/false));
  return Literal::Tuple(std::move(parts));
}

// Which way and along which dimension an approximate top k goes.
std::optional<TopKCall> ApproxTopKForm(const Instruction& call, const Shape& values) {
  const auto& attrs = call.attrs<CustomCallAttrs>();
  if (call.operand_count() < 2 || attrs.called_computations.empty() ||
      attrs.called_computations[0]->root() == nullptr) {
    return std::nullopt;
  }
  int64_t rank = values.rank();
  int64_t dim = ConfigIntOfCustomCall(call, "reduction_dim").value_or(rank - 1);
  if (dim < 0 || dim >= rank) return std::nullopt;
  const Instruction* compare = attrs.called_computations[0]->root();
  bool smallest = compare->op() == Op::kCompare &&
                  (compare->attrs<CompareAttrs>().direction == Direction::kLt ||
                   compare->attrs<CompareAttrs>().direction == Direction::kLe);
  return TopKCall{dim, !smallest};
}

// The first operand says whether the assertion holds.
Result<Known> ShapeAssertion(const Instruction& call, std::span<Literal> operands) {
  if (operands.empty() || operands[0].size() != 1 ||
      (!IsInteger(operands[0].dtype()) && operands[0].dtype() != DType::kPred)) {
    return std::nullopt;
  }
  if (operands[0].GetInt(0) == 0) {
    return InvalidArgument("shape_assertion: does not hold: ", ConfigOf(call));
  }
  return TRY(Literal::Allocate(StripLayout(call.shape())));
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
  if (target.starts_with("xla.sdy.")) return true;
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
                                           "ReplicationCheck",
                                           "tpu_custom_call_annotation",
                                           "InspectSharding",
                                           "control_dep"};
  return std::find(std::begin(kTargets), std::end(kTargets), target) != std::end(kTargets);
}

}  // namespace

bool IsIdentityCustomCall(std::string_view target) {
  return IsIdentity(target);
}

std::optional<Op> OpOfCustomCall(std::string_view target) {
  return MathOp(target);
}

std::optional<int64_t> ConfigIntOfCustomCall(const Instruction& call, std::string_view key) {
  return ConfigInt(ConfigOf(call), key);
}

std::optional<TopKCall> TopKOfCustomCall(const Instruction& call) {
  const std::string& target = call.attrs<CustomCallAttrs>().custom_call_target;
  if (!call.shape().IsTuple() || call.shape().tuple_size() != 2) return std::nullopt;
  const Shape& values = call.shape().tuple_element(0);
  if (!values.IsArray() || values.rank() < 1) return std::nullopt;
  if (target == "ApproxTopK" || target == "PartialReduce") return ApproxTopKForm(call, values);
  if (target == "TopK") return TopKCall{values.rank() - 1, true};
  if (target != "mhlo.topk" && target != "chlo.top_k") return std::nullopt;
  std::string_view config = ConfigOf(call);
  bool smallest = config.find("largest = false") != std::string_view::npos ||
                  config.find("\"largest\":false") != std::string_view::npos;
  return TopKCall{values.rank() - 1, !smallest};
}

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
  std::vector<int64_t> keys = SortKeysOf(operand);
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

bool IsKnownCustomCall(std::string_view target) {
  constexpr std::string_view kTargets[] = {"AllocateBuffer",
                                           "CreateBuffer",
                                           "TopK",
                                           "mhlo.topk",
                                           "chlo.top_k",
                                           "ApproxTopK",
                                           "PartialReduce",
                                           "shape_assertion",
                                           "Qr",
                                           "ProductOfElementaryHouseholderReflectors",
                                           "PadToStatic",
                                           "SliceToDynamic",
                                           "GetRngSeed",
                                           "weft.attention",
                                           "weft.attention_gradient",
                                           "weft.lu"};
  return IsIdentity(target) || MathOp(target) || IsBlockScalingCall(target) ||
         std::find(std::begin(kTargets), std::end(kTargets), target) != std::end(kTargets);
}

Result<Known> EvaluateKnownCustomCall(EvalContext& context, const Instruction& instruction,
                                      std::span<Literal> operands) {
  const std::string& target = instruction.attrs<CustomCallAttrs>().custom_call_target;
  if (IsIdentity(target)) return PassThrough(instruction, operands);
  if (target == "AllocateBuffer" || target == "CreateBuffer") {
    if (!instruction.shape().IsArray()) return std::nullopt;
    return TRY(Literal::Allocate(StripLayout(instruction.shape())));
  }
  if (target == "TopK" || target == "mhlo.topk" || target == "chlo.top_k") {
    return TopK(instruction, operands);
  }
  if (target == "ApproxTopK" || target == "PartialReduce") {
    return ApproxTopK(instruction, operands);
  }
  if (IsBlockScalingCall(target)) {
    return TRY(EvaluateBlockScaling(context, instruction, operands));
  }
  if (target == "shape_assertion") return ShapeAssertion(instruction, operands);
  if (target == "Qr" && operands.size() == 1) return QrFactors(operands[0]);
  if (target == "ProductOfElementaryHouseholderReflectors" && operands.size() == 2) {
    return HouseholderProduct(operands[0], operands[1]);
  }
  if (target == kAttentionTarget) {
    return TRY(EvaluateAttention(context, instruction, operands));
  }
  if (target == kAttentionGradientTarget) {
    return TRY(EvaluateAttentionGradient(context, instruction, operands));
  }
  if (target == "weft.lu" && operands.size() == 1) return LuFactors(operands[0]);
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
