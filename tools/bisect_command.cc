// weft bisect: which pass breaks a module, or whether lowering or native code does.
#include <cstdio>

#include "base/npy.h"
#include "child.h"
#include "commands.h"
#include "compiler/lower/compile.h"
#include "compiler/pipeline.h"
#include "cpu/device.h"
#include "crash_site.h"
#include "hlo/random_arguments.h"
#include "input.h"
#include "inspect/fault.h"
#include "reduce_test.h"
#include "run_input.h"
#include "runtime/literals.h"

namespace weft::tools {
namespace {

constexpr int kErrorStatus = 3;
constexpr int64_t kMostLoopSteps = 1'000'000;

struct BisectTask {
  const Input& input;
  const std::string& file;
  const TestRequest& request;
  const hlo::Module& module() const { return *std::get<0>(input); }
};

Result<std::vector<Literal>> BisectArguments(const BisectTask& task) {
  std::vector<Literal> arguments =
      TRY(hlo::RandomArguments(*task.module().entry(), task.request.seed));
  std::vector<Shape> leaves = ParameterLeaves(task.input);
  for (size_t i = 0; i < task.request.inputs.size() && i < arguments.size(); ++i) {
    arguments[i] = TRY(ReadNpyAs(task.request.inputs[i], leaves[i]));
  }
  return arguments;
}

Result<inspect::Fault> Bisect(const BisectTask& task) {
  std::vector<Literal> arrays;
  for (const Literal& argument : TRY(BisectArguments(task))) {
    inspect::AppendArrays(argument, arrays);
  }
  std::unique_ptr<runtime::Device> device = TRY(cpu::CreateDevice());
  hlo::EvalOptions eval;
  eval.max_loop_steps = kMostLoopSteps;
  eval.flush_subnormals = task.request.options.cpu.flush_subnormals;
  return inspect::FindFault({.module = task.module(),
                             .options = task.request.options,
                             .device = *device,
                             .arguments = arrays,
                             .eval = eval});
}

int BisectInChild(const BisectTask& task) {
  Result<inspect::Fault> fault = Bisect(task);
  if (!fault) {
    std::printf("error: %s\n", fault.error().ToString().c_str());
    return kErrorStatus;
  }
  std::printf("%s\n", fault->kind == inspect::FaultKind::kNone
                          ? "no fault: native code gives what the evaluator gives"
                          : fault->ToString().c_str());
  return fault->kind == inspect::FaultKind::kNone ? kOk : kFailed;
}

// What comes behind the passes.
Status LowerAndRun(const BisectTask& task, const hlo::Module& module,
                   const std::function<void(std::string_view)>& stage) {
  std::vector<Literal> leaves;
  for (const Literal& argument : TRY(BisectArguments(task))) {
    inspect::AppendArrays(argument, leaves);
  }
  std::unique_ptr<runtime::Device> device = TRY(cpu::CreateDevice());
  stage("lowering");
  program::Program program =
      TRY(compiler::LowerWith(module, task.request.options, device->target()));
  stage("code generation");
  std::unique_ptr<runtime::LoadedProgram> loaded = TRY(device->Load(std::move(program), {}));
  stage("running");
  TRY(runtime::LiteralRunner(*loaded).Run(leaves, {}));
  return {};
}

// The stage on the stack, the pass that made what it dies on, and the passes without which it does
// not happen; false: it lives.
Result<bool> ReportCrash(const BisectTask& task) {
  std::vector<const compiler::Pass*> passes = TRY(compiler::NativePipeline());
  CrashRequest request{
      .module = task.module(),
      .options = task.request.options,
      .passes = passes,
      .rest =
          [&](const hlo::Module& module, const std::function<void(std::string_view)>& stage) {
            return LowerAndRun(task, module, stage) ? kOk : kErrorStatus;
          },
      .seconds = task.request.seconds};
  CrashSite site = FindCrashSite(request);
  if (site.status == 0) return false;
  std::fputs(DescribeCrash(site, task.request.seconds, task.file).c_str(), stdout);
  std::fflush(stdout);
  for (const std::string& name : PassesThatMatter(request, site)) {
    std::printf("it does not happen without the pass %s (--options=pipeline.disable=%s)\n",
                name.c_str(), name.c_str());
  }
  return true;
}

Result<int> BisectFile(const std::string& file, const TestRequest& request) {
  Input input = TRY(LoadVerified(file));
  if (input.index() != 0) return InvalidArgument("weft bisect takes a module, not a Program");
  BisectTask task{input, file, request};
  InterruptScope interrupts;
  int status = InChild([&] { return BisectInChild(task); },
                       {.seconds = request.seconds, .quiet = false, .at_once = 1});
  if (status == kOk || status == kFailed) return status;
  if (Interrupted()) return MakeError(Code::kCancelled, "interrupted");
  if (status != kErrorStatus) {
    std::printf("%s\n", DescribeEnd(status, request.seconds).c_str());
  }
  if (!TRY(ReportCrash(task))) {
    std::printf(
        "it is compiled and runs by itself: the evaluator, or the check of steps, ended so\n");
  }
  return kFailed;
}

Result<int> RunBisect(Args args) {
  TestRequest request;
  request.inputs = args.Values("--input");
  request.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  request.seconds = args.Number("--seconds", 300);
  TRY(TakeOptions(args, request.options));
  std::string file = TRY(args.Finish(1, 1))[0];
  Result<int> status = BisectFile(file, request);
  if (status) return status;
  Report(status.error(), file);
  return kFailed;
}

}  // namespace

constexpr Command kBisectCommand = {
    "bisect", "names the pass that breaks a module",
    R"(usage: weft bisect [--input A.npy]... [--seed N] [--seconds S] [--options=k=v,...] FILE

Says what makes native code give other results than the evaluator: the first pass after which the
module means something else, lowering, or the code of a step, with the first operation that comes
out differently and its source line. For a module that crashes, hangs or cannot be compiled: the
pass (or lowering, code generation, running) on the stack, the earlier pass that made the module it
dies on, the commands that show it, and the passes without which it does not happen. Exit status 1
when something is wrong.

  --input A.npy     value of the next parameter; parameters without one get random values
  --seed N          seed of random values (default 0)
  --seconds S       for one trial (default 300)
  --options=k=v,... compile options

examples:
  weft bisect model.hlo
)",
    RunBisect};

}  // namespace weft::tools
