// Microkernels of factorizations of real matrices, their innermost loops. T: float, double.
#pragma once

#include <stdint.h>

namespace weft::cpu {

inline constexpr int64_t kFactorBlock = 48;  // rows and columns of a diagonal block

// The lower Cholesky factor of n <= kFactorBlock rows, `stride` apart, in place of the lower
// triangle; what is above the diagonal is left alone. False: not positive definite, and the
// triangle is of no use.
template <class T>
bool FactorSquare(T* a, int64_t stride, int64_t n);

// x corner^T = row for `count` rows of n <= kFactorBlock elements, in place; corner is lower
// triangular. Rows of both are `stride` apart.
template <class T>
void SolveRows(const T* corner, int64_t stride, int64_t n, T* rows, int64_t count);

// t x = b in place of b for a lower or upper triangular t (n x n, rows t_stride apart) and m
// columns (rows b_stride apart).
template <class T>
void SolveColumns(const T* t, int64_t t_stride, int64_t n, bool lower, bool unit, T* b,
                  int64_t b_stride, int64_t m);

// c -= l u, for `rows` x `depth` of l and `depth` x `columns` of u, rows of u and c `stride` apart:
// products too small to be packed.
template <class T>
void SubtractProduct(int64_t rows, int64_t columns, int64_t depth, const T* l, int64_t l_stride,
                     const T* u, T* c, int64_t stride);

}  // namespace weft::cpu
