// Scalar replacement of short vectors: what one of a few elements is, element by element.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "compiler/passes/effects.h"
#include "hlo/builder.h"
#include "hlo/instruction.h"

namespace weft::compiler {

using Numbers = std::vector<hlo::Instruction*>;  // scalars: the elements of an array, row-major

// The elements of what `i` computes or moves, from those of its operands. Empty: it does neither.
Result<Numbers> EmitByElement(hlo::Builder& b, const hlo::Instruction& i,
                              std::span<const Numbers> operands);

// The elements of a constant or of an iota.
Numbers ElementsOfLeaf(hlo::Builder& b, const hlo::Instruction& i);

// Where the first element of a part lies in an array as a row, s32[]: its starts are brought in
// bounds.
Result<hlo::Instruction*> FlatStart(hlo::Builder& b, std::span<hlo::Instruction* const> starts,
                                    const Shape& array, const Shape& part);
// How far behind it element n of the part lies.
int64_t FlatOffset(int64_t n, const Shape& array, const Shape& part);

// A loop that stores a row of each of some arrays in every round, as a loop over numbers: its short
// vectors, those of the loops in it and the rows are scalars.
struct LoopInNumbers {
  hlo::Instruction* op = nullptr;          // before the loop, which is as it was
  std::vector<hlo::Instruction*> results;  // its state behind it, in the shapes that it had
};
// Nullopt: it does something else.
Result<std::optional<LoopInNumbers>> CopyInNumbers(hlo::Instruction* loop, const Effects& effects);

}  // namespace weft::compiler
