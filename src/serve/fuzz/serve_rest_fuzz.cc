// REST requests: paths, headers and bodies against a server without models, and tensors in JSON.
#include <cstdlib>
#include <string>

#include "serve/rest.h"
#include "serve/rest_tensor.h"

namespace weft::serve {
namespace {

class NoBackend final : public Backend {
  std::string description() const override { return "none"; }
  bool is_gpu() const override { return false; }
  Result<DeviceValueRef> Place(Literal) override { return Unimplemented("no device"); }
  Result<std::shared_ptr<const Program>> Compile(const ProgramText&) override {
    return Unimplemented("no device");
  }
};

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
  static Server* server = new Server(std::make_unique<NoBackend>(), ServerOptions());
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
  }
  if (kind % 4 == 3) {
    request.headers.emplace_back("inference-header-content-length", std::to_string(kind % 64));
  }
  int answers = 0;
  RestApi(*server).Handle(std::move(request), [&](HttpResponse) { ++answers; });
  if (answers != 1) std::abort();
  return 0;
}
