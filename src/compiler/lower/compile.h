// A module compiled for a target: the passes, then lowering.
#pragma once

#include <memory>

#include "base/error.h"
#include "compiler/lower/lower.h"
#include "compiler/options.h"
#include "compiler/pipeline.h"
#include "hlo/module.h"
#include "program/program.h"
#include "program/target.h"

namespace weft::compiler {

struct Compiled {
  std::unique_ptr<hlo::Module> module;  // as the passes left it
  program::Program program;
  std::vector<PassRun> passes;
  std::vector<CopyNote> copies;  // that the program makes
  std::vector<FusionNote> not_fused;
  std::vector<LoweringChoice> choices;  // how instructions were lowered, where that was asked
};

// Lower (lower/lower.h), as the options want it.
Result<program::Program> LowerWith(const hlo::Module& module, const CompileOptions& options,
                                   const program::TargetInfo& target, LowerNotes* notes = nullptr);

// The module itself is not changed. `explain`: notes how each instruction is lowered.
Result<Compiled> Compile(const hlo::Module& module, const CompileOptions& options,
                         const program::TargetInfo& target, const RunnerHooks& hooks = {},
                         bool explain = false);

}  // namespace weft::compiler
