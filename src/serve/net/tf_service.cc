#include <utility>

#include "serve/net/model_config.h"
#include "serve/net/predict_message.h"
#include "serve/net/services.h"
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

void FillStatus(const VersionStatus& version, tfs::ModelVersionStatus& status) {
  status.set_version(version.version);
  status.set_state(static_cast<tfs::ModelVersionStatus::State>(version.state));
  status.mutable_status();
  if (!version.error) return;
  status.mutable_status()->set_error_code(static_cast<int>(version.error->code()));
  status.mutable_status()->set_error_message(version.error->ToString());
}

// The client waits until the models are there, as with TF Serving. What is wrong with them is in
// the answer.
Status Reload(Server& server, const tfs::ReloadConfigRequest& request,
              tfs::ReloadConfigResponse& response) {
  Status status = [&]() -> Status {
    return server.models().SetConfig(TRY(FromConfigProto(request.config())));
  }();
  if (status) return {};
  const Error& error = status.error();
  response.mutable_status()->set_error_code(static_cast<int>(error.code()));
  response.mutable_status()->set_error_message(error.ToString());
  return {};
}

void Predict(Server& server, const Gate* gate, const CallRef& call) {
  CallFacts facts(gate, call);
  InferRequest infer;
  Status status = facts.Check();
  if (status) status = facts.Read(infer);
  std::string_view bytes = call->message();
  tfs::PredictRequest request;
  if (status && !request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    status = InvalidArgument("not a PredictRequest");
  if (status) status = ReadPredict(request, infer);
  if (!status) return facts.End(status, {});
  InferCall(server, facts, std::move(infer), [](const InferResponse& result) -> Result<Message> {
    tfs::PredictResponse response;
    FillPredict(result, response);
    return ToMessage(response);
  });
}

}  // namespace

void AddTfMethods(Methods& methods, Server& server) {
  const std::string prediction = "/tensorflow.serving.PredictionService/";
  const std::string models = "/tensorflow.serving.ModelService/";
  methods.Add(prediction + "Predict", [&server, gate = methods.gate()](const CallRef& call) {
    Predict(server, gate, call);
  });
  methods.Unary<tfs::GetModelMetadataRequest, tfs::GetModelMetadataResponse>(
      prediction + "GetModelMetadata", [&server](const auto& request, auto& response) {
        return FillMetadata(server, request, response);
      });
  methods.Unary<tfs::GetModelStatusRequest, tfs::GetModelStatusResponse>(
      models + "GetModelStatus", [&server](const auto& request, auto& response) -> Status {
        for (const VersionStatus& version :
             TRY(server.models().StatusOf(ToQuery(request.model_spec())))) {
          FillStatus(version, *response.add_model_version_status());
        }
        return {};
      });
  methods.Unary<tfs::ReloadConfigRequest, tfs::ReloadConfigResponse>(
      models + "HandleReloadConfigRequest",
      [&server](const auto& request, auto& response) { return Reload(server, request, response); },
      Methods::How::kLater);
}

}  // namespace weft::serve
