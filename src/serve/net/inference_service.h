// inference.GRPCInferenceService.
#pragma once

#include "inference.grpc.pb.h"
#include "serve/server.h"

namespace weft::serve {

class InferenceService final : public inference::GRPCInferenceService::CallbackService {
 public:
  explicit InferenceService(Server& server) : server_(server) {}

#define WEFT_INFERENCE_METHOD(name)                                       \
  grpc::ServerUnaryReactor* name(grpc::CallbackServerContext* context,    \
                                 const inference::name##Request* request, \
                                 inference::name##Response* response) override;
  WEFT_INFERENCE_METHOD(ServerLive)
  WEFT_INFERENCE_METHOD(ServerReady)
  WEFT_INFERENCE_METHOD(ModelReady)
  WEFT_INFERENCE_METHOD(ServerMetadata)
  WEFT_INFERENCE_METHOD(ModelMetadata)
  WEFT_INFERENCE_METHOD(ModelInfer)
  WEFT_INFERENCE_METHOD(ModelStatistics)
  WEFT_INFERENCE_METHOD(RepositoryIndex)
#undef WEFT_INFERENCE_METHOD

 private:
  Server& server_;
};

}  // namespace weft::serve
