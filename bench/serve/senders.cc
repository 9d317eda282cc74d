#include "senders.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>

#include "base/str.h"
#include "inference.grpc.pb.h"

namespace weft::serve {
namespace {

int64_t ElementsOf(const LoadTarget& target) {
  int64_t elements = 1;
  for (int64_t dim : target.dims) elements *= dim;
  return elements;
}

class GrpcSender final : public Sender {
 public:
  GrpcSender(const std::string& address, const std::vector<LoadTarget>& targets, Time timeout)
      : timeout_(timeout) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10));
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
    for (const LoadTarget& target : targets) {
      inference::ModelInferRequest& request = requests_.emplace_back();
      request.set_model_name(target.model);
      auto* input = request.add_inputs();
      input->set_name(target.input);
      input->set_datatype("FP32");
      for (int64_t dim : target.dims) input->add_shape(dim);
      std::vector<float> values(static_cast<size_t>(ElementsOf(target)), 0.5f);
      request.add_raw_input_contents(values.data(), values.size() * sizeof(float));
    }
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

class LocalSender final : public Sender {
 public:
  LocalSender(Server& server, const std::vector<LoadTarget>& targets, Time timeout)
      : server_(server), targets_(targets), timeout_(timeout) {
    for (const LoadTarget& target : targets) {
      values_.push_back(Literal(Shape(DType::kF32, target.dims)));
    }
  }
  void Send(size_t target, bool high, std::function<void(int)> done) override {
    InferRequest request;
    request.model.name = targets_[target].model;
    request.inputs.push_back({targets_[target].input, values_[target]});
    if (high) request.priority = Priority::kHigh;
    request.received = Now();
    if (timeout_ > 0) request.deadline = request.received + timeout_;
    server_.Infer(std::move(request), [done = std::move(done)](Result<InferResponse> response) {
      done(response ? 0 : static_cast<int>(response.error().code()));
    });
  }

 private:
  Server& server_;
  const std::vector<LoadTarget>& targets_;
  const Time timeout_;
  std::vector<Literal> values_;
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

std::unique_ptr<Sender> MakeLocalSender(Server& server, const std::vector<LoadTarget>& targets,
                                        Time timeout) {
  return std::make_unique<LocalSender>(server, targets, timeout);
}

int ServeEcho() {
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
