// How many instructions call each computation, followed while a pass adds calls.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "hlo/module.h"

namespace weft::compiler {

class Callers {
 public:
  explicit Callers(hlo::Module& module);

  bool IsOnly(const hlo::Computation* c) const { return counts_.at(c) == 1; }
  // A new instruction calls what it calls.
  void Add(const hlo::Instruction& caller);
  // The computation, or where others call it too a copy that stands for one of its calls.
  hlo::Computation* Own(hlo::Computation* c);

 private:
  hlo::Module& module_;
  std::unordered_map<const hlo::Computation*, int64_t> counts_;
};

}  // namespace weft::compiler
