#include "serve/net/predict_message.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "serve/types.h"

namespace weft::serve {
namespace {

namespace tf = tensorflow;
namespace tfs = tensorflow::serving;

// Elements from a list of their type: as many as the shape wants, the last one repeated.
template <class To, class From>
Status FillFrom(Literal& to, const From& from) {
  std::span<To> values = to.values<To>();
  if (static_cast<size_t>(from.size()) > values.size() || (from.empty() && !values.empty())) {
    return InvalidArgument(from.size(), " elements for ", to.shape().ToStringWithoutLayout());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    int at = std::min(static_cast<int>(i), from.size() - 1);
    values[i] = static_cast<To>(from.Get(at));
  }
  return {};
}

Status FillTyped(Literal& value, const tf::TensorProto& proto) {
  switch (value.dtype()) {
    case DType::kF32: return FillFrom<float>(value, proto.float_val());
    case DType::kF64: return FillFrom<double>(value, proto.double_val());
    case DType::kS32: return FillFrom<int32_t>(value, proto.int_val());
    case DType::kS16: return FillFrom<int16_t>(value, proto.int_val());
    case DType::kS8: return FillFrom<int8_t>(value, proto.int_val());
    case DType::kU16: return FillFrom<uint16_t>(value, proto.int_val());
    case DType::kU8: return FillFrom<uint8_t>(value, proto.int_val());
    case DType::kS64: return FillFrom<int64_t>(value, proto.int64_val());
    case DType::kU32: return FillFrom<uint32_t>(value, proto.uint32_val());
    case DType::kU64: return FillFrom<uint64_t>(value, proto.uint64_val());
    case DType::kPred: return FillFrom<bool>(value, proto.bool_val());
    case DType::kF16:
    case DType::kBF16: return FillFrom<uint16_t>(value, proto.half_val());
    default:
      return Unimplemented("elements of ", Name(value.dtype()), " are taken as tensor_content");
  }
}

Result<Literal> FromTensorProto(const tf::TensorProto& proto) {
  std::optional<DType> type = TypeFromTensorflow(proto.dtype());
  if (!type) return InvalidArgument("unknown dtype ", static_cast<int>(proto.dtype()));
  Shape shape(*type, {});
  if (proto.tensor_shape().unknown_rank() || proto.tensor_shape().dim_size() > kMaxRank) {
    return InvalidArgument("a shape of unknown rank");
  }
  for (const auto& dim : proto.tensor_shape().dim()) {
    if (dim.size() < 0) return InvalidArgument("a dimension of ", dim.size());
    shape.AppendDim(dim.size());
  }
  std::optional<int64_t> elements = shape.CheckedElements();
  int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, ByteWidth(*type), &bytes)) {
    return InvalidArgument("too large: ", shape.ToStringWithoutLayout());
  }
  const std::string& content = proto.tensor_content();
  if (!content.empty() && static_cast<int64_t>(content.size()) != bytes) {
    return InvalidArgument(content.size(), " bytes for ", shape.ToStringWithoutLayout());
  }
  // A short list stands for a large tensor: as much as other requests may be, not more.
  if (content.empty() && bytes > (int64_t{256} << 20))
    return InvalidArgument("too large: ", bytes, " bytes");
  Literal value = TRY(Literal::AllocateUnset(shape));
  if (content.empty()) {
    TRY(FillTyped(value, proto));
  } else {
    std::memcpy(value.mutable_data(), content.data(), content.size());
  }
  return value;
}

void ToTensorProto(const Literal& value, tf::TensorProto& proto) {
  const TypeNames* type = FindType(value.dtype());
  proto.set_dtype(static_cast<tf::DataType>(type != nullptr ? type->tensorflow : 0));
  auto* shape = proto.mutable_tensor_shape();
  for (int64_t d = 0; d < value.shape().rank(); ++d)
    shape->add_dim()->set_size(value.shape().dim(d));
  proto.set_tensor_content(value.data(), static_cast<size_t>(value.byte_size()));
}

}  // namespace

ModelQuery ToQuery(const tfs::ModelSpec& spec) {
  ModelQuery query{spec.name()};
  if (spec.has_version()) query.version = spec.version().value();
  query.label = spec.version_label();
  return query;
}

Status ReadPredict(const tfs::PredictRequest& request, InferRequest& infer) {
  infer.model = ToQuery(request.model_spec());
  infer.graph = request.model_spec().signature_name();
  for (const auto& [name, proto] : request.inputs()) {
    Result<Literal> value = FromTensorProto(proto);
    if (!value) return std::unexpected(value.error().Prefix(StrCat("input ", name, ": ")));
    infer.inputs.push_back({name, std::move(*value)});
  }
  for (const std::string& name : request.output_filter()) infer.outputs.push_back(name);
  return {};
}

void FillPredict(const InferResponse& result, tfs::PredictResponse& response) {
  for (const NamedTensor& output : result.outputs) {
    ToTensorProto(output.value, (*response.mutable_outputs())[output.name]);
  }
  response.mutable_model_spec()->set_name(result.model);
  response.mutable_model_spec()->mutable_version()->set_value(result.version);
  response.mutable_model_spec()->set_signature_name(result.graph);
}

}  // namespace weft::serve
