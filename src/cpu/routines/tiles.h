// GEMM microkernels: the innermost loops of matrix multiplication, compiled for the vector
// registers of each machine this program may find itself on.
#pragma once

#include <stdint.h>

#include <type_traits>

#include "program/sum_order.h"
#include "program/target_facts.h"

namespace weft::cpu {

// Elements: an accumulator of f32 takes as many.
inline constexpr int64_t kMostInRun = 2 * program::SumOrder::kRun;

// What dot products are added up in, and how many of each side are multiplied at once.
template <class T>
using DotSum = std::conditional_t<std::is_same_v<T, float>, double, T>;
inline constexpr int kDotSquare = program::TargetFacts::kNarrowLanes;

// T: float, double, uint32_t, uint64_t.
template <class T>
struct TileKernel {
  int lanes;       // of a vector
  int rows, cols;  // of a tile of packed operands

  // rows x cols of c = alpha * sum + beta * c, with the sum over p < k of a[p * rows + i] *
  // b[p * cols + j]. c is not read when beta is 0.
  void (*packed)(int64_t k, const T* a, const T* b, T* c, int64_t ldc, T alpha, T beta);

  // The same with rows of a where they lie, in `runs` runs of consecutive elements: for each the
  // number of elements, kMostInRun at most, and where it begins in every row. Null: too many rows
  // for the registers.
  void (*from_rows)(int64_t runs, const void* const* table, const T* b, T* c, int64_t ldc, T alpha,
                    T beta);

  // The same with both operands where they lie: element i of a at a[p * a_k + i], j of b at
  // b[p * b_k + j]. c = sum + beta * c. Null: a is read in vectors of a panel.
  void (*lying)(int64_t k, const T* a, int64_t a_k, const T* b, int64_t b_k, T* c, int64_t ldc,
                T beta);

  // The same for `used` rows and n >= lanes columns, with rows of b as they lie in memory, b_k
  // apart.
  // Null, like those below, in tiles for packed operands alone.
  void (*direct)(int64_t used, int64_t n, int64_t k, const T* a, const T* b, int64_t b_k, T* c,
                 int64_t ldc, T alpha, T beta);

  // n columns of `used` <= 4 rows of c grow by the products of a[4 * i + q] and row q < 4 of b.
  void (*grow)(int64_t used, int64_t n, const T* a, const T* const* b, T* c, int64_t ldc);

  // c[i * c_row] = alpha * sum + beta * c[i * c_row] for i < m: rows a[i * a_row + p] times x[p].
  void (*rows_times_vector)(int64_t m, int64_t k, const T* a, int64_t a_row, const T* x, T* c,
                            int64_t c_row, T alpha, T beta);

  // sums[i * kDotSquare + j] grows by the dot product of row i of a and row j of b, for kDotSquare
  // of each. It pays for so many rows of a; 0: too few registers.
  int64_t dot_rows;
  void (*dots)(int64_t k, const T* a, int64_t a_row, const T* b, int64_t b_row, DotSum<T>* sums);
};

// The best one for this machine; of those with at most `max_lanes`, for narrow matrices. Null when
// there is none so narrow.
template <class T>
const TileKernel<T>* FindTileKernel(int64_t max_lanes);

// The tile for packed operands that takes least time over n columns.
template <class T>
const TileKernel<T>& TileKernelFor(int64_t n);

// The smallest one that reads rows of a where they lie and has n columns. Null: there is none.
template <class T>
const TileKernel<T>* RowTileFor(int64_t n);

// The one that takes least time over m rows and n columns that lie. Null: there is none.
template <class T>
const TileKernel<T>* LyingTileFor(int64_t m, int64_t n);

// out[p * width + i] = rows[i][p] for p < kn and i < width.
template <class T>
void PackAcross(const T* const* rows, int64_t kn, int64_t width, T* out);

}  // namespace weft::cpu
