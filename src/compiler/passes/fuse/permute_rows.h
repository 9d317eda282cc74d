#pragma once

#include "compiler/passes.h"

namespace weft::compiler {

// GPUs: what reduces rows and is then transposed, rows as a whole, is computed in the order of the
// transpose's result, and its operands are transposed; needs: transposes that canonicalize-dots
// makes, before merge-transposed-dimensions; not scheduled (else it does nothing).
Result<bool> PermuteRows(hlo::Module&, const PassContext&);

}  // namespace weft::compiler
