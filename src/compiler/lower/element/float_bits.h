// The storage bits of narrow floats, which are f32 values in kernels.
#pragma once

#include "base/dtype.h"
#include "program/builder.h"

namespace weft::compiler {

// x is what the format holds, as an f32; the bits are a u32, the same number of lanes.
program::ValueId BitsOfNarrowFloat(program::KernelBuilder& b, program::ValueId x, DType format);
program::ValueId NarrowFloatOfBits(program::KernelBuilder& b, program::ValueId bits, DType format);

// A number of 32 or 64 bits as an f32 that rounds to any narrow float as the number itself does:
// lost bits leave a trace in the last one.
program::ValueId ToOddF32(program::KernelBuilder& b, program::ValueId x);

}  // namespace weft::compiler
