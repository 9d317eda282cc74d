// Stable sorting of rows by keys or by any comparator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/computation.h"

namespace weft::hlo {

class EvalContext;

// Numbers whose unsigned order is the order of the elements: floats in total order (-NaN first, NaN
// last), or with -0 equal to 0 when `zeros_equal`. False when there is none: complex elements, or
// NaN where `zeros_equal` asks for the plain order of floats.
bool OrderKeys(DType dtype, const std::byte* elements, int64_t n, bool zeros_equal, uint64_t* keys);

// The permutation that sorts by keys, equal ones in the order they have.
void SortByKeys(std::span<const uint64_t> keys, std::span<int64_t> permutation);

// Sorts arrays of the same dimensions along one of them, by a comparator of two elements of each.
// Only the first `length` elements along the dimension take part.
Status SortRows(EvalContext& context, const Computation& comparator, std::span<Literal> arrays,
                int64_t dim, int64_t length);

}  // namespace weft::hlo
