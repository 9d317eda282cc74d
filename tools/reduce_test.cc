#include "reduce_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/float_mode.h"
#include "base/npy.h"
#include "hlo/evaluate.h"
#include "hlo/random_arguments.h"
#include "hlo/text.h"
#include "inspect/crash_report.h"
#include "inspect/fault.h"
#include "native.h"

namespace weft::tools {
namespace {

constexpr int kWrongStatus = 10, kFailedStatus = 11;
constexpr int64_t kMostDevices = 64;
constexpr int64_t kLoopSteps = 1'000'000;  // random arguments may make loops endless

struct ChildTask {
  const hlo::Module& module;
  const TestRequest& request;
};

using ByDevice = std::vector<std::vector<Literal>>;

// What each device of the module gets.
Result<ByDevice> ReduceArguments(const hlo::Module& module, const TestRequest& request) {
  const hlo::ModuleConfig& config = module.config();
  int64_t replicas = std::max<int64_t>(config.replica_count, 1);
  int64_t partitions = std::max<int64_t>(config.num_partitions, 1);
  if (replicas > kMostDevices || partitions > kMostDevices / replicas) {
    return ResourceExhausted("more than ", kMostDevices, " devices");
  }
  ByDevice arguments;
  for (int64_t d = 0; d < replicas * partitions; ++d) {
    std::vector<Literal>& own =
        arguments.emplace_back(TRY(hlo::RandomArguments(*module.entry(), request.seed, d)));
    for (size_t i = 0; i < request.inputs.size() && i < own.size(); ++i) {
      Result<Literal> given = ReadNpyAs(request.inputs[i], own[i].shape());
      if (given) own[i] = std::move(*given);
    }
  }
  return arguments;
}

// The evaluator's results, as leaves.
Result<ByDevice> ReduceEvaluate(const hlo::Module& module, const ByDevice& arguments,
                                bool flush_subnormals) {
  hlo::EvalOptions eval;
  eval.flush_subnormals = flush_subnormals;
  eval.max_loop_steps = kLoopSteps;
  ByDevice results;
  if (arguments.size() == 1) {
    inspect::AppendArrays(TRY(hlo::Evaluate(module, arguments[0], eval)), results.emplace_back());
    return results;
  }
  eval.num_replicas = std::max<int64_t>(module.config().replica_count, 1);
  eval.num_partitions = std::max<int64_t>(module.config().num_partitions, 1);
  for (const Literal& value : TRY(hlo::EvaluateOnDevices(module, arguments, eval))) {
    inspect::AppendArrays(value, results.emplace_back());
  }
  return results;
}

Result<ByDevice> ReduceRun(const NativeModule& native, const ByDevice& arguments) {
  if (arguments.size() > 1) return RunNativeOnDevices(native, arguments);
  ByDevice results;
  results.push_back(TRY(RunNative(native, arguments[0])));
  return results;
}

// A module that the evaluator cannot run either says nothing about native code.
int CompareWithEvaluator(const void* data) {
  const ChildTask& task = *static_cast<const ChildTask*>(data);
  Result<ByDevice> arguments = ReduceArguments(task.module, task.request);
  if (!arguments) return 0;
  const bool flush = task.request.options.cpu.flush_subnormals;
  Result<ByDevice> wanted = ReduceEvaluate(task.module, *arguments, flush);
  if (!wanted) return 0;
  Result<NativeModule> native = CompileNative(task.module, task.request.options);
  if (!native) return native.error().code() == Code::kUnimplemented ? 0 : kFailedStatus;
  Result<ByDevice> got = ReduceRun(*native, *arguments);
  if (!got) return kFailedStatus;
  FloatMode mode(flush);
  for (size_t d = 0; d < wanted->size(); ++d) {
    if (!inspect::CompareResults((*wanted)[d], (*got)[d]).empty()) return kWrongStatus;
  }
  return 0;
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
    inspect::RemoveCrashReport();  // a crash is what is looked for
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
