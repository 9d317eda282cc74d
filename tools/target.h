// Targets by name, and whether the Program for one computes what the module does.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "hlo/module.h"
#include "program/program.h"
#include "program/target.h"

namespace weft::tools {

// "cpu" (this machine), or a preset: program::NamedTargets().
Result<program::TargetInfo> FindTarget(std::string_view name);

// Interprets the program on random arguments, looking for races, and compares with the evaluator;
// what differs, or empty. Floats may differ by tolerance * max(1, |x|).
Result<std::string> CompareWithEvaluator(const hlo::Module& module, const program::Program& program,
                                         double tolerance);

}  // namespace weft::tools
