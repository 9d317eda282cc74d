#include "serve/net/inference_service.h"

#include <cstring>
#include <utility>

#include "serve/net/grpc_call.h"
#include "serve/rest.h"
#include "serve/types.h"

namespace weft::serve {
namespace {

namespace oip = inference;
using OipParameters = google::protobuf::Map<std::string, oip::InferParameter>;

Result<ModelQuery> ToModelQuery(const std::string& name, const std::string& version) {
  ModelQuery query{name};
  if (version.empty()) return query;
  query.version = ParseInt(version);
  if (!query.version) return InvalidArgument("version '", version, "': not a number");
  return query;
}

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

Status ReadInferRequest(const oip::ModelInferRequest& request, InferRequest& infer) {
  infer.model = TRY(ToModelQuery(request.model_name(), request.model_version()));
  TRY(ReadInferParameters(request.parameters(), infer));
  int raw = request.raw_input_contents_size();
  if (raw != 0 && raw != request.inputs_size()) {
    return InvalidArgument(raw, " raw_input_contents for ", request.inputs_size(),
                           " inputs: all or none are given so");
  }
  for (int i = 0; i < request.inputs_size(); ++i) {
    Result<Literal> value =
        ReadInferInput(request.inputs(i), raw != 0 ? &request.raw_input_contents(i) : nullptr);
    if (!value) {
      return std::unexpected(
          value.error().Prefix(StrCat("input ", request.inputs(i).name(), ": ")));
    }
    infer.inputs.push_back({request.inputs(i).name(), std::move(*value)});
  }
  for (const auto& output : request.outputs()) infer.outputs.push_back(output.name());
  return {};
}

void FillInferResponse(const InferResponse& result, const std::string& id,
                       oip::ModelInferResponse& response) {
  response.set_model_name(result.model);
  response.set_model_version(StrCat(result.version));
  response.set_id(id);
  for (const NamedTensor& output : result.outputs) {
    auto& tensor = *response.add_outputs();
    const TypeNames* type = FindType(output.value.dtype());
    tensor.set_name(output.name);
    tensor.set_datatype(type != nullptr ? std::string(type->inference) : "");
    for (int64_t d = 0; d < output.value.shape().rank(); ++d)
      tensor.add_shape(output.value.shape().dim(d));
    response.add_raw_output_contents(output.value.data(),
                                     static_cast<size_t>(output.value.byte_size()));
  }
}

void AddMetadata(const TensorSpec& tensor, oip::ModelMetadataResponse::TensorMetadata& to) {
  const TypeNames* type = FindType(tensor.dtype);
  to.set_name(tensor.name);
  to.set_datatype(type != nullptr ? std::string(type->inference) : "");
  for (const DimSpec& dim : tensor.dims) to.add_shape(dim.symbol < 0 ? dim.size : -1);
}

Status FillModelMetadata(Server& server, const oip::ModelMetadataRequest& request,
                         oip::ModelMetadataResponse& response) {
  ModelQuery query = TRY(ToModelQuery(request.name(), request.version()));
  std::shared_ptr<Servable> servable = TRY(server.models().Find(query));
  const GraphSpec& graph = TRY(servable->Find(""))->spec();
  response.set_name(servable->name());
  response.set_platform("weft_jax");
  for (const VersionStatus& version : TRY(server.models().StatusOf({request.name()}))) {
    if (version.state == VersionState::kAvailable) response.add_versions(StrCat(version.version));
  }
  for (const TensorSpec& input : graph.inputs) AddMetadata(input, *response.add_inputs());
  for (const TensorSpec& output : graph.outputs) AddMetadata(output, *response.add_outputs());
  return {};
}

void FillStatistics(const Servable& servable, oip::ModelStatistics& to) {
  const ModelStats& stats = servable.stats();
  auto fill = [&](Phase phase, oip::StatisticDuration* duration) {
    for (int c = 0; c < kPriorities; ++c) {
      const Histogram& histogram = stats.histogram(static_cast<Priority>(c), phase);
      duration->set_count(duration->count() + static_cast<uint64_t>(histogram.count()));
      duration->set_ns(duration->ns() + static_cast<uint64_t>(histogram.sum()));
    }
  };
  to.set_name(servable.name());
  to.set_version(StrCat(servable.version()));
  to.set_inference_count(static_cast<uint64_t>(stats.rows()));
  to.set_execution_count(static_cast<uint64_t>(stats.batches()));
  oip::InferStatistics& all = *to.mutable_inference_stats();
  fill(Phase::kTotal, all.mutable_success());
  fill(Phase::kQueue, all.mutable_queue());
  fill(Phase::kToDevice, all.mutable_compute_input());
  fill(Phase::kRun, all.mutable_compute_infer());
  fill(Phase::kToHost, all.mutable_compute_output());
  uint64_t failed = 0, good = 0;
  for (int c = 0; c < kPriorities; ++c) {
    for (int o = 0; o < kOutcomes; ++o) {
      auto count =
          static_cast<uint64_t>(stats.count(static_cast<Priority>(c), static_cast<Outcome>(o)));
      (static_cast<Outcome>(o) == Outcome::kOk ? good : failed) += count;
    }
  }
  all.mutable_fail()->set_count(failed);
  all.mutable_success()->set_count(good);
}

grpc::ServerUnaryReactor* AnswerNow(grpc::CallbackServerContext* context,
                                    const Status& status = {}) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status ? grpc::Status::OK : ToGrpcStatus(status.error()));
  return reactor;
}

}  // namespace

using Reactor = grpc::ServerUnaryReactor;
using Context = grpc::CallbackServerContext;

Reactor* InferenceService::ServerLive(Context* context, const oip::ServerLiveRequest*,
                                      oip::ServerLiveResponse* response) {
  response->set_live(true);
  return AnswerNow(context);
}

Reactor* InferenceService::ServerReady(Context* context, const oip::ServerReadyRequest*,
                                       oip::ServerReadyResponse* response) {
  response->set_ready(server_.Ready());
  return AnswerNow(context);
}

Reactor* InferenceService::ModelReady(Context* context, const oip::ModelReadyRequest* request,
                                      oip::ModelReadyResponse* response) {
  Result<ModelQuery> query = ToModelQuery(request->name(), request->version());
  if (!query) return AnswerNow(context, std::unexpected(query.error()));
  response->set_ready(server_.models().Find(*query).has_value());
  return AnswerNow(context);
}

Reactor* InferenceService::ServerMetadata(Context* context, const oip::ServerMetadataRequest*,
                                          oip::ServerMetadataResponse* response) {
  response->set_name("weft-serve");
  response->set_version(std::string(kServerVersion));
  for (const char* name :
       {"binary_tensor_data", "schedule_policy", "statistics", "model_repository"}) {
    response->add_extensions(name);
  }
  return AnswerNow(context);
}

Reactor* InferenceService::ModelMetadata(Context* context, const oip::ModelMetadataRequest* request,
                                         oip::ModelMetadataResponse* response) {
  return AnswerNow(context, FillModelMetadata(server_, *request, *response));
}

Reactor* InferenceService::ModelInfer(Context* context, const oip::ModelInferRequest* request,
                                      oip::ModelInferResponse* response) {
  InferRequest infer;
  Status status = ReadCallFacts(*context, infer);
  if (status) status = ReadInferRequest(*request, infer);
  if (!status) return AnswerNow(context, status);
  auto* reactor = new InferReactor(context);
  reactor->Start(server_, std::move(infer),
                 [response, id = request->id()](const InferResponse& result) -> Status {
                   FillInferResponse(result, id, *response);
                   return {};
                 });
  return reactor;
}

Reactor* InferenceService::ModelStatistics(Context* context,
                                           const oip::ModelStatisticsRequest* request,
                                           oip::ModelStatisticsResponse* response) {
  std::vector<std::string> names = {request->name()};
  if (request->name().empty()) names = server_.models().Names();
  for (const std::string& name : names) {
    Result<ModelQuery> query = ToModelQuery(name, request->version());
    if (!query) return AnswerNow(context, std::unexpected(query.error()));
    auto servable = server_.models().Find(*query);
    if (!servable && !request->name().empty())
      return AnswerNow(context, std::unexpected(servable.error()));
    if (servable) FillStatistics(**servable, *response->add_model_stats());
  }
  return AnswerNow(context);
}

Reactor* InferenceService::RepositoryIndex(Context* context,
                                           const oip::RepositoryIndexRequest* request,
                                           oip::RepositoryIndexResponse* response) {
  for (const std::string& name : server_.models().Names()) {
    auto versions = server_.models().StatusOf({name});
    if (!versions) continue;
    for (const VersionStatus& version : *versions) {
      bool ready = version.state == VersionState::kAvailable;
      if (request->ready() && !ready) continue;
      auto& model = *response->add_models();
      model.set_name(name);
      model.set_version(StrCat(version.version));
      model.set_state(ready ? "READY" : std::string(NameOf(version.state)));
      if (version.error) model.set_reason(version.error->message());
    }
  }
  return AnswerNow(context);
}

}  // namespace weft::serve
