// For fuzz targets of protocols: a server with one model, `m`, whose program gives back its input.
#pragma once

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/file.h"
#include "serve/server.h"

namespace weft::serve {

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
inline Server* MakeEchoServer() {
  std::string folder = P_tmpdir "/weft-serve-fuzz-XXXXXX";
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

}  // namespace weft::serve
