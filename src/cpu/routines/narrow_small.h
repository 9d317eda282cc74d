// Small products of bf16 or int8, and those of few columns: b is packed by one thread, rows of a
// are read as they lie where the micro-kernel takes them so.
#pragma once

#include "cpu/routines/narrow_rows.h"

namespace weft::cpu {

// Whether one thread had better do it alone, since what cutting it and waking others would take is
// as long as the product; or packing the many rows would.
bool TakesSmallNarrow(const NarrowKernel& kernel, const FewRowsProduct& s);
// What it takes, in nanoseconds, about.
double SmallNarrowCost(const NarrowKernel& kernel, const FewRowsProduct& s);
int64_t SmallNarrowScratch(const NarrowKernel& kernel, const FewRowsProduct& s);
// T: float for bf16, uint32_t for int8.
template <class T>
Status MultiplySmallNarrow(const Means& means, const NarrowKernel& kernel, const FewRowsProduct& s,
                           const RowsDone& done);

}  // namespace weft::cpu
