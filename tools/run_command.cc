// weft run: native code.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/npy.h"
#include "commands.h"
#include "compiler/options.h"
#include "hlo/evaluate.h"
#include "hlo/random_arguments.h"
#include "input.h"
#include "native.h"
#include "run_input.h"

namespace weft::tools {
namespace {

struct NativeRequest {
  std::string file;
  std::vector<std::string> inputs;
  compiler::CompileOptions options;
  uint64_t seed = 0;
  int64_t max_elements = 1'000'000, bench = 0;
  bool check = false;
  double tolerance = 1e-5;
};

double Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Formats with few digits are compared by those.
double ToleranceOf(DType dtype, double tolerance) {
  if (dtype == DType::kBF16) return std::max(tolerance, 0x1p-5);
  if (dtype == DType::kF16) return std::max(tolerance, 0x1p-8);
  return IsFloat(dtype) && BitWidth(dtype) <= 8 ? std::max(tolerance, 0x1p-1) : tolerance;
}

Status RunOne(const NativeRequest& request) {
  using Clock = std::chrono::steady_clock;
  Input input = TRY(LoadVerified(request.file));
  const auto* module = std::get_if<0>(&input);
  if (module == nullptr) return InvalidArgument("weft run takes a module, not a Program");
  std::vector<Literal> arguments = TRY(hlo::RandomArguments(*(*module)->entry(), request.seed));
  std::vector<Shape> leaves = ParameterLeaves(input);
  for (size_t i = 0; i < request.inputs.size() && i < arguments.size(); ++i) {
    arguments[i] = TRY(ReadNpyAs(request.inputs[i], leaves[i]));
  }
  auto start = Clock::now();
  NativeModule native = TRY(CompileNative(**module, request.options));
  double compile = Since(start);
  std::vector<Literal> results = TRY(RunNative(native, arguments));
  if (request.bench > 0) {
    std::vector<double> times;
    for (int64_t i = 0; i < request.bench; ++i) {
      auto t = Clock::now();
      TRY(RunNative(native, arguments));
      times.push_back(Since(t));
    }
    std::sort(times.begin(), times.end());
    std::printf("compiled in %.2f ms (%lld kernels), run: median %.4f ms, best %.4f ms of %lld\n",
                compile, static_cast<long long>(native.program->stats().kernels),
                times[times.size() / 2], times[0], static_cast<long long>(request.bench));
  } else if (!request.check) {
    RunResult shown;
    shown.devices.push_back(results);
    shown.is_tuple = (*module)->entry()->root()->shape().IsTuple();
    std::string text = FormatResults(shown, request.max_elements);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  if (!request.check) return {};
  RunOptions eval;
  eval.seed = request.seed;
  for (const Literal& argument : arguments) {
    if (argument.shape().IsArray()) eval.inputs.push_back(argument);
  }
  std::vector<Literal> want;
  RunResult wanted = TRY(RunInput(input, eval));
  for (Literal& leaf : wanted.devices[0]) {
    if (leaf.shape().IsArray()) want.push_back(std::move(leaf));
  }
  if (want.size() != results.size()) {
    return MakeError(Code::kInternal, "native code gives ", results.size(),
                     " results, the evaluator ", want.size());
  }
  for (size_t i = 0; i < want.size(); ++i) {
    std::string what =
        CompareLeaves(want[i], results[i], ToleranceOf(want[i].dtype(), request.tolerance));
    if (!what.empty())
      return MakeError(Code::kInternal, "result ", i, " differs from the evaluator's: ", what);
  }
  std::printf("same as the evaluator\n");
  return {};
}

Result<int> RunRun(Args args) {
  NativeRequest request;
  request.inputs = args.Values("--input");
  request.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  request.max_elements = args.Int("--max-elements", 1'000'000, -1);
  request.check = args.Flag("--check");
  request.bench = args.Int("--bench", 0, 0);
  request.tolerance = args.Number("--tolerance", request.tolerance);
  TRY(compiler::ParseOptions(args.Value("--options").value_or(""), request.options));
  request.file = TRY(args.Finish(1, 1))[0];
  Status status = RunOne(request);
  if (status) return kOk;
  Report(status.error(), request.file);
  return kFailed;
}

}  // namespace

constexpr Command kRunCommand = {"run", "compiles a module for this machine and runs it",
                                 R"(usage: weft run [FLAG]... FILE

Compiles the module to native code, runs it and prints the results as `weft eval` does.

  --input A.npy       value of the next parameter; parameters without one get random values
  --seed N            seed of random values (default 0)
  --check             compare with the evaluator instead of printing
  --tolerance T       floats may differ by T * max(1, |x|) (default 1e-5; narrow formats by more)
  --bench N           time N runs instead of printing
  --options=k=v,...   compile options
  --max-elements N    print larger arrays as {...} (default 1000000; -1: print all)

examples:
  weft run examples/train_mlp.hlo
  weft run --check model.hlo
)",
                                 RunRun};

}  // namespace weft::tools
