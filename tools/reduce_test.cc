#include "reduce_test.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/float_mode.h"
#include "base/npy.h"
#include "device.h"
#include "hlo/evaluate.h"
#include "hlo/random_arguments.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "inspect/fault.h"
#include "native.h"

namespace weft::tools {
namespace {

constexpr int kWrongStatus = 10, kFailedStatus = 11;
constexpr int64_t kMostDevices = 64;
constexpr int64_t kLoopSteps = 1'000'000;  // random arguments may make loops endless

using SetStage = std::function<void(std::string_view)>;

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

// What the evaluator cannot run says nothing about native code, but when that crashes. `wanted`:
// what is looked for, so that nothing else need be found out.
int CompareNativeWithEvaluator(const hlo::Module& module, const TestRequest& request,
                               Outcome wanted, const SetStage& set_stage) {
  Result<ByDevice> arguments = ReduceArguments(module, request);
  if (!arguments) return 0;
  const bool flush = request.options.cpu.flush_subnormals;
  Result<std::shared_ptr<runtime::Device>> device = OpenDevice(request.device);
  if (!device) return 0;
  Result<NativeModule> native =
      CompileNative(module, request.options, {.stage = set_stage, .device = *device});
  if (!native) return native.error().code() == Code::kUnimplemented ? 0 : kFailedStatus;
  set_stage("evaluating");
  // Of the two that may take long, native code is the quicker one.
  Result<ByDevice> wanted_results = ByDevice{};
  if (wanted != Outcome::kCrashed && wanted != Outcome::kHangs) {
    wanted_results = ReduceEvaluate(module, *arguments, flush);
    if (!wanted_results) return 0;
  }
  set_stage("running");
  Result<ByDevice> got = ReduceRun(*native, *arguments);
  if (!got) return kFailedStatus;
  FloatMode mode(flush);
  for (size_t d = 0; d < wanted_results->size(); ++d) {
    if (!inspect::CompareResults((*wanted_results)[d], (*got)[d]).empty()) return kWrongStatus;
  }
  return 0;
}

int RunCommandOn(const hlo::Module& module, const std::string& command, const std::string& path) {
  if (!WriteFile(path, hlo::PrintModule(module))) return 0;
  int status = std::system(StrCat(command, " ", path).c_str());
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? kWrongStatus : 0;
}

}  // namespace

std::string_view Name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFine: return "fine";
    case Outcome::kWrong: return "wrong";
    case Outcome::kFailed: return "an error";
    case Outcome::kCrashed: return "a crash";
    case Outcome::kHangs: return "no end";
  }
  return "";
}

std::string Verdict::ToString() const {
  return stage.empty() ? std::string(Name(outcome)) : StrCat(Name(outcome), " in ", stage);
}

ModuleTest::ModuleTest(TestRequest request) : request_(std::move(request)) {
  if (request_.command.empty()) return;
  const char* base = std::getenv("TMPDIR");
  folder_ = StrCat(base == nullptr || *base == '\0' ? "/tmp" : base, "/weft-reduce-XXXXXX");
  if (mkdtemp(folder_.data()) == nullptr) folder_ = ".";
}

ModuleTest::~ModuleTest() {
  if (folder_.size() > 1) rmdir(folder_.c_str());
}

int ModuleTest::TestInChild(const hlo::Module& module, const Breadcrumbs& crumbs,
                            size_t child) const {
  if (!request_.command.empty()) return RunCommandOn(module, request_.command, FileFor(child));
  return CompareNativeWithEvaluator(module, request_, wanted_.outcome,
                                    [&](std::string_view stage) { crumbs.Set(child, stage); });
}

Verdict ModuleTest::VerdictOf(int status, const Breadcrumbs& crumbs, size_t child) const {
  if (status == 0 || status == kChildStopped) return {};
  if (status == kWrongStatus) return {Outcome::kWrong, ""};
  std::string stage = crumbs.Get(child);
  // The evaluator says what is right; what it does not live through is no fault of native code.
  if (stage == "evaluating") return {};
  if (status == kChildTimedOut) return {Outcome::kHangs, stage};
  return {status >= kChildSignal ? Outcome::kCrashed : Outcome::kFailed, stage};
}

Verdict ModuleTest::Run(const hlo::Module& module) const {
  Breadcrumbs crumbs(1);
  int status = InChild([&] { return TestInChild(module, crumbs, 0); },
                       {.seconds = request_.seconds, .quiet = true, .at_once = 1});
  if (!request_.command.empty()) unlink(FileFor(0).c_str());
  return VerdictOf(status, crumbs, 0);
}

Verdict ModuleTest::LookFor(const hlo::Module& module) {
  // Smaller modules take less; room for two of them on one core, and for a busy machine.
  constexpr double kLeast = 2, kTimesAsLong = 4;
  auto start = std::chrono::steady_clock::now();
  wanted_ = Run(module);
  double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (wanted_.outcome != Outcome::kHangs) {
    limit_ = std::min(request_.seconds, kLeast + kTimesAsLong * took);
  }
  return wanted_;
}

int ModuleTest::FirstFailing(size_t n, const MakeModule& make) const {
  Breadcrumbs crumbs(n);
  auto work = [&](size_t i) {
    std::unique_ptr<hlo::Module> module = make(i);
    if (module == nullptr || !hlo::Verify(*module)) return 0;
    return TestInChild(*module, crumbs, i);
  };
  auto wanted = [&](size_t i, int status) {
    if (!request_.command.empty()) unlink(FileFor(i).c_str());
    return VerdictOf(status, crumbs, i) == wanted_;
  };
  int found = FirstChild(n, work, wanted,
                         {.seconds = limit_ > 0 ? limit_ : request_.seconds,
                          .quiet = true,
                          .at_once = request_.at_once});
  if (!request_.command.empty()) {
    for (size_t i = 0; i < n; ++i) unlink(FileFor(i).c_str());
  }
  return found;
}

}  // namespace weft::tools
