#include "reduce_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/npy.h"
#include "hlo/evaluate.h"
#include "hlo/random_arguments.h"
#include "hlo/text.h"
#include "inspect/fault.h"
#include "native.h"

namespace weft::tools {
namespace {

constexpr int kWrongStatus = 10, kFailedStatus = 11;
constexpr int64_t kLoopSteps = 1'000'000;  // random arguments may make loops endless

struct ChildTask {
  const hlo::Module& module;
  const TestRequest& request;
};

// A module that the evaluator cannot run either says nothing about native code.
int CompareWithEvaluator(const void* data) {
  const ChildTask& task = *static_cast<const ChildTask*>(data);
  Result<std::vector<Literal>> arguments =
      hlo::RandomArguments(*task.module.entry(), task.request.seed);
  if (!arguments) return 0;
  for (size_t i = 0; i < task.request.inputs.size() && i < arguments->size(); ++i) {
    Result<Literal> given = ReadNpyAs(task.request.inputs[i], (*arguments)[i].shape());
    if (given) (*arguments)[i] = std::move(*given);
  }
  hlo::EvalOptions eval;
  eval.max_loop_steps = kLoopSteps;
  Result<Literal> result = hlo::Evaluate(task.module, *arguments, eval);
  if (!result) return 0;
  std::vector<Literal> wanted;
  inspect::AppendArrays(*result, wanted);
  Result<NativeModule> native = CompileNative(task.module, task.request.options);
  if (!native) return native.error().code() == Code::kUnimplemented ? 0 : kFailedStatus;
  Result<std::vector<Literal>> got = RunNative(*native, *arguments);
  if (!got) return kFailedStatus;
  return inspect::CompareResults(wanted, *got).empty() ? 0 : kWrongStatus;
}

Outcome RunCommandOn(const hlo::Module& module, const std::string& command) {
  char path[] = "/tmp/weft-reduce-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) return Outcome::kFine;
  close(fd);
  Outcome outcome = Outcome::kFine;
  if (WriteFile(path, hlo::PrintModule(module)) &&
      std::system(StrCat(command, " ", path).c_str()) == 0) {
    outcome = Outcome::kWrong;
  }
  unlink(path);
  return outcome;
}

}  // namespace

std::string_view Name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFine: return "fine";
    case Outcome::kWrong: return "wrong";
    case Outcome::kFailed: return "an error";
    case Outcome::kCrashed: return "a crash";
  }
  return "";
}

int InChild(int seconds, bool quiet, int (*work)(const void* data), const void* data) {
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    alarm(static_cast<unsigned>(seconds));
    if (quiet) {
      int nowhere = open("/dev/null", O_WRONLY);
      if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    }
    int status = work(data);
    std::fflush(stdout);
    _exit(status);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) return 255;
  return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

Outcome RunTest(const hlo::Module& module, const TestRequest& request) {
  if (!request.command.empty()) return RunCommandOn(module, request.command);
  ChildTask task{module, request};
  int status = InChild(request.seconds, true, CompareWithEvaluator, &task);
  if (status == 0) return Outcome::kFine;
  if (status == kWrongStatus) return Outcome::kWrong;
  return status == kFailedStatus ? Outcome::kFailed : Outcome::kCrashed;
}

}  // namespace weft::tools
