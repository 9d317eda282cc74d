#include "serve/net/inference_service.h"

#include <utility>

#include "serve/net/grpc_call.h"
#include "serve/net/infer_message.h"
#include "serve/types.h"

namespace weft::serve {
namespace {

namespace oip = inference;

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

}  // namespace

using Reactor = grpc::ServerUnaryReactor;
using Context = grpc::CallbackServerContext;

Reactor* InferenceService::ServerLive(Context* context, const oip::ServerLiveRequest*,
                                      oip::ServerLiveResponse* response) {
  return AnswerCall(
      gate_, context, "/inference.GRPCInferenceService/ServerLive",
      [&]() -> Status {
        response->set_live(true);
        return {};
      },
      true);
}

Reactor* InferenceService::ServerReady(Context* context, const oip::ServerReadyRequest*,
                                       oip::ServerReadyResponse* response) {
  return AnswerCall(
      gate_, context, "/inference.GRPCInferenceService/ServerReady",
      [&]() -> Status {
        response->set_ready(server_.Ready());
        return {};
      },
      true);
}

Reactor* InferenceService::ModelReady(Context* context, const oip::ModelReadyRequest* request,
                                      oip::ModelReadyResponse* response) {
  return AnswerCall(gate_, context, "/inference.GRPCInferenceService/ModelReady", [&]() -> Status {
    ModelQuery query = TRY(ToModelQuery(request->name(), request->version()));
    response->set_ready(server_.models().Find(query).has_value());
    return {};
  });
}

Reactor* InferenceService::ModelMetadata(Context* context, const oip::ModelMetadataRequest* request,
                                         oip::ModelMetadataResponse* response) {
  return AnswerCall(gate_, context, "/inference.GRPCInferenceService/ModelMetadata",
                    [&] { return FillModelMetadata(server_, *request, *response); });
}

Reactor* InferenceService::ModelInfer(Context* context, const oip::ModelInferRequest* request,
                                      oip::ModelInferResponse* response) {
  constexpr std::string_view kMethod = "/inference.GRPCInferenceService/ModelInfer";
  InferRequest infer;
  CallFacts facts(gate_, context, kMethod);
  Status status = facts.Check();
  if (status) status = facts.Read(infer);
  if (status) status = ReadInferRequest(*request, server_.shared_memory(), infer);
  if (!status) return AnswerCall(gate_, context, kMethod, [&] { return status; }, true);
  auto* reactor = new InferReactor(context, facts);
  // The request lives as long as the call.
  auto fill = [this, request, response](const InferResponse& result) {
    return FillInferResponse(result, *request, server_.shared_memory(), *response);
  };
  auto sizes = [request, response] {
    return std::pair(request->ByteSizeLong(), response->ByteSizeLong());
  };
  reactor->Start(server_, std::move(infer), fill, sizes);
  return reactor;
}

}  // namespace weft::serve
