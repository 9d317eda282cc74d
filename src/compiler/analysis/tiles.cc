// Loop tiling of transposes.
#include "compiler/analysis/tiles.h"

#include <algorithm>

#include "hlo/computation.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

// Of a tile of few rows.
constexpr int64_t kTileElements = program::TargetFacts::kFirstLevelBytes / 16 / sizeof(float);

size_t MinorDim(const Dims& dims) {
  size_t d = dims.empty() ? 0 : dims.size() - 1;
  while (d > 0 && dims[d] == 1) --d;
  return d;
}

}  // namespace

std::optional<TileDims> TiledDims(const hlo::Instruction& transpose) {
  const Dims& dims = transpose.shape().dims();
  DType type = transpose.shape().dtype();
  if (dims.size() < 2 || transpose.shape().elements() < program::TargetFacts::kCachedNumbers) {
    return std::nullopt;  // in the first-level cache either way
  }
  const auto& from = transpose.attrs<hlo::DimensionsAttrs>().dimensions;
  TileDims tile;
  tile.along = MinorDim(dims);
  size_t minor = MinorDim(transpose.operand(0)->shape().dims());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (static_cast<size_t>(from[d]) == minor) tile.across = d;
  }
  if (tile.across == tile.along || dims[tile.across] < 2 || dims[tile.along] < 2) {
    return std::nullopt;
  }
  // Lanes that lie a few elements apart, in the operand or in the result, need no tile where there
  // are enough of them.
  constexpr int64_t kFew = program::TargetFacts::kNarrowLanes;
  constexpr int64_t kLanes = 2 * program::TargetFacts::kUsualLanes;
  bool beside = static_cast<size_t>(from[tile.along]) + 1 == minor;
  bool real = !IsComplex(type);
  if ((real && beside && dims[tile.across] <= kFew && dims[tile.along] >= kLanes) ||
      (real && tile.across + 1 == tile.along && dims[tile.along] <= kFew &&
       dims[tile.across] >= kLanes)) {
    return std::nullopt;
  }
  int64_t size = program::TargetFacts::kLineBytes / std::max<int64_t>(ByteWidth(type), 1);
  tile.most = size;
  tile.rows = std::min(size, dims[tile.across]);
  tile.columns = std::min(size, dims[tile.along]);
  // Where the rows of a tile are few, it is longer: what was stored into it by elements had better
  // not be read by vectors right away.
  if (tile.rows < size) {
    int64_t unit = std::max<int64_t>(size, 32), most = kTileElements / tile.rows / unit * unit;
    tile.columns = std::max(std::min(most, dims[tile.along] / unit * unit), tile.columns);
  }
  return tile;
}

bool TilesEvenly(const hlo::Instruction& transpose) {
  std::optional<TileDims> tile = TiledDims(transpose);
  const Dims& dims = transpose.shape().dims();
  return !tile || (dims[tile->across] % tile->rows == 0 && dims[tile->along] % tile->columns == 0);
}

}  // namespace weft::compiler
