// weft test: text tests, thousands in one process.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "base/file.h"
#include "check_files.h"
#include "commands.h"
#include "device.h"
#include "text_test.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

// Test files at or below a path, sorted.
Result<std::vector<std::string>> CollectTests(const std::string& path) {
  std::error_code ec;
  if (!fs::is_directory(path, ec)) {
    if (!fs::exists(path, ec)) return NotFound("no such file or folder");
    return std::vector<std::string>{path};
  }
  std::vector<std::string> files;
  for (auto it = fs::recursive_directory_iterator(path, ec); !ec && it != fs::end(it);
       it.increment(ec)) {
    std::string extension = it->path().extension();
    if (extension == ".hlo" || extension == ".program") files.push_back(it->path().string());
  }
  if (ec) return MakeError(Code::kUnavailable, ec.message());
  std::sort(files.begin(), files.end());
  return files;
}

// Replaces expectations by what came out, last case first so that offsets stay right.
std::string Bless(std::string content, const std::vector<TestCase>& cases,
                  const std::vector<std::optional<std::string>>& actual) {
  for (size_t i = cases.size(); i-- > 0;) {
    if (!actual[i]) continue;
    const TestCase& test = cases[i];
    std::string text = *actual[i];
    if (text.empty() || text.back() != '\n') text += '\n';
    if (!test.expect) {
      if (test.expect_begin > 0 && content[test.expect_begin - 1] != '\n')
        text = "\n// expect\n" + text;
      else
        text = "// expect\n" + text;
    }
    content.replace(test.expect_begin, test.expect_end - test.expect_begin, text);
  }
  return content;
}

std::string Indent(std::string_view text) {
  std::string out = "  ";
  for (char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  while (out.ends_with(' ') || out.ends_with('\n')) out.pop_back();
  return out;
}

// Failures of one file; blesses it when asked.
std::string TestOneFile(const std::string& path, bool bless,
                        const std::function<TestOutcome(const TestCase&)>& run) {
  Result<std::string> content = ReadFile(path);
  if (!content) return content.error().ToString(path);
  Result<std::vector<TestCase>> cases = SplitCases(path, *content);
  if (!cases) return cases.error().ToString(path);
  std::string report;
  std::vector<std::optional<std::string>> actual(cases->size());
  bool blessed = false;
  for (size_t i = 0; i < cases->size(); ++i) {
    const TestCase& test = (*cases)[i];
    TestOutcome outcome = run(test);
    if (outcome.failure.empty()) continue;
    if (bless && outcome.actual) {
      actual[i] = std::move(outcome.actual);
      blessed = true;
      continue;
    }
    StrAppend(report, report.empty() ? "" : "\n", path, ":", test.line, ": error: ", test.kind,
              " test failed\n", Indent(outcome.failure));
  }
  if (blessed) {
    Status written = WriteFile(path, Bless(*std::move(content), *cases, actual));
    if (!written) StrAppend(report, written.error().ToString(path));
    std::fprintf(stderr, "blessed %s\n", path.c_str());
  }
  return report;
}

Result<int> RunTest(Args args) {
  bool bless = args.Flag("--bless");
  std::string passes = args.Value("--passes").value_or("");
  bool native = args.Flag("--native");
  std::string device_name = TRY(TakeDeviceName(args));
  compiler::CompileOptions options;
  options.gpu.tf32 = false;  // results are compared with the evaluator's
  TRY(compiler::ParseOptions(args.Value("--options").value_or(""), options));
  std::string filter = args.Value("--filter").value_or("");
  std::vector<std::string> paths = TRY(args.Finish(1));
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    Result<std::vector<std::string>> found = CollectTests(path);
    if (!found) {
      std::fprintf(stderr, "%s\n", found.error().ToString(path).c_str());
      return kFailed;
    }
    std::copy_if(found->begin(), found->end(), std::back_inserter(files),
                 [&](const std::string& file) { return file.contains(filter); });
  }
  if (files.empty()) {
    std::fprintf(stderr, "weft test: no test files\n");
    return kFailed;
  }
  std::shared_ptr<runtime::Device> device;
  if (device_name != "cpu") {
    Result<std::shared_ptr<runtime::Device>> opened = OpenDevice(device_name);
    if (!opened) {
      std::fprintf(stderr, "weft test: %s\n", opened.error().ToString().c_str());
      return kFailed;
    }
    device = *opened;
  }
  return PrintSummary(CheckAll(static_cast<int64_t>(files.size()), [&](int64_t i) {
    return TestOneFile(files[static_cast<size_t>(i)], bless, [&](const TestCase& test) {
      return native || device != nullptr ? RunNativeCase(test, options, device)
                                         : RunCase(test, passes);
    });
  }));
}

}  // namespace

constexpr Command kTestCommand = {
    "test", "runs text tests",
    R"(usage: weft test [--bless] [--filter S] [--passes NAMES | --native | --device D] PATH...

Runs the .hlo and .program files at or below each path: whatever `// test: KIND ...` on their first
line says. Cases of one file are separated by `// -----`.

  roundtrip      prints to text that parses to the same text
  parse-error    is rejected by the parser, on the line with `// error: message`
  verify         verifies, or is rejected on the line with `// error: message`
  pass NAME...   becomes what stands behind `// expect`
  run            gives the results behind `// expect`; also: devices=N inputs=random seed=K
                 tolerance=T ulps=N max_loop_steps=N, and `// input: f32[2] {1, 2}` for parameters
  render, lower  for `target=T`, code has the lines behind `// expect`, the Program is what stands there
  program [run]  the same for Programs

  --bless        write what came out behind `// expect` instead of failing
  --filter S     only files with S in their path
  --passes NAMES instead: whether `run` and `pass` cases give the same after these passes; of
                 several lists (A,B;C), after each of them
  --native       instead: whether `run` cases with on=eval,cpu give the same as native code
  --device D     instead: the same on another device, and what render and lower cases for GPUs compute;
                 `gpu`, or `pretend` for its programs interpreted. Cases for several devices are left out
  --options=k=v  compile options, with --native and --device

examples:
  weft test test
  weft test --filter reduce --bless test/run
)",
    RunTest};

}  // namespace weft::tools
