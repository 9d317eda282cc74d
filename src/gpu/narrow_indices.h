// Integer narrowing by value-range analysis: indices in 32 bits. Kernels compute indices in s64;
// where their ranges allow it, 32 bits do, for which a GPU has instructions of one cycle, and half
// the registers.
#pragma once

#include "program/kernel.h"

namespace weft::gpu {

// The same kernel with counters, and what is computed of them, in s32:
//  - values whose range, as constants and bounds of loops show, is within s32;
//  - sums and products that are used as nothing but indices of memories of less than 2^31 elements:
//    their lower 32 bits are those of the sums and products of the lower 32 bits.
program::Kernel NarrowIndices(const program::Kernel& kernel);

}  // namespace weft::gpu
