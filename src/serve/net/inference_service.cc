#include <memory>
#include <utility>

#include "inference.pb.h"
#include "serve/infer_message.h"
#include "serve/net/services.h"
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

void Infer(Server& server, const Gate* gate, const CallRef& call) {
  CallFacts facts(gate, call);
  InferRequest infer;
  InferReply reply;
  Status status = facts.Check();
  if (status) status = facts.Read(infer);
  if (status) {
    status =
        ReadInferRequest(call->message(), server.shared_memory(), infer, reply, call->storage());
  }
  if (!status) return facts.End(status, {});
  InferCall(server, facts, std::move(infer),
            [&server, reply = std::move(reply)](const InferResponse& result) {
              return WriteInferResponse(result, reply, server.shared_memory(), kMessagePrefix);
            });
}

}  // namespace

void AddInferenceMethods(Methods& methods, Server& server) {
  using How = Methods::How;
  const std::string service = "/inference.GRPCInferenceService/";
  methods.Add(service + "ModelInfer",
              [&server, gate = methods.gate()](const CallRef& call) { Infer(server, gate, call); });
  methods.Unary<oip::ServerLiveRequest, oip::ServerLiveResponse>(
      service + "ServerLive",
      [](const auto&, auto& response) -> Status {
        response.set_live(true);
        return {};
      },
      How::kOpen);
  methods.Unary<oip::ServerReadyRequest, oip::ServerReadyResponse>(
      service + "ServerReady",
      [&server](const auto&, auto& response) -> Status {
        response.set_ready(server.Ready());
        return {};
      },
      How::kOpen);
  methods.Unary<oip::ModelReadyRequest, oip::ModelReadyResponse>(
      service + "ModelReady", [&server](const auto& request, auto& response) -> Status {
        ModelQuery query = TRY(ToModelQuery(request.name(), request.version()));
        response.set_ready(server.models().Find(query).has_value());
        return {};
      });
  methods.Unary<oip::ModelMetadataRequest, oip::ModelMetadataResponse>(
      service + "ModelMetadata", [&server](const auto& request, auto& response) {
        return FillModelMetadata(server, request, response);
      });
}

}  // namespace weft::serve
