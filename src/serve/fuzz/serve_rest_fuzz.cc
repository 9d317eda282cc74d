// REST requests: paths, headers and bodies against a server with one model, and tensors in JSON.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>

#include "base/file.h"
#include "serve/rest.h"
#include "serve/rest_tensor.h"

namespace weft::serve {
namespace {

// A device whose one program gives back its input: f32[4,2] to f32[4,2].
class EchoProgram final : public Program {
 public:
  const std::vector<Shape>& parameters() const override { return shapes_; }
  const std::vector<Shape>& results() const override { return shapes_; }
  Result<std::vector<Literal>> Run(std::vector<RunArgument> arguments, const std::atomic<bool>*,
                                   RunTimes*) const override {
    return std::vector<Literal>{std::move(arguments[0].host)};
  }

 private:
  std::vector<Shape> shapes_ = {Shape(DType::kF32, {4, 2})};
};

class EchoBackend final : public Backend {
  std::string description() const override { return "echo"; }
  bool is_gpu() const override { return false; }
  Result<DeviceValueRef> Place(Literal) override { return Unimplemented("no device"); }
  Result<bool> Holds(const DeviceValue&, const Literal&) const override { return false; }
  Result<std::shared_ptr<const Program>> Compile(const ProgramText&) override {
    return std::make_shared<EchoProgram>();
  }
};

// With one model, `m`: bodies that are right go all the way.
Server* MakeServer() {
  std::string folder = (std::filesystem::temp_directory_path() / "weft-rest-fuzz-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  std::string version = StrCat(folder, "/1");
  mkdir(version.c_str(), 0700);
  constexpr std::string_view kTensor = "\"dtype\": \"f32\", \"shape\": [\"b\", 2]}], ";
  bool good =
      WriteFile(version + "/p.hlo", "ENTRY main {\n  ROOT x = f32[4,2] parameter(0)\n}\n") &&
      WriteFile(version + "/signature.json",
                StrCat("{\"format\": \"weft-serve/1\", \"variables\": [], \"graphs\": [{",
                       "\"name\": \"serving_default\", \"batch\": \"b\", \"inputs\": [{\"name\": ",
                       "\"x\", ", kTensor, "\"outputs\": [{\"name\": \"y\", ", kTensor,
                       "\"arguments\": [{\"input\": \"x\"}], \"programs\": [{\"file\": \"p.hlo\", ",
                       "\"sizes\": {\"b\": 4}}]}]}"));
  auto* server = new Server(std::make_unique<EchoBackend>(), ServerOptions());
  if (!good || !server->models().SetConfig({{"m", folder}})) std::abort();
  return server;
}

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
  static Server* server = MakeServer();
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
