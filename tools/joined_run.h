// Modules with shardings on the command line: split, the parts run, the results joined.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "compiler/options.h"
#include "hlo/module.h"
#include "run_input.h"

namespace weft::tools {

// For several partitions, with shardings of parameters or results, and still whole (a module with
// collectives outside of manual computations is not).
bool IsToSplit(const hlo::Module& module);
// The program of one device.
Result<std::unique_ptr<hlo::Module>> Split(const hlo::Module& whole);

// Results as one device would have them. `parts`: from Split, or a file.
Result<RunResult> EvaluateParts(const hlo::Module& whole, const hlo::Module& parts,
                                const RunOptions& options);
// The same by native code.
Result<RunResult> RunPartsNatively(const hlo::Module& whole, const hlo::Module& parts,
                                   const RunOptions& options,
                                   const compiler::CompileOptions& compile);

}  // namespace weft::tools
