// The online softmax of attention: running maxima and sums over blocks of scores, compiled for the
// vector registers of each machine this program may find itself on.
#pragma once

#include <stdint.h>

namespace weft::cpu {

// Columns are queries: scores are [keys][width], so that a vector has neighbouring queries and
// nothing is reduced across lanes. width is a multiple of `lanes`.
struct SoftmaxKernel {
  int lanes;

  // scores become exp(score - largest) with the maxima `largest` that these keys leave; `factors`
  // is what sums that were made with the maxima before are multiplied by, `sums` those of the
  // weights. Maxima begin at -inf, sums at 0.
  void (*step)(int64_t keys, int64_t width, float* scores, float* largest, float* factors,
               double* sums);

  // The same for the n scores of one query in a row.
  void (*row)(int64_t n, float* scores, float* largest, float* factor, double* sum);

  // scores[s][i] = fill where first_key + s is below low[i] or above high[i].
  void (*bound)(int64_t keys, int64_t width, int32_t first_key, const int32_t* low,
                const int32_t* high, float fill, float* scores);

  // x[i] += y[i]; x[i] = fill where kept[i] is 0; rows[r][i] *= factors[i], rows of `width`.
  void (*add)(int64_t n, const float* y, float* x);
  void (*choose)(int64_t n, const uint32_t* kept, float fill, float* x);
  void (*scale)(int64_t rows, int64_t width, const float* factors, float* x);

  // Of the gradient: scores become weights exp(score - largest) * inverse, the gradients of weights
  // those of scores, weight * (gradient - delta).
  void (*gradient)(int64_t keys, int64_t width, const float* largest, const float* inverse,
                   const float* deltas, float* scores, float* gradients);
};

// The best one for this machine.
const SoftmaxKernel& FindSoftmaxKernel();

}  // namespace weft::cpu
