// Outlining of repeated code: arithmetic that a long kernel has over and over, such as the tanh of
// every layer of a deep chain, becomes a function. LLVM's time is that of the instructions it is
// given, which are then given once.
#pragma once

#include <cstddef>
#include <vector>

#include "program/kernel.h"

namespace weft::cpu {

struct OutlineCandidate {
  size_t begin, end;                              // of the kernel's code
  size_t first;                                   // where the first stretch like this one begins
  std::vector<program::ValueId> inputs, outputs;  // in the same order for all that are alike
};

// In the order of the code, no two of them overlapping; none in kernels that are not long.
std::vector<OutlineCandidate> FindOutlineCandidates(const program::Kernel& kernel);

}  // namespace weft::cpu
