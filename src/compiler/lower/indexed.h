// select-and-scatter: which element of a window is chosen.
#pragma once

#include "compiler/lower/draft.h"

namespace weft::compiler {

// The row-major number of the element that the window at `at` selects; -1: it covers none.
Result<ValueId> EmitSelectedPlace(KernelDraft& draft, const hlo::Instruction& op, const Index& at);

}  // namespace weft::compiler
