// Arrays of several devices combined element by element, in the order of the devices: the
// arithmetic of collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "program/program.h"

namespace weft::program {

struct ArrayReduction {
  ReduceOp op;
  DType dtype;
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;  // all get the same; each may lie where an input does
  int64_t elements = 0;
  bool streamed = false;  // past the caches: nobody reads them soon
};

// One pass over all inputs. Floats narrower than f32 are combined as f32 and rounded once, as the
// evaluator has it.
void ReduceArrays(const ArrayReduction& what);

}  // namespace weft::program
