// What stands behind a product or convolution, in the few forms that NVIDIA's libraries have as
// epilogues.
#pragma once

#include <optional>

#include "gpu/routines/routine.h"
#include "program/kernel.h"

namespace weft::gpu {

// result = relu(result + added), element by element, in place; each part may be absent. NaN stays
// NaN, as HLO's maximum has it.
struct LibraryEpilogue {
  int32_t added = -1;  // a parameter of the kernel, of the result's type; -1: none
  bool by_column =
      false;  // it has a number for each column (bias), not for each element (residual)
  bool relu = false;

  bool any() const { return added >= 0 || relu; }
  std::string_view name() const;  // "bias and ReLU"
};

// `columns`: of the result's rows, for a bias. Nullopt: the kernel does something else.
std::optional<LibraryEpilogue> LibraryEpilogueOf(const program::Kernel& kernel, int32_t result,
                                                 int64_t columns);

// The parameter of the kernel that `next` launches which is the result of the step, all of it,
// where no other one overlaps it. UNIMPLEMENTED: there is none.
Result<int32_t> ResultParameter(const RoutineInputs& inputs, const program::Step& next);

// Both: what `next` does to the step's result. UNIMPLEMENTED: it is no such epilogue.
Result<LibraryEpilogue> LibraryEpilogueBehind(const RoutineInputs& inputs,
                                              const program::Step& next, int64_t columns);

}  // namespace weft::gpu
