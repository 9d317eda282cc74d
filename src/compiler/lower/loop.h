// The loop over a kernel's results, alone or as part of another step.
#pragma once

#include "compiler/lower/table.h"

namespace weft::compiler {

LoopShape LoopShapeOf(Subject& subject);
// `by_rows`: a round of the grid for each row.
Status EmitLoop(Subject& subject, KernelDraft& draft, bool by_rows);

}  // namespace weft::compiler
