// gRPC: Open Inference's and TF Serving's requests against a server with one model, and bytes of
// connections.
#include <google/protobuf/stubs/logging.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>
#include <utility>

#include "serve/fuzz/echo_server.h"
#include "serve/infer_message.h"
#include "serve/net/grpc_connection.h"
#include "serve/net/predict_message.h"

namespace weft::serve {
namespace {

Server& EchoServer() {
  static Server* server = MakeEchoServer();
  return *server;
}

// What is read is run and answered, and what is answered is a message.
template <class Fill>
void Answer(InferRequest infer, Fill fill) {
  std::promise<void> answered;
  EchoServer().Infer(std::move(infer), [&](Result<InferResponse> response) {
    if (response) fill(*response);
    answered.set_value();
  });
  answered.get_future().get();
}

void FuzzInfer(const std::string& bytes) {
  InferReply reply;
  InferRequest infer;
  infer.received = Now();
  const SharedMemory& memory = EchoServer().shared_memory();
  if (!ReadInferRequest(bytes, memory, infer, reply)) return;
  Answer(std::move(infer),
         [&](const InferResponse& result) { (void)WriteInferResponse(result, reply, memory, 0); });
}

void FuzzPredict(const std::string& bytes) {
  tensorflow::serving::PredictRequest request;
  if (!request.ParseFromString(bytes)) return;
  InferRequest infer;
  if (!ReadPredict(request, infer)) return;
  Answer(std::move(infer), [&](const InferResponse& result) {
    tensorflow::serving::PredictResponse response;
    FillPredict(result, response);
    response.SerializeAsString();
  });
}

// Answers each call with what it sent, from where that lies, several times where it is long.
class EchoHandler final : public CallHandler {
 public:
  CallKind KindOf(std::string_view method) const override {
    return method.size() % 3 == 0 ? CallKind::kConversation : CallKind::kUnary;
  }
  void Handle(const CallRef& call) override {
    Message answer(NewMessage());
    const std::string_view message = call->message();
    for (size_t i = 0; i < message.size() && i < 1 + kWorthKeeping / 512; ++i)
      answer.slices.push_back({answer.text.size(), call->storage(), message});
    if (message.size() % 2 == 1) answer.text += message;
    call->Finish({}, std::move(answer));
  }
  std::string Converse(const CallRef&, std::string_view message) override {
    return NewMessage() + std::string(message);
  }
};

// A client that says this and goes; its begin is as it has to be.
void FuzzConnection(const std::string& bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) return;
  constexpr std::string_view kBegin("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  std::string all = std::string(kBegin) + bytes;
  (void)!write(ends[1], all.data(), all.size());
  EchoHandler handler;
  auto connection = GrpcConnection::Make(ends[0], nullptr, {.max_request_bytes = 4096}, handler);
  connection->Serve(false);
  connection->RefuseCalls();
  close(ends[1]);
  connection->Serve(true);
}

}  // namespace
}  // namespace weft::serve

// Protobuf would print what is wrong with each input.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    weft::serve::FuzzInfer(bytes);
  } else if (data[0] % 3 == 1) {
    weft::serve::FuzzConnection(bytes);
  } else {
    weft::serve::FuzzPredict(bytes);
  }
  return 0;
}
