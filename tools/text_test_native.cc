// Run tests on native code: the same results as the evaluator's.
#include <algorithm>

#include "base/str.h"
#include "hlo/random_arguments.h"
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

// What differs; empty: nothing.
Result<std::string> CompareNative(const TestCase& test, const compiler::CompileOptions& options) {
  NativeTestSettings settings = TRY(NativeSettingsOf(test));
  Input input = TRY(ParseInput(test.body));
  TRY(VerifyInput(input, test.body));
  const auto* module = std::get_if<0>(&input);
  if (module == nullptr) return InvalidArgument("a Program");
  std::vector<Literal> arguments =
      TRY(hlo::RandomArguments(*(*module)->entry(), settings.run.seed));
  for (size_t i = 0; i < settings.run.inputs.size() && i < arguments.size(); ++i) {
    arguments[i] = settings.run.inputs[i];
  }
  settings.run.inputs.clear();
  for (const Literal& argument : arguments) {
    if (argument.shape().IsArray()) settings.run.inputs.push_back(argument);
  }
  RunResult wanted = TRY(RunInput(input, settings.run));
  NativeModule native = TRY(CompileNative(**module, options));
  std::vector<Literal> got = TRY(RunNative(native, arguments));
  std::vector<Literal> want;
  for (Literal& leaf : wanted.devices[0]) {
    if (leaf.shape().IsArray()) want.push_back(std::move(leaf));
  }
  if (want.size() != got.size()) {
    return StrCat(got.size(), " results instead of ", want.size());
  }
  for (size_t i = 0; i < want.size(); ++i) {
    std::string what = CompareLeaves(want[i], got[i], settings.tolerance);
    if (!what.empty()) return StrCat("result ", i, ": ", what);
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
