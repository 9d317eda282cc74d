// One element (or one for each lane) of an instruction as kernel operations: its operands' elements
// are computed where they are needed, memory is read where an instruction is bound to it.
//
// Emission is free functions over an ElementContext: `coords.h` where elements stand, `memory.h`
// how they are read and written, `values.h` and `elementwise.h` arithmetic, `ops.h` the ops.
#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "compiler/lower/element/context.h"
#include "compiler/lower/element/coords.h"
#include "compiler/lower/element/memory.h"
#include "compiler/lower/element/values.h"

namespace weft::compiler {

// `index` is into the instruction's shape. Not for instructions of tuple shape.
Result<Element> EmitElement(ElementContext& e, const hlo::Instruction& instruction,
                            const Index& index);
// The same for one array of a tuple: of a reduce or reduce-window of several operands.
Result<Element> EmitLeaf(ElementContext& e, const hlo::Instruction& instruction, int64_t leaf,
                         const Index& index);
// moved.cc: whether elements are read in the order of their numbers, however they are arranged:
// what is made element by element of arrays in memory. With `row_from` > 0: whether it may be asked
// for by indices that go through all dimensions from there on in the last one of them; what is the
// same all along such a row is then allowed, too.
bool ReadsInOrder(const ElementContext& e, const hlo::Instruction& i, int64_t row_from = 0);
// Calls a computation on scalars; one result, or the elements of the tuple at its root.
Result<std::vector<Element>> CallComputation(ElementContext& e, const hlo::Computation& computation,
                                             std::span<const Element> arguments);

// An element that is a coordinate: within its range.
Result<Coord> EmitCoord(ElementContext& e, const hlo::Instruction& instruction, const Index& index);
// The same, clamped to [0, room].
Result<Coord> EmitClamped(ElementContext& e, const hlo::Instruction& instruction,
                          const Index& index, int64_t room);
// Where a dynamic slice starts: a scalar, clamped to [0, room].
Result<Coord> EmitStart(ElementContext& e, const hlo::Instruction& start, int64_t room);

}  // namespace weft::compiler
