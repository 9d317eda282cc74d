// Text tests. A file holds cases, separated by lines `// -----`; a case says what it tests:
//
//   // test: pass eliminate-dead-code          (kind and arguments)
//   ENTRY main { ... }                          (the input)
//   // expect                                   (optional; up to the end of the case)
//   ENTRY main { ... }
//
// A case without `// test:` continues with the one before it; the first one of a file takes the
// kind from the folder: .program files `program`, verify/ `verify`, run/ `run`, else `roundtrip`.
//
//   roundtrip        parse -> print -> parse -> print is a fixed point; `expect`: the printed text
//   parse-error      the parser rejects it; `// error: text` stands on the line at fault
//   verify           verifies; with `// error: text` on a line, is rejected there
//   pass NAME... [tolerance=T] [option=value]
//                    the module after the passes; it also computes what it did before, bit for bit
//                    or within the tolerance (same_results.h)
//   run [on=eval[,cpu]] [devices=N] [inputs=random] [seed=K] [tolerance=T] [ulps=N]
//       [max_loop_steps=N]
//                    results as `weft eval` prints them. Parameters take `// input: f32[2] {1, 2}`
//                    lines in order, then random values. `// error: text`: the evaluator fails.
//                    Those with `cpu` are compared with native code, too (weft test --native):
//                    within 4 units in the last place, or `ulps`, or the tolerance for sums and
//                    what is computed from them
//   render target=T [tolerance=T] [option.name=value]
//                    the module compiled for a target (cpu, generic, h200): its Program verifies
//                    and, interpreted, computes without races what the evaluator does; its code
//                    (the Program itself for CPUs, CUDA C for GPUs, which NVRTC accepts where it is
//                    installed) has the lines of `expect`, in that order, as parts of its lines
//   lower target=T[,T] [tolerance=T] [option.name=value]
//                    as render, but `expect` is the whole Program, for each target behind a line
//                    `// target T` where there are several
//   program [run]    a Program: verifies and prints to a fixed point, or `// error: text`; `run`
//                    also interprets it, as above
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "compiler/options.h"
#include "run_input.h"
#include "runtime/device.h"

namespace weft::tools {

struct TestCase {
  std::string kind;
  std::vector<std::string> args;
  int line = 1;      // of the case's first line in the file
  std::string body;  // the input, with line breaks in front so that positions are those in the file
  struct ExpectedError {
    int line;
    std::string text;
  };
  std::vector<ExpectedError> errors;
  std::vector<std::string> inputs;  // of `// input:` lines
  std::optional<std::string> expect;
  size_t expect_begin = 0, expect_end = 0;  // of the text after `// expect` in the file; when there
                                            // is none, both are the end of the case
};

Result<std::vector<TestCase>> SplitCases(const std::string& path, std::string_view content);

struct TestOutcome {
  std::string failure = {};                // empty: passed
  std::optional<std::string> actual = {};  // what `expect` should be, where it is not that
};
// With `passes`, names as in `weft opt --passes`, several lists with semicolons between them: only
// whether `run` and `pass` cases give the same results after each.
TestOutcome RunCase(const TestCase& test, const std::string& passes = "");

// Only `run` cases that say on=...,cpu: whether the device (null: the processor) gives what the
// evaluator does. On other devices those for one alone, and what `render` and `lower` cases for
// GPUs compute.
TestOutcome RunNativeCase(const TestCase& test, const compiler::CompileOptions& options,
                          const std::shared_ptr<runtime::Device>& device);
struct NativeTestSettings {
  RunOptions run;
  runtime::Tolerance tolerance;
};
Result<NativeTestSettings> NativeSettingsOf(const TestCase& test);
struct RenderSettings {
  std::string target = "h200", options;  // targets, compile options with commas between them
  double tolerance = 0;
};
Result<RenderSettings> RenderSettingsOf(const TestCase& test);
TestOutcome RunRender(const TestCase& test);  // the kind `render`
TestOutcome RunLower(const TestCase& test);   // the kind `lower`

// Passed if the text is what the case expects, but for lines around it.
TestOutcome CompareText(const TestCase& test, const std::string& actual);

// Lines of a and b with `-` and `+`, those around differences only.
std::string LineDiff(std::string_view a, std::string_view b);

}  // namespace weft::tools
