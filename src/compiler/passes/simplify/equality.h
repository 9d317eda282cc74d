// When two instructions, or two computations, are the same but for names and metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hlo/module.h"

namespace weft::compiler {

// Computations of a module sorted into classes of equals; changes to the module are not followed.
class ComputationClasses {
 public:
  explicit ComputationClasses(const hlo::Module& module);

  int64_t Of(const hlo::Computation* c) const {
    return c == nullptr ? -1 : classes_[static_cast<size_t>(c->id())];
  }
  // Op, shape with layout, attributes (computations by class), sharding, frontend attributes and
  // backend config are the same; operands are not looked at. Elided constants equal nothing.
  bool SameButOperands(const hlo::Instruction& a, const hlo::Instruction& b) const;
  size_t HashButOperands(const hlo::Instruction& i) const;

 private:
  bool SameAttrs(const hlo::Instruction& a, const hlo::Instruction& b) const;
  std::vector<int64_t> classes_;  // by computation id
};

}  // namespace weft::compiler
