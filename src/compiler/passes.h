// Every HLO -> HLO pass: one contract each, alphabetical. A pass returns whether it changed the
// module; on an error the module is not to be used. Modules come in verified and go out verifying.
#pragma once

#include "base/error.h"
#include "compiler/options.h"
#include "hlo/module.h"

namespace weft::compiler {

// What a pass knows beside the module.
struct PassContext {
  const CompileOptions& options;
};

// Equal pure ops of one computation become one; needs: not scheduled (else it does nothing).
Result<bool> EliminateCommonSubexpressions(hlo::Module&, const PassContext&);
// Unused instructions without side effects and computations that the entry does not reach go;
// parameters stay; needs: none.
Result<bool> EliminateDeadCode(hlo::Module&, const PassContext&);
// Pure ops on constants become constants, within `optimize.fold_*`; needs: not scheduled (else it
// does nothing).
Result<bool> FoldConstants(hlo::Module&, const PassContext&);
// `call` becomes the called instructions, composites excepted; needs: not scheduled (else it does
// nothing).
Result<bool> InlineCalls(hlo::Module&, const PassContext&);
// The `fold` of the op rows (x + 0 = x, ...) and the rules over several ops (simplify_rules.h)
// until nothing changes; what becomes unused goes; needs: not scheduled (else it does nothing).
Result<bool> Simplify(hlo::Module&, const PassContext&);
// Conditionals of a known branch, of equal branches or of a few scalar ops become straight code;
// results and operands that nobody reads go; needs: not scheduled (else it does nothing).
Result<bool> SimplifyConditionals(hlo::Module&, const PassContext&);
// Loops that run never, once or a few times (`optimize.unroll_*`) become straight code; state that
// is not used, constant or there twice goes; costly invariant ops move out; needs: not scheduled
// (else it does nothing).
Result<bool> SimplifyWhile(hlo::Module&, const PassContext&);

}  // namespace weft::compiler
