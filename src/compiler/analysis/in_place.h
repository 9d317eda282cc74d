// Facts about the memory of an instruction's result: which parts of it are its operands', and which
// operands it may write over.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hlo/computation.h"
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

// Leaves of operands that branches of a conditional hand back at `leaf`, as they are or updated in
// place; one for each branch that does.
struct OperandLeaf {
  int64_t operand = 0, leaf = 0;
};
std::vector<OperandLeaf> LeavesUpdatedByBranches(const hlo::Instruction& conditional, int64_t leaf);

// Whether all that an update writes is computed before the first element is stored, so that a
// kernel of these members may read the array anywhere: so few elements that they are straight-line
// code.
bool IsStraightUpdate(const hlo::Instruction& update,
                      std::span<const hlo::Instruction* const> members);

// Whether an instruction that reads the array below an update, beside it in one kernel, may find it
// written already.
bool ReadsElsewhere(const hlo::Instruction& reader, const hlo::Instruction& update);

// Whether an instruction's leaves are those of its operands.
bool IsForwarding(const hlo::Instruction& instruction);

// Whether an async-start runs a computation of several steps beside what follows, and not one
// collective.
bool IsAsyncCall(const hlo::Instruction& start);

// Those leaves, given what the operands' are (a vector for each instruction); -1 for a token.
template <class LeavesOf>
std::vector<int32_t> ForwardedLeaves(const hlo::Instruction& i, const LeavesOf& leaves_of) {
  std::vector<int32_t> mine;
  if (i.op() == hlo::Op::kAfterAll) return {-1};
  if (i.op() == hlo::Op::kTuple) {
    for (const hlo::Instruction* operand : i.operands()) {
      const std::vector<int32_t>& leaves = leaves_of(*operand);
      mine.insert(mine.end(), leaves.begin(), leaves.end());
    }
    return mine;
  }
  const std::vector<int32_t>& leaves = leaves_of(*i.operand(0));
  if (i.op() != hlo::Op::kGetTupleElement) return leaves;
  const Shape& tuple = i.operand(0)->shape();
  int64_t first = 0;
  for (int64_t k = 0; k < i.tuple_index(); ++k) first += LeafCount(tuple.tuple_element(k));
  mine.assign(leaves.begin() + first, leaves.begin() + first + LeafCount(i.shape()));
  return mine;
}

// Ops whose array is their operand's under another name, and what stands behind such names.
bool IsRenaming(hlo::Op op);
const hlo::Instruction* BehindNames(const hlo::Instruction* i);

// By leaf: whether a loop's body hands that part of its state on as it is.
std::vector<bool> PassedThrough(const hlo::Instruction& loop);

}  // namespace weft::compiler
