// Loops whose state is arrays that are computed element by element, and what their rounds cost:
// whether loop interchange may take them, and whether it should.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/lower/lowering.h"
#include "program/cost.h"

namespace weft::compiler {

// What the body computes, looked at from its results: every element from those at the same index.
class ElementwiseBody {
 public:
  ElementwiseBody(const hlo::Instruction& loop, const std::vector<MemValue>& state)
      : body_(*loop.attrs<hlo::WhileAttrs>().body), state_(state) {}

  bool Check();

  std::vector<int64_t> arrays, scalars;  // state that changes
  Dims dims;                             // of the arrays
  std::vector<const hlo::Instruction*> members;
  std::vector<const hlo::Instruction*> reads;  // get-tuple-elements of the state
  // What parameters of fusions are.
  const std::unordered_map<const hlo::Instruction*, const hlo::Instruction*>& arguments() const {
    return arguments_;
  }

 private:
  // Whether it may be computed; varies_: from elements of the changing arrays.
  bool Visit(const hlo::Instruction& i);
  std::optional<bool> Look(const hlo::Instruction& i);
  std::optional<bool> LookInside(const hlo::Instruction& fusion, const hlo::Instruction& root);
  // As many elements as the arrays have, counted row by row.
  bool SameElements(const hlo::Instruction& i) const;

  const hlo::Computation& body_;
  const std::vector<MemValue>& state_;
  std::unordered_map<const hlo::Instruction*, bool> varies_;
  std::unordered_map<const hlo::Instruction*, const hlo::Instruction*> arguments_;
};

// For the cost model.
program::Rounds RoundsOf(const hlo::Instruction& loop, const ElementwiseBody& found, int64_t trips,
                         const program::TargetInfo& target);

}  // namespace weft::compiler
