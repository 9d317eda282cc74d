// weft serve: the model server (the program weft-serve), and looking at models without it.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/str.h"
#include "commands.h"
#include "serve/check.h"
#include "serve/client_backend.h"
#include "serve/flags.h"

namespace weft::tools {
namespace {

// Beside this program, else where the shell finds it.
[[noreturn]] void Become(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (length > 0) {
    std::string path(self, static_cast<size_t>(length));
    path = path.substr(0, path.rfind('/') + 1) + "weft-serve";
    execv(path.c_str(), argv.data());
  }
  execvp("weft-serve", argv.data());
  std::fprintf(
      stderr,
      "weft serve: weft-serve cannot be started: %s\n  hint: it is built where libnghttp2-dev, "
      "libprotobuf-dev, protobuf-compiler, libssl-dev and zlib1g-dev are installed\n",
      std::strerror(errno));
  std::exit(kFailed);
}

int CheckModel(const std::string& path, bool fill_cache) {
  auto fail = [](const Error& error) {
    std::fprintf(stderr, "weft serve: %s\n", error.ToString().c_str());
    return kFailed;
  };
  if (fill_cache && TheEnvironment().cache.empty()) {
    return fail(
        Error(Code::kFailedPrecondition, "there is no cache to compile into: WEFT_CACHE=0"));
  }
  auto backend = serve::MakeClientBackend({.lanes = 1});
  if (!backend) return fail(backend.error());
  auto report = serve::CheckFolder(path, **backend);
  if (!report) return fail(report.error());
  std::fputs(report->text.c_str(), stdout);
  if (fill_cache) std::printf("compiled into %s\n", TheEnvironment().cache.c_str());
  return report->problems == 0 ? kOk : kFailed;
}

Result<int> RunServe(Args args) {
  std::vector<std::string> words = args.TakeRest();
  if (words.size() == 2 && (words[0] == "check" || words[0] == "compile")) {
    return CheckModel(words[1], words[0] == "compile");
  }
  if (!words.empty() && (words[0] == "check" || words[0] == "compile")) {
    return InvalidArgument(words[0], " takes one folder");
  }
  // Wrong flags are said here, whether weft-serve is there or not.
  std::vector<const char*> flags;
  for (const std::string& word : words) flags.push_back(word.c_str());
  TRY(serve::ParseFlags(flags));
  words.insert(words.begin(), "weft-serve");
  Become(words);
}

}  // namespace

constexpr Command kServeCommand = {"serve", "models over REST and gRPC",
                                   R"(usage: weft serve --model_base_path DIR [FLAG]...
       weft serve check DIR
       weft serve compile DIR

Serves JAX models from folders that weft.serve.export wrote: starts weft-serve, which lists its flags
with --help. `check` says what is in a model's folder (or in the latest version of several), compiles
every program and reads every weight, and names what would not run. `compile` does the same to fill
the cache (WEFT_CACHE), after which the server starts without compiling.

examples:
  weft serve check models/mlp
  weft serve --model_base_path models/mlp --model_name mlp --rest_api_port 8501
)",
                                   RunServe};

}  // namespace weft::tools
