// Kernels over packed memory. Elements of two and four bits lie several to a byte there, and a
// kernel has the bytes: it takes elements out of those that it loads, and stores whole ones only,
// so that no two threads ever write parts of one byte.
#pragma once

#include <optional>
#include <vector>

#include "program/kernel.h"

namespace weft::compiler {

// Which parameters of a kernel are packed.
using PackedParams = std::vector<bool>;

// The same kernel with these parameters, which it only reads, packed.
program::Kernel WithPackedReads(const program::Kernel& kernel, const PackedParams& packed);

// The same kernel with these parameters, which it only writes, packed: where vectors of whole bytes
// are stored, or an iteration of the grid stores the element of its number; there an iteration
// takes as many elements as a byte has. nullopt: its iterations share bytes.
std::optional<program::Kernel> WithPackedWrites(const program::Kernel& kernel,
                                                const PackedParams& packed);

// y = x of n elements each.
program::Kernel CopyKernel(DType dtype, int64_t n);

}  // namespace weft::compiler
