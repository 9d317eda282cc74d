// Running test cases, kind by kind.
#include <algorithm>

#include "compiler/pipeline.h"
#include "hlo/clone.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "input.h"
#include "run_input.h"
#include "same_results.h"
#include "text_test.h"

namespace weft::tools {
namespace {

std::string WithoutSpaces(std::string_view s) {
  std::string out;
  for (char c : s) {
    if (c != ' ' && c != '\t' && c != '\r') out += c;
  }
  while (out.ends_with('\n')) out.pop_back();
  while (out.starts_with('\n')) out.erase(0, 1);
  return out;
}

std::string TrimLines(std::string_view s) {
  size_t begin = std::min(s.find_first_not_of('\n'), s.size());
  size_t end = s.find_last_not_of(" \n");
  return end == std::string_view::npos ? "" : std::string(s.substr(begin, end + 1 - begin));
}

// The number of the last line that is not empty: an error at the end of the text is on that one.
int LastLine(std::string_view body) {
  size_t end = body.find_last_not_of(" \t\r\n");
  return 1 + static_cast<int>(std::count(
                 body.begin(), body.begin() + static_cast<std::ptrdiff_t>(end + 1), '\n'));
}

// An error where the case wants one (or none).
TestOutcome CheckErrors(const TestCase& test, const Status& status) {
  if (test.errors.empty()) {
    if (status) return {};
    return {StrCat("unexpected error: ", status.error().ToString("line"))};
  }
  const TestCase::ExpectedError& want = test.errors.front();
  if (status) return {StrCat("no error; expected at line ", want.line, ": ", want.text)};
  const Error& error = status.error();
  if (!error.ToString().contains(want.text)) {
    return {StrCat("another error than expected\n  - ", want.text, "\n  + ", error.message())};
  }
  int line = std::min(error.line(), LastLine(test.body));
  if (line != want.line) {
    return {
        StrCat("the error is at line ", line, ", expected at ", want.line, ": ", error.message())};
  }
  return {};
}

// The form of HLO in expectations: complete, but without what people do not write.
hlo::PrintOptions TestForm(const TestCase& test) {
  hlo::PrintOptions options;
  options.percent = options.metadata = options.stack_frames = options.origin = false;
  options.header = test.body.contains("HloModule");
  return options;
}

TestOutcome RunRoundtrip(const TestCase& test) {
  auto module = hlo::ParseModule(test.body);
  if (!module) return {module.error().ToString("line")};
  std::string once = hlo::PrintModule(**module);
  auto again = hlo::ParseModule(once);
  if (!again) return {StrCat("the printed text does not parse: ", again.error().ToString("line"))};
  std::string twice = hlo::PrintModule(**again);
  if (once != twice) {
    return {StrCat("printing again changes the text (- first, + second)\n", LineDiff(once, twice))};
  }
  if (!test.expect) return {};
  bool brief = std::find(test.args.begin(), test.args.end(), "short") != test.args.end();
  return CompareText(test, hlo::PrintModule(**module, brief ? hlo::PrintOptions::Short()
                                                            : hlo::PrintOptions::Full()));
}

TestOutcome RunParseError(const TestCase& test) {
  if (test.errors.empty()) return {"no `// error: ` in a parse-error test"};
  auto module = hlo::ParseModule(test.body);
  return CheckErrors(test, module ? Status() : std::unexpected(module.error()));
}

TestOutcome RunVerify(const TestCase& test) {
  auto check = [&]() -> Status {
    Input input = TRY(ParseInput(test.body));
    return VerifyInput(input, test.body);
  };
  return CheckErrors(test, check());
}

TestOutcome RunPass(const TestCase& test) {
  std::string difference;
  auto run = [&]() -> Result<std::string> {
    std::string names, options_text;
    double tolerance = 0;
    for (const std::string& arg : test.args) {
      if (arg.starts_with("tolerance=")) {
        tolerance = ParseDouble(arg.substr(arg.find('=') + 1)).value_or(0);
      } else if (arg.contains('=')) {
        StrAppend(options_text, options_text.empty() ? "" : ",", arg);
      } else {
        StrAppend(names, names.empty() ? "" : ",", arg);
      }
    }
    compiler::CompileOptions options;
    TRY(compiler::ParseOptions(options_text, options));
    auto passes = TRY(compiler::FindPasses(names));
    auto module = TRY(hlo::ParseModule(test.body));
    TRY(hlo::Verify(*module));
    std::unique_ptr<hlo::Module> before = hlo::CloneModule(*module);
    TRY(compiler::RunPasses(*module, passes, options));
    difference = FindDifference(*before, *module, tolerance);
    return hlo::PrintModule(*module, TestForm(test));
  };
  Result<std::string> text = run();
  if (!text || !test.errors.empty()) {
    return CheckErrors(test, text ? Status() : std::unexpected(text.error()));
  }
  if (!difference.empty()) return {StrCat(difference, "\n", *text)};
  return CompareText(test, *text);
}

// "f32[2] {1, 2}", with or without "0: " in front.
Result<Literal> ParseValue(std::string_view text) {
  size_t colon = text.find(": ");
  if (colon != std::string_view::npos && ParseInt(text.substr(0, colon))) {
    text.remove_prefix(colon + 2);
  }
  size_t space = std::min(text.find(' '), text.size());
  Shape shape = TRY(hlo::ParseShape(text.substr(0, space)));
  if (!shape.IsArray()) return InvalidArgument("an array is needed: ", text);
  return hlo::ParseLiteral(shape, text.substr(std::min(space + 1, text.size())));
}

struct RunSettings {
  RunOptions options;
  double tolerance = 0, ulps = runtime::kFunctionUlps;
  bool smoke = false;  // without an expectation it is enough that it runs
};

// Of what native code computes, and other passes.
runtime::Tolerance NativeTolerance(const RunSettings& settings) {
  return {.ulps = settings.ulps, .relative = settings.tolerance};
}

Result<RunSettings> ReadSettings(const TestCase& test) {
  RunSettings s;
  for (const std::string& arg : test.args) {
    std::string key = arg.substr(0, arg.find('='));
    std::string value = arg.size() > key.size() ? arg.substr(key.size() + 1) : "";
    std::optional<double> number = ParseDouble(value);
    if (key == "on" || key == "run") continue;
    if (key == "inputs" && value == "random") {
      s.smoke = true;
    } else if (key == "seed" && number) {
      s.options.seed = static_cast<uint64_t>(*number);
    } else if (key == "devices" && number && *number >= 1) {
      s.options.devices = static_cast<int64_t>(*number);
    } else if (key == "max_loop_steps" && number && *number >= 1) {
      s.options.max_loop_steps = static_cast<int64_t>(*number);
    } else if (key == "tolerance" && number) {
      s.tolerance = *number;
    } else if (key == "ulps" && number) {
      s.ulps = *number;
    } else {
      return InvalidArgument("unknown argument of a run test: ", arg);
    }
  }
  for (const std::string& input : test.inputs) s.options.inputs.push_back(TRY(ParseValue(input)));
  return s;
}

// Expected values may be in comments.
std::string Uncomment(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.starts_with("//")) line.remove_prefix(line.starts_with("// ") ? 3 : 2);
    if (!line.empty()) StrAppend(out, line, "\n");
    at = end + 1;
  }
  return out;
}

// A case of `pass` says by how much its passes may change results, nothing else.
RunSettings PassSettings(const TestCase& test) {
  RunSettings s;
  for (const std::string& arg : test.args) {
    if (!arg.starts_with("tolerance=")) continue;
    s.tolerance = ParseDouble(arg.substr(arg.find('=') + 1)).value_or(0);
  }
  return s;
}

// With a tolerance: value by value, line by line.
Result<std::string> CompareValues(const std::string& want, const std::string& got,
                                  const runtime::Tolerance& tolerance) {
  auto lines = [](std::string_view s) {
    std::vector<std::string_view> out;
    for (size_t at = 0; at < s.size();) {
      size_t end = std::min(s.find('\n', at), s.size());
      out.push_back(s.substr(at, end - at));
      at = end + 1;
    }
    return out;
  };
  auto a = lines(want), b = lines(got);
  if (a.size() != b.size()) return StrCat(a.size(), " lines expected, ", b.size(), " printed");
  for (size_t i = 0; i < a.size(); ++i) {
    if (WithoutSpaces(a[i]) == WithoutSpaces(b[i])) continue;
    Literal x = TRY(ParseValue(a[i])), y = TRY(ParseValue(b[i]));
    std::string what = CompareLeaves(x, y, tolerance);
    if (!what.empty()) return StrCat("line ", i + 1, " of the results: ", what);
  }
  return std::string();
}

// Without spaces, and without the sign of NaNs: a NaN that an operation makes has the machine's
// sign.
std::string ResultKey(std::string_view text) {
  std::string key = WithoutSpaces(text);
  for (size_t at; (at = key.find("-nan")) != std::string::npos;) key.erase(at, 1);
  return key;
}

TestOutcome RunRun(const TestCase& test) {
  Result<RunSettings> settings = ReadSettings(test);
  if (!settings) return {settings.error().message()};
  auto run = [&]() -> Result<std::string> {
    Input input = TRY(ParseInput(test.body));
    TRY(VerifyInput(input, test.body));
    Result<RunResult> result = RunInput(input, settings->options);
    if (!result) return std::unexpected(Locate(result.error(), test.body));
    return FormatResults(*result);
  };
  Result<std::string> text = run();
  if (!test.errors.empty() && !text && text.error().message().contains(test.errors[0].text)) {
    return {};
  }
  if (!text || !test.errors.empty()) {
    return CheckErrors(test, text ? Status() : std::unexpected(text.error()));
  }
  if (!test.expect) {
    if (settings->smoke) return {};
    return {"no `// expect`; --bless writes one", *text};
  }
  std::string want = Uncomment(*test.expect);
  if (ResultKey(want) == ResultKey(*text)) return {};
  if (settings->tolerance > 0) {
    Result<std::string> what = CompareValues(want, *text, {.relative = settings->tolerance});
    if (what && what->empty()) return {};
    return {what ? *what : what.error().message(), *text};
  }
  return {StrCat("the results differ (- expected, + actual)\n", LineDiff(want, *text)), *text};
}

// The case's module through passes, evaluated.
Result<std::string> RunThrough(const TestCase& test, const RunSettings& settings,
                               std::string_view passes) {
  std::unique_ptr<hlo::Module> module = TRY(hlo::ParseModule(test.body));
  TRY(hlo::Verify(*module));
  if (settings.options.devices > 1 && module->config().replica_count == 1) {
    int64_t partitions = std::max<int64_t>(module->config().num_partitions, 1);
    module->config().replica_count = settings.options.devices / partitions;
  }
  auto found = TRY(compiler::FindPasses(passes));
  TRY(compiler::RunPasses(*module, found, compiler::CompileOptions()));
  return FormatResults(TRY(RunInput(Input(std::move(module)), settings.options)));
}

// What the module gives as it stands, and after each of the lists of passes, is the same. Cases
// that do not run are left out.
TestOutcome RunThroughPasses(const TestCase& test, const std::string& lists) {
  Result<RunSettings> settings = test.kind == "run" ? ReadSettings(test) : PassSettings(test);
  if (!settings) return {settings.error().message()};
  Result<std::unique_ptr<hlo::Module>> original = hlo::ParseModule(test.body);
  if (!original) return {};
  settings->options.inputs_of = original->get();
  Result<std::string> want = RunThrough(test, *settings, "");
  if (!want) return {};
  for (size_t at = 0, end = 0; at < lists.size(); at = end + 1) {
    end = std::min(lists.find(';', at), lists.size());
    std::string_view passes = std::string_view(lists).substr(at, end - at);
    Result<std::string> got = RunThrough(test, *settings, passes);
    if (!got) return {StrCat("after ", passes, ": ", got.error().ToString("line"))};
    if (ResultKey(*want) == ResultKey(*got)) continue;
    Result<std::string> what = CompareValues(*want, *got, NativeTolerance(*settings));
    if (what && what->empty()) continue;
    return {StrCat("after ", passes, ": ", what ? *what : what.error().message())};
  }
  return {};
}

TestOutcome RunProgram(const TestCase& test) {
  std::string printed;
  auto check = [&]() -> Status {
    program::Program program = TRY(program::Parse(test.body));
    TRY(program::Verify(program, test.body));
    printed = program::Print(program);
    return {};
  };
  Status status = check();
  if (!status || !test.errors.empty()) return CheckErrors(test, status);
  Result<program::Program> again = program::Parse(printed);
  if (!again) return {StrCat("the printed text does not parse: ", again.error().ToString("line"))};
  if (std::string twice = program::Print(*again); twice != printed) {
    return {
        StrCat("printing again changes the text (- first, + second)\n", LineDiff(printed, twice))};
  }
  if (std::find(test.args.begin(), test.args.end(), "run") != test.args.end()) return RunRun(test);
  return test.expect ? CompareText(test, printed) : TestOutcome();
}

}  // namespace

TestOutcome CompareText(const TestCase& test, const std::string& actual) {
  std::string got = TrimLines(actual), want = TrimLines(test.expect.value_or(""));
  if (got == want) return {};
  return {StrCat("the output differs (- expected, + actual)\n", LineDiff(want, got)), got};
}

Result<NativeTestSettings> NativeSettingsOf(const TestCase& test) {
  RunSettings settings = TRY(ReadSettings(test));
  runtime::Tolerance tolerance = NativeTolerance(settings);
  return NativeTestSettings{std::move(settings.options), tolerance};
}

TestOutcome RunCase(const TestCase& test, const std::string& passes) {
  if (!passes.empty()) {
    bool runs = test.kind == "run" || test.kind == "pass";
    return runs ? RunThroughPasses(test, passes) : TestOutcome();
  }
  if (test.kind == "roundtrip") return RunRoundtrip(test);
  if (test.kind == "parse-error") return RunParseError(test);
  if (test.kind == "verify") return RunVerify(test);
  if (test.kind == "pass") return RunPass(test);
  if (test.kind == "run") return RunRun(test);
  if (test.kind == "program") return RunProgram(test);
  if (test.kind == "render") return RunRender(test);
  if (test.kind == "lower") return RunLower(test);
  return {StrCat("unknown kind of test: ", test.kind)};
}

}  // namespace weft::tools
