// Where the elements of a value come from, behind what only moves them or changes their sign.
#pragma once

#include "hlo/call_graph.h"
#include "hlo/module.h"

namespace weft::compiler {

struct Origin {
  const hlo::Instruction* value;
  bool is_negated;
};
Origin OriginOf(const hlo::Instruction& i);

// Both come from multiplications of the same numbers, so that elements of x and y may be equal (1)
// or each other's negatives (-1); 0: they do not.
int SignOfSameProducts(const hlo::Instruction& x, const hlo::Instruction& y);

// Whether a value is the greatest or the least of several numbers, behind what moves and chooses,
// also through the state of loops.
class Extremes {
 public:
  explicit Extremes(const hlo::Module& module) : calls_(module) {}
  bool Has(const hlo::Instruction& i) const;

 private:
  hlo::CallGraph calls_;
};

}  // namespace weft::compiler
