// Whether a module still fails, found out in a process of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/options.h"
#include "hlo/module.h"

namespace weft::tools {

enum class Outcome {
  kFine,
  kWrong,    // results differ from the evaluator's; or the command says so
  kFailed,   // it cannot be compiled or run
  kCrashed,  // the process ended with a signal, or took too long
};
std::string_view Name(Outcome outcome);

struct TestRequest {
  compiler::CompileOptions options;
  uint64_t seed = 0;
  std::vector<std::string> inputs;  // .npy files; the other parameters get random values
  // Run as `COMMAND FILE`: exit status 0 means that the module still fails. Empty: native code is
  // compared with the evaluator.
  std::string command;
  int seconds = 20;  // for one module
};
Outcome RunTest(const hlo::Module& module, const TestRequest& request);

// Runs `work` in a child and returns its exit status; 256 and more: it ended with a signal.
// Threads of this process are not there in the child, so it must not have started any.
int InChild(int seconds, bool quiet, int (*work)(const void* data), const void* data);

}  // namespace weft::tools
