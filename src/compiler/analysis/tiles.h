// Loop tiling: how a transpose that changes the minor dimension is cut into tiles of a cache line
// in either direction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "hlo/module.h"

namespace weft::compiler {

// Dimensions of the transpose's result: the one along which the operand lies in memory, and its
// own minor one; and the size of a tile along them.
struct TileDims {
  size_t across = 0, along = 0;
  int64_t rows = 1, columns = 1;
  int64_t most = 1;  // rows and columns, where the dimensions have as many
};

// nullopt: the minor dimension stays, or tiles do not pay.
std::optional<TileDims> TiledDims(const hlo::Instruction& transpose);
// Whether no tile overlaps another.
bool TilesEvenly(const hlo::Instruction& transpose);

}  // namespace weft::compiler
