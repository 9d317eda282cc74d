// Copies of arrays with another order of their elements.
#pragma once

#include <vector>

#include "gpu/routines/kernels.h"

namespace weft::gpu {

struct PermutedDim {
  int64_t size, in, out;  // strides, in elements
};
struct PermuteStep {
  RoutineKernel kernel;  // none: nothing to do
  int64_t elements = 0;
  std::vector<int64_t> fields;

  Status Enqueue(const RoutineCall& call, std::byte* from, std::byte* to) const;
};
// `from`: where the first element lies, of dimensions with negative strides.
Result<PermuteStep> MakePermute(const RoutineInputs& inputs, DType dtype,
                                const std::vector<PermutedDim>& dims, int64_t from = 0);

}  // namespace weft::gpu
