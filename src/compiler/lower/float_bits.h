// The storage bits of narrow floats, which are f32 values in kernels.
#pragma once

#include "base/dtype.h"
#include "program/builder.h"

namespace weft::compiler {

// x is what the format holds, as an f32; the bits are a u32, the same number of lanes.
program::ValueId BitsOfNarrowFloat(program::KernelBuilder& b, program::ValueId x, DType format);
program::ValueId NarrowFloatOfBits(program::KernelBuilder& b, program::ValueId bits, DType format);

}  // namespace weft::compiler
