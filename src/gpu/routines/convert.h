// Elements of one type as those of another, between a routine's memory and what a library takes.
#pragma once

#include "gpu/routines/kernels.h"

namespace weft::gpu {

struct Conversion {
  RoutineKernel kernel;  // none: nothing to do
  int64_t elements = 0;

  Status Enqueue(const RoutineCall& call, std::byte* from, std::byte* to) const;
};
Result<Conversion> MakeConversion(const RoutineInputs& inputs, DType from, DType to,
                                  int64_t elements);

}  // namespace weft::gpu
