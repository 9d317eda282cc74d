// Messages of gRPC: Open Inference's and TF Serving's requests against a server with one model.
#include <future>
#include <string>
#include <utility>

#include "serve/fuzz/echo_server.h"
#include "serve/infer_message.h"
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

}  // namespace
}  // namespace weft::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    weft::serve::FuzzInfer(bytes);
  } else {
    weft::serve::FuzzPredict(bytes);
  }
  return 0;
}
