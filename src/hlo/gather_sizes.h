// Which dimension a gather's result has the run-time size of, for dynamic shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "hlo/instruction.h"

namespace weft::hlo {

struct SizeSource {
  int64_t operand = -1;  // 0: what is gathered from, 1: the indices, -1: neither
  int64_t dim = 0;
};

// Where each dimension of a gather's result comes from: a window's, of the operand, or a batch's,
// of the indices.
std::vector<SizeSource> GatherDims(const GatherAttrs& attrs, int64_t result_rank);

// For each dimension of the result: windows as wide as the operand's dimension have its size,
// batches that of the indices. A window of one element that an index places is one element.
std::vector<SizeSource> GatherSizes(const Instruction& gather);

}  // namespace weft::hlo
