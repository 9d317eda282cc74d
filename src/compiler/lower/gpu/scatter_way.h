// How a scatter is done by threads that may meet.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/lower/scatter_loops.h"
#include "program/ops.h"

namespace weft::compiler {

enum class ScatterWay : uint8_t { kNone, kApart, kAtomic, kLast, kSegments };
ScatterWay ScatterWayOf(const hlo::Instruction& scatter, const ScatterDims& dims);

// The atomic that does what the computation does, exactly and in any order.
std::optional<program::Op> ScatterAtomicOf(const hlo::Instruction& scatter);
// The dimensions of the operand that indices are of.
Dims IndexedDims(const hlo::Instruction& scatter);

}  // namespace weft::compiler
