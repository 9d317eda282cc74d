// Every HLO -> HLO pass: one line of contract, alphabetical. A pass returns whether it changed the
// module. Passes that need something of the module say so (needs: ...).
#pragma once

#include "base/error.h"
#include "compiler/options.h"
#include "hlo/module.h"

namespace weft::compiler {

// What a pass knows beside the module.
struct PassContext {
  const CompileOptions& options;
};

// Equal pure ops of one computation become one.
Result<bool> EliminateCommonSubexpressions(hlo::Module&, const PassContext&);
// Instructions and computations that nothing uses go, unless they have side effects.
Result<bool> EliminateDeadCode(hlo::Module&, const PassContext&);
// Pure ops on constants become constants, within the limits of `optimize.fold_*`.
Result<bool> FoldConstants(hlo::Module&, const PassContext&);
// `call` becomes the called instructions.
Result<bool> InlineCalls(hlo::Module&, const PassContext&);
// Applies the `fold` of op rows (x + 0 = x, ...) until nothing changes.
Result<bool> Simplify(hlo::Module&, const PassContext&);

}  // namespace weft::compiler
