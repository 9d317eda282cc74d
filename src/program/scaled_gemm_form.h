// The attributes of the routine scaled_gemm (library.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/program.h"

namespace weft::program {

struct ScaledGemmForm {
  // Rows of op(a), or columns of op(b): vectors of k elements.
  struct Side {
    size_t operand = 0, scale = 0;  // numbers of uses; no scale: 0
    int64_t vectors = 0;
    bool transposed = false;                // in memory k comes first
    int64_t vector_block = 1, k_block = 1;  // that one element of the scale covers
  };
  Side a, b;
  int64_t k = 0, batch = 1;
};
ScaledGemmForm ScaledGemmFormOf(const LibraryStep& call);

}  // namespace weft::program
