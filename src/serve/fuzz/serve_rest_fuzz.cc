// REST requests: paths, headers and bodies against a server with one model, and tensors in JSON.
#include <cstdlib>
#include <future>
#include <string>

#include "serve/fuzz/echo_server.h"
#include "serve/rest.h"
#include "serve/rest_tensor.h"

namespace weft::serve {
namespace {

void ReadTensor(DType type, std::string_view text) {
  TensorReader reader(type);
  JsonReader json(text);
  if (!reader.Read(json)) return;
  Result<Literal> value = reader.Take(true);
  if (!value) return;
  std::string out;
  AppendTensor(out, *value);
  // What was written is read again.
  TensorReader again(type);
  JsonReader written(out);
  if (!again.Read(written)) std::abort();
}

}  // namespace
}  // namespace weft::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft::serve;
  static Server* server = MakeEchoServer();
  if (size == 0) return 0;
  uint8_t kind = data[0];
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr weft::DType kTypes[] = {weft::DType::kF32, weft::DType::kS8, weft::DType::kU64,
                                    weft::DType::kPred, weft::DType::kBF16};
  if (kind < std::size(kTypes)) {
    ReadTensor(kTypes[kind], text);
    return 0;
  }
  HttpRequest request{"POST", "/v2/models/m/infer", {}, text, 1};
  if (kind % 4 == 1) request.target = "/v1/models/m:predict";
  if (kind % 4 == 2) {
    request.target = "/" + text;
    request.body.clear();
    if (text.starts_with("v2/debug/trace")) return 0;  // answers when its time is over
  }
  if (kind % 4 == 3) {
    request.headers.emplace_back("inference-header-content-length", std::to_string(kind % 64));
  }
  // Answered once, on this thread or another.
  static RestApi* rest = new RestApi(*server);
  std::promise<void> answered;
  rest->Handle(std::move(request), [&](HttpResponse) { answered.set_value(); });
  answered.get_future().get();
  return 0;
}
