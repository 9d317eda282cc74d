// Facts about the memory of an instruction's result: which parts of it are its operands', and which
// operands it may write over.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "hlo/module.h"

namespace weft::compiler {

// Leaves of a shape in order: arrays and tokens.
int64_t LeafCount(const Shape& shape);
void ForEachLeaf(const Shape& shape, const std::function<void(const Shape&)>& fn);

// An instruction's leaf at which it may write over the memory of one operand's leaf.
struct InPlace {
  int64_t leaf = 0, operand = 0;
};
// What an instruction allows, in order of preference.
std::vector<InPlace> InPlaceOperands(const hlo::Instruction& instruction);

// Whether an instruction that reads the array below an update, beside it in one kernel, may find it
// written already.
bool ReadsElsewhere(const hlo::Instruction& reader, const hlo::Instruction& update);

// Whether an instruction's leaves are those of its operands.
bool IsForwarding(const hlo::Instruction& instruction);

// By leaf: whether a loop's body hands that part of its state on as it is.
std::vector<bool> PassedThrough(const hlo::Instruction& loop);

}  // namespace weft::compiler
