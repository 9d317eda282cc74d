// Stretches of arithmetic that a long kernel has over and over, such as the tanh of every layer of
// a deep chain. LLVM's time is that of the instructions it is given: as functions they are given
// once.
#pragma once

#include <cstddef>
#include <vector>

#include "program/kernel.h"

namespace weft::cpu {

struct Repeat {
  size_t begin, end;  // of the kernel's code
  size_t first;       // where the stretch begins that this one repeats: itself, for the first
  std::vector<program::ValueId> inputs, outputs;  // in the same order for all that are alike
};

// In the order of the code, no two of them overlapping; none in kernels that are not long.
std::vector<Repeat> FindRepeats(const program::Kernel& kernel);

}  // namespace weft::cpu
