#include "serve/net/tf_service.h"

#include <utility>

#include "serve/net/grpc_call.h"
#include "serve/net/model_config.h"
#include "serve/net/predict_message.h"
#include "serve/types.h"

namespace weft::serve {
namespace {

namespace tf = tensorflow;
namespace tfs = tensorflow::serving;

void Describe(const std::vector<TensorSpec>& tensors,
              google::protobuf::Map<std::string, tf::TensorInfo>& infos) {
  for (const TensorSpec& tensor : tensors) {
    tf::TensorInfo& info = infos[tensor.name];
    info.set_name(tensor.name);
    const TypeNames* type = FindType(tensor.dtype);
    info.set_dtype(static_cast<tf::DataType>(type != nullptr ? type->tensorflow : 0));
    for (const DimSpec& dim : tensor.dims) {
      info.mutable_tensor_shape()->add_dim()->set_size(dim.symbol < 0 ? dim.size : -1);
    }
  }
}

void FillSpec(const Servable& servable, tfs::ModelSpec& spec) {
  spec.set_name(servable.name());
  spec.mutable_version()->set_value(servable.version());
}

Status FillMetadata(Server& server, const tfs::GetModelMetadataRequest& request,
                    tfs::GetModelMetadataResponse& response) {
  for (const std::string& field : request.metadata_field()) {
    if (field != "signature_def")
      return InvalidArgument("metadata field ", field, ": only signature_def");
  }
  if (request.metadata_field().empty()) return InvalidArgument("no metadata_field: signature_def");
  std::shared_ptr<Servable> servable = TRY(server.models().Find(ToQuery(request.model_spec())));
  tfs::SignatureDefMap map;
  for (const GraphSpec& graph : servable->folder().spec.graphs) {
    tf::SignatureDef& signature = (*map.mutable_signature_def())[graph.name];
    Describe(graph.inputs, *signature.mutable_inputs());
    Describe(graph.outputs, *signature.mutable_outputs());
    signature.set_method_name("tensorflow/serving/predict");
  }
  (*response.mutable_metadata())["signature_def"].PackFrom(map);
  FillSpec(*servable, *response.mutable_model_spec());
  return {};
}

}  // namespace

grpc::ServerUnaryReactor* PredictionService::Predict(grpc::CallbackServerContext* context,
                                                     const tfs::PredictRequest* request,
                                                     tfs::PredictResponse* response) {
  constexpr std::string_view kMethod = "/tensorflow.serving.PredictionService/Predict";
  InferRequest infer;
  CallFacts facts(gate_, context, kMethod);
  Status status = facts.Check();
  if (status) status = facts.Read(infer);
  if (status) status = ReadPredict(*request, infer);
  if (!status) return AnswerCall(gate_, context, kMethod, [&] { return status; }, true);
  auto* reactor = new InferReactor(context, facts);
  auto sizes = [request, response] {
    return std::pair(request->ByteSizeLong(), response->ByteSizeLong());
  };
  auto fill = [response](const InferResponse& result) -> Status {
    FillPredict(result, *response);
    return {};
  };
  reactor->Start(server_, std::move(infer), fill, sizes);
  return reactor;
}

grpc::ServerUnaryReactor* PredictionService::GetModelMetadata(
    grpc::CallbackServerContext* context, const tfs::GetModelMetadataRequest* request,
    tfs::GetModelMetadataResponse* response) {
  return AnswerCall(gate_, context, "/tensorflow.serving.PredictionService/GetModelMetadata",
                    [&] { return FillMetadata(server_, *request, *response); });
}

grpc::ServerUnaryReactor* ModelService::GetModelStatus(grpc::CallbackServerContext* context,
                                                       const tfs::GetModelStatusRequest* request,
                                                       tfs::GetModelStatusResponse* response) {
  return AnswerCall(
      gate_, context, "/tensorflow.serving.ModelService/GetModelStatus", [&]() -> Status {
        for (const VersionStatus& version :
             TRY(server_.models().StatusOf(ToQuery(request->model_spec())))) {
          tfs::ModelVersionStatus& status = *response->add_model_version_status();
          status.set_version(version.version);
          status.set_state(static_cast<tfs::ModelVersionStatus::State>(version.state));
          status.mutable_status();
          if (!version.error) continue;
          status.mutable_status()->set_error_code(static_cast<int>(version.error->code()));
          status.mutable_status()->set_error_message(version.error->ToString());
        }
        return {};
      });
}

// The client waits until the models are there, as with TF Serving. What is wrong with them is in
// the answer.
grpc::ServerUnaryReactor* ModelService::HandleReloadConfigRequest(
    grpc::CallbackServerContext* context, const tfs::ReloadConfigRequest* request,
    tfs::ReloadConfigResponse* response) {
  return AnswerLater(gate_, context, "/tensorflow.serving.ModelService/HandleReloadConfigRequest",
                     [this, request, response]() -> Status {
                       Status status = [&]() -> Status {
                         return server_.models().SetConfig(TRY(FromConfigProto(request->config())));
                       }();
                       if (status) return {};
                       const Error& error = status.error();
                       response->mutable_status()->set_error_code(static_cast<int>(error.code()));
                       response->mutable_status()->set_error_message(error.ToString());
                       return {};
                     });
}

}  // namespace weft::serve
