// One round of a loop over numbers, for many sets of them: rows are lanes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "compiler/passes/loops/batch_loop.h"
#include "hlo/clone.h"

namespace weft::compiler {

// A number in all rows; what has rows stays.
Result<hlo::Instruction*> InAllRows(hlo::Builder& b, hlo::Instruction* number, int64_t rows);

// Elements of an array, one for each row; places beyond the ends are the ends.
Result<hlo::Instruction*> GatherRows(hlo::Builder& b, hlo::Instruction* array,
                                     hlo::Instruction* places);

// What is the same in all rows, in each of them: f32[rows] of a number, f32[..., rows] of a vector
// like `one`; what has rows stays.
Result<hlo::Instruction*> InEachRow(hlo::Builder& b, hlo::Instruction* value, const Shape& one,
                                    int64_t rows);

// Body and condition of a batched loop, instruction by instruction.
class BatchedRound {
 public:
  BatchedRound(const NumberLoop& numbers, int64_t rows, std::vector<bool> varies);
  bool Varies(int64_t k) const { return varies_[static_cast<size_t>(k)]; }

  // The state after a round, which is the one of this number where rounds are counted.
  Result<std::vector<hlo::Instruction*>> Emit(hlo::Builder& b, hlo::Instruction* number,
                                              std::span<hlo::Instruction* const> state);
  // The rows that make a further round.
  Result<hlo::Instruction*> GoesOn(hlo::Builder& b, std::span<hlo::Instruction* const> state);

 private:
  bool IsCounter(int64_t k) const { return bounds_ && k == bounds_->index; }
  Status EmitAll(hlo::Builder& b, const hlo::Computation& from, hlo::Instruction* number,
                 std::span<hlo::Instruction* const> state);
  void FindVaryingIn(const hlo::Computation& computation);
  void FindVarying();
  Result<hlo::Instruction*> Counter(hlo::Builder& b, hlo::Instruction* number);
  Result<hlo::Instruction*> Operand(hlo::Builder& b, hlo::Instruction* o);
  Result<hlo::Instruction*> EmitOne(hlo::Builder& b, const hlo::Instruction& i);
  Result<hlo::Instruction*> EmitVector(hlo::Builder& b, const hlo::Instruction& i);

  const Loop& loop_;
  const std::optional<LoopBounds>& bounds_;
  const int64_t rows_;
  std::vector<bool> varies_;  // of the state
  std::unordered_set<const hlo::Instruction*> varying_;
  hlo::CloneMap map_;
};

}  // namespace weft::compiler
