// scaled-dot as the library has it: matrices of block-scaled numbers, one after the other.
#pragma once

#include <optional>

#include "hlo/instruction.h"
#include "program/target.h"

namespace weft::compiler {

struct ScaledProduct {
  // Blocks of rows (columns of the right side) and of k that one scale covers.
  struct Scale {
    int64_t vectors, k;
  };
  int64_t m, n, k, batch;
  bool trans_a, trans_b;
  std::optional<Scale> a_scale, b_scale;
};

// Nothing for targets without the routine, for products that are too small to call it, and for
// other forms; those become dots of what is scaled before (canonicalize-dots).
std::optional<ScaledProduct> ScaledProductOf(const hlo::Instruction& dot,
                                             const program::TargetInfo& target);

}  // namespace weft::compiler
