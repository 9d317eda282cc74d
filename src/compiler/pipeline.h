// The list of passes and the one runner around them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "compiler/options.h"
#include "compiler/passes.h"
#include "hlo/module.h"

namespace weft::compiler {

struct Pass {
  std::string_view name;
  Result<bool> (*run)(hlo::Module&, const PassContext&);
};

// All passes by name, alphabetical.
std::span<const Pass> Passes();
// "a,b,c"; an unknown name is an error that lists the known ones.
Result<std::vector<const Pass*>> FindPasses(std::string_view names);
// What any module goes through.
Result<std::vector<const Pass*>> DefaultPipeline();
// The compiler, top to bottom: the default pipeline and what lowering needs.
Result<std::vector<const Pass*>> NativePipeline();

struct PassRun {
  std::string_view pass;
  bool changed = false;
  double milliseconds = 0;
  int64_t instructions_before = 0, instructions_after = 0;
};

struct RunnerHooks {
  // Before each pass that is not disabled; an error ends the run.
  std::function<Status(const Pass&, const hlo::Module&)> before;
  // After each pass, changed or not; the module has been verified.
  std::function<void(const PassRun&, const hlo::Module&)> after;
  std::vector<FusionNote>* not_fused = nullptr;  // PassContext::not_fused
};

// Runs the passes in order: leaves out the disabled ones, times each, verifies and dumps after a
// change; an invalid module is an internal error. Errors name the pass. Returns what ran.
Result<std::vector<PassRun>> RunPasses(hlo::Module& module, std::span<const Pass* const> passes,
                                       const CompileOptions& options, const RunnerHooks& hooks = {},
                                       const program::TargetInfo& target = {});

}  // namespace weft::compiler
