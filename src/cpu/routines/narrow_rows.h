// Few rows of bf16 or int8 by a matrix that is read once, where it lies: no copy of it is packed.
#pragma once

#include "cpu/routines/narrow_product.h"

namespace weft::cpu {

struct FewRowsProduct {
  int64_t m, n, k;
  NarrowSource a, b;  // rows of a, columns of b
  ResultMatrix result;
  bool adds;  // to what is there
};

// Whether the rows are those of one panel, or of two by a matrix whose rows are consecutive, one
// stride of b is 1, and the processor has what it takes: more rows are multiplied no slower by
// packed panels.
bool TakesFewRows(const NarrowKernel& kernel, const FewRowsProduct& s);
// T: float for bf16, uint32_t for int8. The order of sums depends on k alone.
template <class T>
Status MultiplyFewRows(const Means& means, const NarrowKernel& kernel, const FewRowsProduct& s);
int64_t FewRowsScratch(const NarrowKernel& kernel, const FewRowsProduct& s);

}  // namespace weft::cpu
