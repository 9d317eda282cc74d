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

// The elements of an array of a few.
Result<Numbers> ElementsOf(hlo::Builder& b, hlo::Instruction* array);

// Those of what the dynamic-slice reads of `whole`, in the row of that number: the other starts are
// known. Or of the array as one row, `flat`, at these starts.
Result<Numbers> ReadRow(hlo::Builder& b, const hlo::Instruction& slice, hlo::Instruction* whole,
                        hlo::Instruction* row);
Result<Numbers> ReadFlat(hlo::Builder& b, const hlo::Instruction& slice, hlo::Instruction* flat,
                         std::span<hlo::Instruction* const> starts);

// A loop as one over numbers: its short vectors and those of the loops in it are scalars. With
// `rows` it stores a row of each of some arrays in every round, which are scalars too; without it
// stores none.
struct LoopInNumbers {
  hlo::Instruction* op = nullptr;          // before the loop, which is as it was
  std::vector<hlo::Instruction*> results;  // its state behind it, in the shapes that it had
};
// Nullopt: it does something else.
Result<std::optional<LoopInNumbers>> CopyInNumbers(hlo::Instruction* loop, bool rows,
                                                   const Effects& effects);

}  // namespace weft::compiler
