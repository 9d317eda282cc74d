// Which instructions may not be removed, merged or run at compile time.
#pragma once

#include <cstdint>
#include <vector>

#include "hlo/module.h"

namespace weft::compiler {

// Computed once per pass; stays right while instructions are removed or replaced by pure ones.
// Computations added later count as having effects.
class Effects {
 public:
  explicit Effects(const hlo::Module& module);

  // Whether it could be noticed that an instruction is removed though unused, or run once instead
  // of twice: side effects of its own or of anything it calls.
  bool Has(const hlo::Instruction& i) const { return Find(i) >= kEffect; }
  // Whether equal operands always give an equal result, on every device.
  bool IsFunction(const hlo::Instruction& i) const { return Find(i) == kFunction; }

 private:
  enum Level : uint8_t { kFunction, kDevice, kEffect };  // kDevice: partition-id and the like
  Level Find(const hlo::Instruction& i) const;
  std::vector<Level> levels_;  // by computation id: the highest of its instructions
};

inline bool HasControlDependencies(const hlo::Instruction& i) {
  return !i.control_predecessors().empty() || !i.control_successors().empty();
}

// Whether any computation has such an instruction.
inline bool HasOp(const hlo::Module& module, hlo::Op op) {
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* i : *computation) {
      if (i->op() == op) return true;
    }
  }
  return false;
}

}  // namespace weft::compiler
