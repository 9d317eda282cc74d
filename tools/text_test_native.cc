// Run tests on native code, or on another device: the same results as the evaluator's.
#include <algorithm>

#include "base/str.h"
#include "hlo/evaluate.h"
#include "hlo/random_arguments.h"
#include "hlo/text.h"
#include "input.h"
#include "inspect/fault.h"
#include "native.h"
#include "run_input.h"
#include "text_test.h"

namespace weft::tools {
namespace {

// "on=eval,cpu" has cpu.
bool RunsOnCpu(const TestCase& test) {
  return test.kind == "run" && test.errors.empty() &&
         std::any_of(test.args.begin(), test.args.end(), [](const std::string& arg) {
           return arg.starts_with("on=") && arg.contains("cpu");
         });
}

// "target=...h200...": what the module computes must be the same on a GPU.
bool RendersForGpu(const TestCase& test) {
  return (test.kind == "render" || test.kind == "lower") &&
         std::any_of(test.args.begin(), test.args.end(), [](const std::string& arg) {
           return arg.starts_with("target=") && arg.contains("h200");
         });
}

std::string CompareDevice(std::vector<Literal>& leaves, const std::vector<Literal>& got,
                          const runtime::Tolerance& tolerance) {
  std::vector<Literal> want;
  for (Literal& leaf : leaves) {
    if (leaf.shape().IsArray()) want.push_back(std::move(leaf));
  }
  if (want.size() != got.size()) return StrCat(got.size(), " results instead of ", want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    std::string what = CompareLeaves(want[i], got[i], tolerance);
    if (!what.empty()) return StrCat("result ", i, ": ", what);
  }
  return "";
}

// GPUs add in orders of their own, for which no file says how far results may be off: sums of a few
// hundred f32, or ten times of what CPUs are allowed.
runtime::Tolerance OnGpu(runtime::Tolerance tolerance) {
  constexpr double kSums = 1e-5;
  tolerance.relative = std::max(kSums, 10 * tolerance.relative);
  return tolerance;
}

// What differs; empty: nothing.
Result<std::string> CompareNative(const TestCase& test, const compiler::CompileOptions& options,
                                  const std::shared_ptr<runtime::Device>& device) {
  NativeTestSettings settings = TRY(NativeSettingsOf(test));
  Input input = TRY(ParseInput(test.body));
  TRY(VerifyInput(input, test.body));
  const auto* module = std::get_if<0>(&input);
  if (module == nullptr) return InvalidArgument("a Program");
  hlo::ModuleConfig& config = (*module)->config();
  int64_t devices = TRY(DeviceCount(input, settings.run));
  if (device != nullptr && devices > 1) return std::string();
  config.num_partitions = std::max<int64_t>(config.num_partitions, 1);
  if (devices % config.num_partitions != 0) config.num_partitions = 1;
  config.replica_count = devices / config.num_partitions;
  std::vector<std::vector<Literal>> arguments = TRY(ArgumentsOf(input, settings.run));
  RunResult wanted = TRY(RunInput(input, settings.run));
  NativeModule native = TRY(CompileNative(**module, options, {.device = device}));
  std::vector<std::vector<Literal>> got = TRY(RunNativeOnDevices(native, arguments));
  runtime::Tolerance tolerance = device != nullptr ? OnGpu(settings.tolerance) : settings.tolerance;
  for (size_t d = 0; d < got.size(); ++d) {
    std::string what = CompareDevice(wanted.devices[d], got[d], tolerance);
    if (!what.empty()) return devices > 1 ? StrCat("device ", d, ": ", what) : what;
  }
  return std::string();
}

// Of a `render` or `lower` case: random arguments, as CompareWithEvaluator.
Result<std::string> CompareRendered(const TestCase& test,
                                    const std::shared_ptr<runtime::Device>& device) {
  RenderSettings settings = TRY(RenderSettingsOf(test));
  compiler::CompileOptions options;
  options.gpu.tf32 = false;
  TRY(compiler::ParseOptions(settings.options, options));
  auto module = TRY(hlo::ParseModule(test.body));
  NativeModule native = TRY(CompileNative(*module, options, {.device = device}));
  constexpr uint64_t kRounds = 2;
  for (uint64_t seed = 0; seed < kRounds; ++seed) {
    std::vector<Literal> arguments = TRY(hlo::RandomArguments(*module->entry(), seed)), want;
    inspect::AppendArrays(TRY(hlo::Evaluate(*module, arguments)), want);
    std::vector<Literal> got = TRY(RunNative(native, arguments));
    std::string what = CompareDevice(want, got, OnGpu({.relative = settings.tolerance}));
    if (!what.empty()) return StrCat("arguments ", seed, ": ", what);
  }
  return std::string();
}

}  // namespace

TestOutcome RunNativeCase(const TestCase& test, const compiler::CompileOptions& options,
                          const std::shared_ptr<runtime::Device>& device) {
  bool rendered = device != nullptr && RendersForGpu(test);
  if (!rendered && !RunsOnCpu(test)) return {};
  Result<std::string> what =
      rendered ? CompareRendered(test, device) : CompareNative(test, options, device);
  return {what ? *what : what.error().ToString(device != nullptr ? "device" : "native")};
}

}  // namespace weft::tools
