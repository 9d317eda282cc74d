// The kinds `render` and `lower`: what a module becomes for a target.
#include <algorithm>

#include "compiler/lower/compile.h"
#include "gpu/nvrtc.h"
#include "gpu/render_program.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "program/program.h"
#include "target.h"
#include "text_test.h"

namespace weft::tools {
namespace {

std::string_view TrimComment(std::string_view line) {
  while (!line.empty() && (line.front() == ' ' || line.front() == '/')) line.remove_prefix(1);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

// Each line of `expect` is part of a line of the text, in this order. The one that is not, if any.
std::optional<std::string> MissingLine(std::string_view expect, std::string_view text) {
  size_t at = 0;
  while (!expect.empty()) {
    size_t end = std::min(expect.find('\n'), expect.size());
    std::string_view line = TrimComment(expect.substr(0, end));
    expect.remove_prefix(std::min(end + 1, expect.size()));
    if (line.empty()) continue;
    size_t found = text.find(line, at);
    if (found == std::string_view::npos) return std::string(line);
    at = found + line.size();
  }
  return std::nullopt;
}

// Whether NVRTC accepts the text; yes where there is none.
Status CompileCuda(const std::string& text, const std::string& machine) {
  static const std::string kPackages[] = {".venv/lib/python3*/site-packages/nvidia/*/lib"};
  static const auto nvrtc = gpu::Nvrtc::Load(kPackages);
  if (!nvrtc) return {};
  TRY((*nvrtc)->Compile(text, "program.cu", machine));
  return {};
}

// The Program of a module for one target. It verifies and computes what the evaluator does.
Result<program::Program> CompileFor(const TestCase& test, const RenderSettings& settings,
                                    const program::TargetInfo& target) {
  compiler::CompileOptions options;
  TRY(compiler::ParseOptions(settings.options, options));
  auto module = TRY(hlo::ParseModule(test.body));
  TRY(hlo::Verify(*module));
  compiler::Compiled compiled = TRY(compiler::Compile(*module, options, target));
  TRY(program::Verify(compiled.program));
  std::string what = TRY(CompareWithEvaluator(*module, compiled.program, settings.tolerance));
  if (!what.empty())
    return MakeError(Code::kInternal, what, "\n", program::Print(compiled.program));
  return std::move(compiled.program);
}

Result<std::string> LowerForAll(const TestCase& test) {
  RenderSettings settings = TRY(RenderSettingsOf(test));
  bool several = settings.target.contains(',');
  std::string text;
  for (std::string_view rest = settings.target; !rest.empty();) {
    std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    if (several) StrAppend(text, text.empty() ? "" : "\n", "// target ", name, "\n");
    program::TargetInfo target = TRY(FindTarget(name));
    text += program::Print(TRY(CompileFor(test, settings, target)));
  }
  return text;
}

}  // namespace

Result<RenderSettings> RenderSettingsOf(const TestCase& test) {
  RenderSettings s;
  for (const std::string& arg : test.args) {
    std::string key = arg.substr(0, arg.find('='));
    std::string value = arg.size() > key.size() ? arg.substr(key.size() + 1) : "";
    if (key == "target") {
      s.target = value;
    } else if (std::optional<double> number = ParseDouble(value); key == "tolerance" && number) {
      s.tolerance = *number;
    } else if (key.contains('.')) {
      StrAppend(s.options, s.options.empty() ? "" : ",", arg);
    } else {
      return InvalidArgument("unknown argument of a ", test.kind, " test: ", arg);
    }
  }
  return s;
}

TestOutcome RunLower(const TestCase& test) {
  Result<std::string> text = LowerForAll(test);
  if (!text) return {text.error().ToString("line")};
  return CompareText(test, *text);
}

TestOutcome RunRender(const TestCase& test) {
  auto run = [&]() -> Result<std::string> {
    RenderSettings settings = TRY(RenderSettingsOf(test));
    program::TargetInfo target = TRY(FindTarget(settings.target));
    program::Program program = TRY(CompileFor(test, settings, target));
    std::string text = program::Print(program);
    if (!target.RunsOnHost()) {
      text = gpu::RenderProgram(program).text;
      TRY(CompileCuda(text, target.name));
    }
    std::optional<std::string> missing = MissingLine(test.expect.value_or(""), text);
    return missing ? StrCat("not there, or not in this order: ", *missing, "\n", text)
                   : std::string();
  };
  Result<std::string> failure = run();
  if (!failure) return {failure.error().ToString("line")};
  return {*failure};
}

}  // namespace weft::tools
