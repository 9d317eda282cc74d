// Small products of bf16 or int8: one thread does one, with b in panels and rows of a as they lie
// where the micro-kernel takes them so.
#pragma once

#include "cpu/routines/narrow_rows.h"

namespace weft::cpu {

// Whether one thread had better do it alone: what cutting it and waking others would take is as
// long as the product.
bool TakesSmallNarrow(const NarrowKernel& kernel, const FewRowsProduct& s);
// What it takes, in nanoseconds, about.
double SmallNarrowCost(const NarrowKernel& kernel, const FewRowsProduct& s);
int64_t SmallNarrowScratch(const NarrowKernel& kernel, const FewRowsProduct& s);
// T: float for bf16, uint32_t for int8.
template <class T>
Status MultiplySmallNarrow(const Means& means, const NarrowKernel& kernel, const FewRowsProduct& s);

}  // namespace weft::cpu
