// Arguments for a computation that nobody gave values for: deterministic in the seed, the same on
// every machine and for any number of threads.
//
//   pred                    false or true
//   integers                -8 to 8, unsigned 0 to 16, as far as the type reaches; 0 to 7 where the
//                           parameter itself is an index (dynamic-slice, gather, scatter, ...)
//   floats, complex parts   -1 to 1 evenly, rounded to the type; f8e8m0fnu: powers of two, 1/4 to 4
//   tuples                  element by element; tokens are tokens
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/computation.h"

namespace weft::hlo {

// A shape that is too large, has `?` dimensions or is opaque is an error. `index_count` > 0:
// integers are indices from 0 to one below (and at most 7).
Result<Literal> RandomLiteral(const Shape& shape, uint64_t seed, int64_t index_count = 0);

// One value per parameter. Different devices get different values.
Result<std::vector<Literal>> RandomArguments(const Computation& computation, uint64_t seed,
                                             int64_t device = 0);

}  // namespace weft::hlo
