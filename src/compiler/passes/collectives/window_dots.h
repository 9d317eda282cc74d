#pragma once

#include "compiler/passes.h"

namespace weft::compiler {
// Windowed einsum: products of what an all-gather brings are done part by part as each comes around
// the ring by collective-permutes, and parts of a product that a reduce-scatter adds up in the order
// in which the ring takes them; floats are added in another order. Where products that do not
// depend on the collective could hide it, it stays, as do those with annotations or control
// dependencies; needs: inline-calls, not scheduled (else it does nothing).
Result<bool> WindowDots(hlo::Module&, const PassContext&);
}  // namespace weft::compiler
