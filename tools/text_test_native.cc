// Run tests on native code: the same results as the evaluator's.
#include <algorithm>

#include "base/str.h"
#include "input.h"
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

std::string CompareDevice(std::vector<Literal>& leaves, const std::vector<Literal>& got,
                          double tolerance) {
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

// What differs; empty: nothing.
Result<std::string> CompareNative(const TestCase& test, const compiler::CompileOptions& options) {
  NativeTestSettings settings = TRY(NativeSettingsOf(test));
  Input input = TRY(ParseInput(test.body));
  TRY(VerifyInput(input, test.body));
  const auto* module = std::get_if<0>(&input);
  if (module == nullptr) return InvalidArgument("a Program");
  hlo::ModuleConfig& config = (*module)->config();
  int64_t devices = TRY(DeviceCount(input, settings.run));
  config.num_partitions = std::max<int64_t>(config.num_partitions, 1);
  if (devices % config.num_partitions != 0) config.num_partitions = 1;
  config.replica_count = devices / config.num_partitions;
  std::vector<std::vector<Literal>> arguments = TRY(ArgumentsOf(input, settings.run));
  RunResult wanted = TRY(RunInput(input, settings.run));
  NativeModule native = TRY(CompileNative(**module, options));
  std::vector<std::vector<Literal>> got = TRY(RunNativeOnDevices(native, arguments));
  for (size_t d = 0; d < got.size(); ++d) {
    std::string what = CompareDevice(wanted.devices[d], got[d], settings.tolerance);
    if (!what.empty()) return devices > 1 ? StrCat("device ", d, ": ", what) : what;
  }
  return std::string();
}

}  // namespace

TestOutcome RunNativeCase(const TestCase& test, const compiler::CompileOptions& options) {
  if (!RunsOnCpu(test)) return {};
  Result<std::string> what = CompareNative(test, options);
  return {what ? *what : what.error().ToString("native")};
}

}  // namespace weft::tools
