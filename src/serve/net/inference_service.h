// inference.GRPCInferenceService: inference here, what manages the server in manage_service.cc.
#pragma once

#include "inference.grpc.pb.h"
#include "serve/gate.h"
#include "serve/server.h"

namespace weft::serve {

class InferenceService final : public inference::GRPCInferenceService::CallbackService {
 public:
  InferenceService(Server& server, const Gate* gate) : server_(server), gate_(gate) {}

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
  WEFT_INFERENCE_METHOD(ModelConfig)
  WEFT_INFERENCE_METHOD(RepositoryIndex)
  WEFT_INFERENCE_METHOD(RepositoryModelLoad)
  WEFT_INFERENCE_METHOD(RepositoryModelUnload)
  WEFT_INFERENCE_METHOD(SystemSharedMemoryStatus)
  WEFT_INFERENCE_METHOD(SystemSharedMemoryRegister)
  WEFT_INFERENCE_METHOD(SystemSharedMemoryUnregister)
  WEFT_INFERENCE_METHOD(CudaSharedMemoryStatus)
  WEFT_INFERENCE_METHOD(CudaSharedMemoryRegister)
  WEFT_INFERENCE_METHOD(CudaSharedMemoryUnregister)
#undef WEFT_INFERENCE_METHOD

 private:
  Server& server_;
  const Gate* gate_;
};

}  // namespace weft::serve
