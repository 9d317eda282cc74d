// A product and the kernel behind it as one launch (epilogue fusion), by matrix units.
#pragma once

#include <optional>

#include "gpu/routines/routine.h"
#include "program/kernel.h"

namespace weft::gpu {

// The same over a tile of a product: `rows` rows of `columns` columns, of a matrix with rows of
// `row`. Parameters begin at the tile. Reads of parameter `product` are of one more parameter, the
// last, in which rows lie `stride` elements apart; its writes stay. Nullopt: the kernel is no loop
// over elements that reads and writes `product` in place.
struct ProductTile {
  int64_t rows, columns, row, stride;
};
std::optional<program::Kernel> KernelOverTile(const program::Kernel& kernel, int32_t product,
                                              const ProductTile& tile);

// `next`: the step behind the gemm. The routine's memory is the uses of the gemm, then those of
// `next`. Refuses with UNIMPLEMENTED.
Result<PreparedPtr> PrepareGemmWithEpilogue(const RoutineInputs& inputs, const program::Step& next);

}  // namespace weft::gpu
