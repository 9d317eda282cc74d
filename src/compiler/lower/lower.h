// Module -> Program: buffers, steps and kernels for one target.
#pragma once

#include "base/error.h"
#include "compiler/options.h"
#include "hlo/module.h"
#include "program/program.h"
#include "program/target.h"

namespace weft::compiler {

// A module as the pipeline leaves it. The program's parameters and results are the leaves of the
// entry's, in order; tokens have none. An op that has no lowering is UNIMPLEMENTED and names it.
Result<program::Program> Lower(const hlo::Module& module, const CompileOptions& options,
                               const program::TargetInfo& target);

}  // namespace weft::compiler
