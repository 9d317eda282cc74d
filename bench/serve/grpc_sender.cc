// gRPC's own library as the client, and as a bare server that answers at once: what that costs.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>

#include "infer_request.h"
#include "inference.grpc.pb.h"
#include "senders.h"

namespace weft::serve {
namespace {

class GrpcSender final : public Sender {
 public:
  GrpcSender(const std::string& address, const std::vector<LoadTarget>& targets, Time timeout)
      : timeout_(timeout) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10));
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
    for (const LoadTarget& target : targets) requests_.push_back(InferRequest(target));
  }

  void Send(size_t target, bool high, std::function<void(int)> done) override {
    struct Call {
      grpc::ClientContext context;
      inference::ModelInferResponse response;
    };
    auto call = std::make_shared<Call>();
    if (high) call->context.AddMetadata("x-weft-priority", "high");
    if (timeout_ > 0) {
      call->context.set_deadline(std::chrono::system_clock::now() +
                                 std::chrono::nanoseconds(timeout_));
    }
    stub_->async()->ModelInfer(
        &call->context, &requests_[target], &call->response,
        [call, done = std::move(done)](const grpc::Status& status) { done(status.error_code()); });
  }

 private:
  const Time timeout_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  std::vector<inference::ModelInferRequest> requests_;
};

class EchoService final : public inference::GRPCInferenceService::CallbackService {
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const inference::ModelInferRequest* request,
                                       inference::ModelInferResponse* response) override {
    response->set_model_name(request->model_name());
    *response->mutable_raw_output_contents() = request->raw_input_contents();
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

std::unique_ptr<Sender> MakeGrpcSender(const std::string& address,
                                       const std::vector<LoadTarget>& targets, Time timeout) {
  return std::make_unique<GrpcSender>(address, targets, timeout);
}

int ServeGrpcEcho() {
  EchoService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::printf("%d\n", port);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  server->Shutdown();
  return 0;
}

}  // namespace weft::serve
