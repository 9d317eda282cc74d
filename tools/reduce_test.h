// Whether a module still fails, found out in a process of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "child.h"
#include "compiler/options.h"
#include "hlo/module.h"

namespace weft::tools {

enum class Outcome {
  kFine,
  kWrong,    // results differ from the evaluator's; or the command says so
  kFailed,   // it cannot be compiled or run
  kCrashed,  // the process ended with a signal
  kHangs,    // it took too long
};
std::string_view Name(Outcome outcome);

// What becomes of a module.
struct Verdict {
  Outcome outcome = Outcome::kFine;
  std::string stage;  // what was being done: "pass fuse", "lowering", "code generation", "running"
  std::string ToString() const;  // "a crash in pass fuse"
  // The same thing again, not another one of the same kind.
  bool operator==(const Verdict&) const = default;
};

struct TestRequest {
  compiler::CompileOptions options;
  std::string device = "cpu";  // device.h
  uint64_t seed = 0;
  std::vector<std::string> inputs;  // .npy files; the other parameters get random values
  // Run as `COMMAND FILE`: exit status 0 means that the module still fails. Empty: native code is
  // compared with the evaluator.
  std::string command;
  double seconds = 20;  // for one module
  int at_once = 1;      // modules that are tried side by side
};

class ModuleTest {
 public:
  explicit ModuleTest(TestRequest request);
  ~ModuleTest();
  ModuleTest(const ModuleTest&) = delete;
  ModuleTest& operator=(const ModuleTest&) = delete;

  Verdict Run(const hlo::Module& module) const;
  // As Run; what is found is looked for from here on, within a time that this one took a fraction
  // of, and with nothing computed that cannot show it.
  Verdict LookFor(const hlo::Module& module);

  // The first module (null, or one that does not verify: none) to which the same thing happens; -1:
  // none. They are made in the children.
  using MakeModule = std::function<std::unique_ptr<hlo::Module>(size_t i)>;
  int FirstFailing(size_t n, const MakeModule& make) const;

 private:
  int TestInChild(const hlo::Module& module, const Breadcrumbs& crumbs, size_t child) const;
  Verdict VerdictOf(int status, const Breadcrumbs& crumbs, size_t child) const;

  std::string FileFor(size_t child) const { return StrCat(folder_, "/", child, ".hlo"); }

  TestRequest request_;
  std::string folder_;  // for the command's files
  Verdict wanted_;
  double limit_ = 0;  // seconds for a candidate; 0: as requested
};

}  // namespace weft::tools
