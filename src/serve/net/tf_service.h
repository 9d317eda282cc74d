// tensorflow.serving.PredictionService and ModelService.
#pragma once

#include "serve/gate.h"
#include "serve/server.h"
#include "tensorflow_serving.grpc.pb.h"

namespace weft::serve {

class PredictionService final : public tensorflow::serving::PredictionService::CallbackService {
 public:
  PredictionService(Server& server, const Gate* gate) : server_(server), gate_(gate) {}
  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context,
                                    const tensorflow::serving::PredictRequest* request,
                                    tensorflow::serving::PredictResponse* response) override;
  grpc::ServerUnaryReactor* GetModelMetadata(
      grpc::CallbackServerContext* context,
      const tensorflow::serving::GetModelMetadataRequest* request,
      tensorflow::serving::GetModelMetadataResponse* response) override;

 private:
  Server& server_;
  const Gate* gate_;
};

class ModelService final : public tensorflow::serving::ModelService::CallbackService {
 public:
  ModelService(Server& server, const Gate* gate) : server_(server), gate_(gate) {}
  grpc::ServerUnaryReactor* GetModelStatus(
      grpc::CallbackServerContext* context,
      const tensorflow::serving::GetModelStatusRequest* request,
      tensorflow::serving::GetModelStatusResponse* response) override;
  grpc::ServerUnaryReactor* HandleReloadConfigRequest(
      grpc::CallbackServerContext* context, const tensorflow::serving::ReloadConfigRequest* request,
      tensorflow::serving::ReloadConfigResponse* response) override;

 private:
  Server& server_;
  const Gate* gate_;
};

}  // namespace weft::serve
