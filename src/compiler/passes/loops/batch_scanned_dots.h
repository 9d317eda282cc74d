// Loop distribution of products over what a loop scans, a part of simplify-while.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/passes/effects.h"
#include "compiler/passes/loops/loop_state.h"
#include "program/target.h"

namespace weft::compiler {

// A product of one row of an invariant array with invariant operands is that row of the product
// with all rows: dot(f(X[i]), W) = dot(f(X), W)[i], whatever i is. Where `trips` small products
// take longer than the one product of all rows, it is computed before the loop, which reads its
// rows: weights are read once, a GPU has one launch. f: elementwise ops, reshapes, transposes,
// broadcasts and further such products. Never what takes more than a part of the machine's memory.
// Nullopt: there is none.
Result<std::optional<Loop>> BatchScannedDots(const Loop& loop, int64_t trips,
                                             const Effects& effects,
                                             const program::TargetInfo& target);

}  // namespace weft::compiler
