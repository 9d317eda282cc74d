// Reductions by the threads of a block.
#pragma once

#include <vector>

#include "compiler/lower/reduce.h"

namespace weft::compiler {

// In a thread loop, which it ends: what the threads have, combined, known to all of them.
Result<std::vector<Element>> CombineThreads(KernelDraft& draft, RowReducer& reducer,
                                            const std::vector<Element>& mine);

}  // namespace weft::compiler
