// What is computed from the result of a product (a dot or a convolution) element by element.
#pragma once

#include <cstdint>
#include <vector>

#include "hlo/instruction.h"

namespace weft::compiler {

// Operands of a loop fusion or of an elementwise instruction that are products, which nobody else
// reads, and of which it needs for each element of its result the one at the same place.
std::vector<int64_t> ProductOperands(const hlo::Instruction& instruction);

}  // namespace weft::compiler
