// Where a module that cannot be compiled or run comes to its end, and which pass made it so.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "child.h"
#include "compiler/options.h"
#include "compiler/pipeline.h"
#include "hlo/module.h"

namespace weft::tools {

struct CrashRequest {
  const hlo::Module& module;
  const compiler::CompileOptions& options;
  std::span<const compiler::Pass* const> passes;  // those that are disabled are left out
  // What comes behind the passes, in a child: lowers, generates code and runs, and tells each stage
  // before it begins. Its status; 0: fine.
  std::function<int(const hlo::Module&, const std::function<void(std::string_view)>& stage)> rest;
  double seconds = 300;  // for one trial
};

struct CrashSite {
  int status = 0;     // how it ended (child.h); 0: it did not, and nothing else is set
  std::string stage;  // on the stack: "pass fuse", "lowering", "code generation", "running"
  std::string error;  // of a pass that returned one
  int pass = -1;      // its number among the passes that run; -1: behind them
  int passes = 0;     // how many run
  // The number of the pass that made the module that the stage dies on: with the passes before it
  // alone the stage does not. -1: it dies on the module as it came.
  int made_by = -1;
  std::string made_by_name;
  std::string prefix;  // the passes up to that one, as `weft opt --passes=` takes them
};

CrashSite FindCrashSite(const CrashRequest& request);

// The passes without any one of which nothing happens; none when it happens on the module as it
// came.
std::vector<std::string> PassesThatMatter(const CrashRequest& request, const CrashSite& site);

// Lines for people; `file`: the module's.
std::string DescribeCrash(const CrashSite& site, double seconds, const std::string& file);

}  // namespace weft::tools
