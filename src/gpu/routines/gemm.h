// The attributes of a gemm that verifies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/routines/routine.h"
#include "gpu/strided_operands.h"

namespace weft::gpu {

struct GemmForm {
  int64_t m, n, k, batch;
  bool trans_a, trans_b;
  double alpha, beta;
  std::string_view precision;                // see program/library.h
  std::optional<MatrixView> a_view, b_view;  // where an operand does not lie matrix by matrix

  bool empty() const { return m == 0 || n == 0 || batch == 0; }
  std::string ToString() const;  // "8 x 16 x 4", with the batch before
};
GemmForm GemmFormOf(const program::LibraryStep& call);

// A routine without work.
PreparedPtr NothingToDo();

}  // namespace weft::gpu
