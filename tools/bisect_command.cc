// weft bisect: which pass breaks a module, or whether lowering or native code does.
#include <algorithm>
#include <cstdio>

#include "base/npy.h"
#include "commands.h"
#include "compiler/pipeline.h"
#include "cpu/device.h"
#include "hlo/random_arguments.h"
#include "input.h"
#include "inspect/fault.h"
#include "reduce_test.h"
#include "run_input.h"

namespace weft::tools {
namespace {

constexpr int kErrorStatus = 3;
constexpr int64_t kMostLoopSteps = 1'000'000;

struct BisectTask {
  const Input& input;
  const TestRequest& request;
};

Result<inspect::Fault> Bisect(const BisectTask& task) {
  const hlo::Module& module = *std::get<0>(task.input);
  std::vector<Literal> arguments = TRY(hlo::RandomArguments(*module.entry(), task.request.seed));
  std::vector<Shape> leaves = ParameterLeaves(task.input);
  for (size_t i = 0; i < task.request.inputs.size() && i < arguments.size(); ++i) {
    arguments[i] = TRY(ReadNpyAs(task.request.inputs[i], leaves[i]));
  }
  std::vector<Literal> arrays;
  for (const Literal& argument : arguments) inspect::AppendArrays(argument, arrays);
  std::unique_ptr<runtime::Device> device = TRY(cpu::CreateDevice());
  hlo::EvalOptions eval;
  eval.max_loop_steps = kMostLoopSteps;
  eval.flush_subnormals = task.request.options.cpu.flush_subnormals;
  return inspect::FindFault({.module = module,
                             .options = task.request.options,
                             .device = *device,
                             .arguments = arrays,
                             .eval = eval});
}

int BisectInChild(const void* data) {
  Result<inspect::Fault> fault = Bisect(*static_cast<const BisectTask*>(data));
  if (!fault) {
    std::printf("error: %s\n", fault.error().ToString().c_str());
    return kErrorStatus;
  }
  std::printf("%s\n", fault->kind == inspect::FaultKind::kNone
                          ? "no fault: native code gives what the evaluator gives"
                          : fault->ToString().c_str());
  return fault->kind == inspect::FaultKind::kNone ? kOk : kFailed;
}

// What crashes or cannot be compiled: the passes without which that does not happen.
Status TryWithoutPasses(const Input& input, TestRequest request) {
  std::vector<std::string> guilty, known;
  for (const compiler::Pass* pass : TRY(compiler::NativePipeline())) {
    std::string name(pass->name);
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    known.push_back(name);
    TestRequest without = request;
    without.options.pipeline.disable.push_back(name);
    Outcome outcome = RunTest(*std::get<0>(input), without);
    if (outcome == Outcome::kFine) guilty.push_back(name);
  }
  if (guilty.empty()) {
    std::printf("it happens without any one of the passes: lowering or native code\n");
  }
  for (const std::string& name : guilty) {
    std::printf("it does not happen without the pass %s (--options=pipeline.disable=%s)\n",
                name.c_str(), name.c_str());
  }
  return {};
}

Result<int> RunBisect(Args args) {
  TestRequest request;
  request.inputs = args.Values("--input");
  request.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  request.seconds = static_cast<int>(args.Int("--seconds", 300, 1));
  TRY(compiler::ParseOptions(args.Value("--options").value_or(""), request.options));
  std::string file = TRY(args.Finish(1, 1))[0];
  int found = kOk;
  Status status = [&]() -> Status {
    Input input = TRY(LoadVerified(file));
    if (input.index() != 0) return InvalidArgument("weft bisect takes a module, not a Program");
    BisectTask task{input, request};
    found = InChild(request.seconds, false, BisectInChild, &task);
    if (found == kOk || found == kFailed) return {};
    if (found >= 256) std::printf("crash: signal %d\n", found - 256);
    found = kFailed;
    return TryWithoutPasses(input, request);
  }();
  if (status) return found;
  Report(status.error(), file);
  return kFailed;
}

}  // namespace

constexpr Command kBisectCommand = {
    "bisect", "names the pass that breaks a module",
    R"(usage: weft bisect [--input A.npy]... [--seed N] [--seconds S] [--options=k=v,...] FILE

Says what makes native code give other results than the evaluator: the first pass after which the
module means something else, lowering, or the code of a step, with the first operation that comes
out differently and its source line. For a module that crashes or cannot be compiled: the passes
without which it can. Exit status 1 when something is wrong.

  --input A.npy     value of the next parameter; parameters without one get random values
  --seed N          seed of random values (default 0)
  --seconds S       for one trial (default 300)
  --options=k=v,... compile options

examples:
  weft bisect model.hlo
)",
    RunBisect};

}  // namespace weft::tools
