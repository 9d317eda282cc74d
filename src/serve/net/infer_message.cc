#include "serve/net/infer_message.h"

#include <cstring>
#include <utility>
#include <vector>

#include "serve/net/grpc_call.h"
#include "serve/rest.h"
#include "serve/types.h"

namespace weft::serve {
namespace {

namespace oip = inference;
using OipParameters = google::protobuf::Map<std::string, oip::InferParameter>;

Result<Shape> ShapeOfInput(const oip::ModelInferRequest::InferInputTensor& input) {
  std::optional<DType> type = TypeFromInference(input.datatype());
  if (!type) return InvalidArgument("unknown datatype ", input.datatype());
  Shape shape(*type, {});
  if (input.shape_size() > kMaxRank) return InvalidArgument("more than ", kMaxRank, " dimensions");
  for (int64_t size : input.shape()) {
    if (size < 0) return InvalidArgument("a dimension of ", size);
    shape.AppendDim(size);
  }
  return shape;
}

template <class To, class From>
Status FillContents(Literal& to, const From& from) {
  std::span<To> values = to.values<To>();
  if (static_cast<size_t>(from.size()) != values.size()) {
    return InvalidArgument(from.size(), " elements for ", to.shape().ToStringWithoutLayout());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<To>(from.Get(static_cast<int>(i)));
  }
  return {};
}

Status FillTypedContents(Literal& value, const oip::InferTensorContents& contents) {
  switch (value.dtype()) {
    case DType::kPred: return FillContents<bool>(value, contents.bool_contents());
    case DType::kS8: return FillContents<int8_t>(value, contents.int_contents());
    case DType::kS16: return FillContents<int16_t>(value, contents.int_contents());
    case DType::kS32: return FillContents<int32_t>(value, contents.int_contents());
    case DType::kS64: return FillContents<int64_t>(value, contents.int64_contents());
    case DType::kU8: return FillContents<uint8_t>(value, contents.uint_contents());
    case DType::kU16: return FillContents<uint16_t>(value, contents.uint_contents());
    case DType::kU32: return FillContents<uint32_t>(value, contents.uint_contents());
    case DType::kU64: return FillContents<uint64_t>(value, contents.uint64_contents());
    case DType::kF32: return FillContents<float>(value, contents.fp32_contents());
    case DType::kF64: return FillContents<double>(value, contents.fp64_contents());
    default: return InvalidArgument(Name(value.dtype()), " is taken as raw_input_contents only");
  }
}

// `raw`: its bytes; null: in the input itself.
Result<Literal> ReadInferInput(const oip::ModelInferRequest::InferInputTensor& input,
                               const std::string* raw) {
  Shape shape = TRY(ShapeOfInput(input));
  std::optional<int64_t> elements = shape.CheckedElements();
  int64_t bytes = 0;
  bool fits = elements && !__builtin_mul_overflow(*elements, ByteWidth(shape.dtype()), &bytes);
  if (!fits || (raw != nullptr && bytes != static_cast<int64_t>(raw->size()))) {
    return InvalidArgument(raw != nullptr ? raw->size() : 0, " bytes for ",
                           shape.ToStringWithoutLayout());
  }
  // Lists hold at least a byte for an element: a shape beyond that is wrong before it is allocated.
  if (raw == nullptr && *elements > static_cast<int64_t>(input.ByteSizeLong())) {
    return InvalidArgument("too few elements for ", shape.ToStringWithoutLayout());
  }
  Literal value = TRY(Literal::AllocateUnset(shape));
  if (raw == nullptr) {
    TRY(FillTypedContents(value, input.contents()));
    return value;
  }
  if (bytes > 0) std::memcpy(value.mutable_data(), raw->data(), raw->size());
  if (shape.dtype() == DType::kPred) {
    auto* b = reinterpret_cast<unsigned char*>(value.mutable_data());
    for (int64_t i = 0; i < bytes; ++i) b[i] = b[i] != 0;
  }
  return value;
}

int64_t NumberOf(const oip::InferParameter& parameter) {
  if (parameter.has_uint64_param()) return static_cast<int64_t>(parameter.uint64_param());
  return parameter.int64_param();
}

Status ReadInferParameters(const OipParameters& parameters, InferRequest& request) {
  if (parameters.empty()) return {};
  if (auto found = parameters.find("priority"); found != parameters.end()) {
    request.priority = found->second.has_string_param()
                           ? TRY(ReadPriority(found->second.string_param()))
                           : PriorityFromNumber(NumberOf(found->second));
  }
  if (auto found = parameters.find("timeout"); found != parameters.end()) {
    int64_t micros = std::min<int64_t>(NumberOf(found->second), 1'000'000'000'000);
    if (micros > 0)
      request.deadline = std::min(request.deadline, request.received + micros * kMicrosecond);
  }
  if (auto found = parameters.find("signature_name"); found != parameters.end()) {
    request.graph = found->second.string_param();
  }
  return {};
}

// The slice of shared memory that parameters name; without a region: none.
SharedSlice SliceOf(const OipParameters& parameters) {
  SharedSlice slice;
  if (parameters.empty()) return slice;
  if (auto found = parameters.find("shared_memory_region"); found != parameters.end())
    slice.region = found->second.string_param();
  if (auto found = parameters.find("shared_memory_offset"); found != parameters.end())
    slice.offset = NumberOf(found->second);
  if (auto found = parameters.find("shared_memory_byte_size"); found != parameters.end())
    slice.size = NumberOf(found->second);
  return slice;
}

Result<Literal> ReadSharedInput(const oip::ModelInferRequest::InferInputTensor& input,
                                const SharedMemory& memory, const SharedSlice& slice) {
  return ReadShared(memory, slice, TRY(ShapeOfInput(input)));
}

SharedSlice SliceAsked(const oip::ModelInferRequest& request, const std::string& output) {
  for (const auto& asked : request.outputs()) {
    if (asked.name() == output) return SliceOf(asked.parameters());
  }
  return {};
}

}  // namespace

Status ReadInferRequest(const inference::ModelInferRequest& request, const SharedMemory& memory,
                        InferRequest& infer) {
  infer.model = TRY(ToModelQuery(request.model_name(), request.model_version()));
  TRY(ReadInferParameters(request.parameters(), infer));
  std::vector<SharedSlice> slices;
  int carried = 0;  // inputs that are in the message
  for (const auto& input : request.inputs()) {
    if (slices.emplace_back(SliceOf(input.parameters())).region.empty()) ++carried;
  }
  int raw = request.raw_input_contents_size(), next = 0;
  if (raw != 0 && raw != carried) {
    return InvalidArgument(raw, " raw_input_contents for ", carried,
                           " inputs: all or none are given so");
  }
  for (int i = 0; i < request.inputs_size(); ++i) {
    const SharedSlice& slice = slices[static_cast<size_t>(i)];
    bool shared = !slice.region.empty();
    Result<Literal> value =
        shared ? ReadSharedInput(request.inputs(i), memory, slice)
               : ReadInferInput(request.inputs(i),
                                raw != 0 ? &request.raw_input_contents(next++) : nullptr);
    if (!value) {
      return std::unexpected(
          value.error().Prefix(StrCat("input ", request.inputs(i).name(), ": ")));
    }
    infer.inputs.push_back({request.inputs(i).name(), std::move(*value)});
  }
  for (const auto& output : request.outputs()) infer.outputs.push_back(output.name());
  return {};
}

Status FillInferResponse(const InferResponse& result, const inference::ModelInferRequest& request,
                         const SharedMemory& memory, inference::ModelInferResponse& response) {
  response.set_model_name(result.model);
  response.set_model_version(StrCat(result.version));
  response.set_id(request.id());
  for (const NamedTensor& output : result.outputs) {
    auto& tensor = *response.add_outputs();
    const TypeNames* type = FindType(output.value.dtype());
    tensor.set_name(output.name);
    tensor.set_datatype(type != nullptr ? std::string(type->inference) : "");
    for (int64_t d = 0; d < output.value.shape().rank(); ++d)
      tensor.add_shape(output.value.shape().dim(d));
    const size_t bytes = static_cast<size_t>(output.value.byte_size());
    SharedSlice slice = SliceAsked(request, output.name);
    if (slice.region.empty()) {
      response.add_raw_output_contents(output.value.data(), bytes);
      continue;
    }
    TRY(memory.Write(slice, {output.value.data(), bytes}));
    response.add_raw_output_contents();  // empty: clients count them as they count outputs
    auto& parameters = *tensor.mutable_parameters();
    parameters["shared_memory_region"].set_string_param(slice.region);
    parameters["shared_memory_offset"].set_int64_param(slice.offset);
    parameters["shared_memory_byte_size"].set_int64_param(output.value.byte_size());
  }
  return {};
}

}  // namespace weft::serve
