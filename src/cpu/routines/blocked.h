// Blocked Cholesky factorization and triangular solves of large real matrices, so that nearly all
// of the work is a matrix product; and solves for a few vectors. T: float or double.
#pragma once

#include "base/error.h"
#include "cpu/routines/factor_tiles.h"
#include "cpu/routines/scratch.h"

namespace weft::cpu {

inline constexpr int64_t kBlockedOrder = 2 * kFactorBlock;  // from here on it pays

// The lower factor in place of the lower triangle; what is above the diagonal becomes undefined.
// False: not positive definite.
template <class T>
Result<bool> BlockedCholesky(const Means& means, T* a, int64_t n);

// t x = b in place of b for a lower or upper triangular t (n x n) and m columns, with rows t_stride
// and b_stride apart.
template <class T>
Status BlockedSolve(const Means& means, const T* t, int64_t t_stride, int64_t n, bool lower,
                    bool unit, T* b, int64_t b_stride, int64_t m);

// Bytes of scratch that these take, on so many threads.
template <class T>
int64_t BlockedCholeskyScratch(int64_t n, int64_t threads);
template <class T>
int64_t BlockedSolveScratch(int64_t n, int64_t m, int64_t threads);

// t x = b, or its transpose, for m vectors of n elements, each in place. t is read once, by rows.
template <class T>
void SolveVectors(const T* t, int64_t n, int64_t m, bool lower, bool transpose, bool unit, T* b);

}  // namespace weft::cpu
