// What a sort's comparator says, where it compares the operands one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hlo/computation.h"

namespace weft::compiler {

struct SortOrder {
  std::vector<int64_t> keys;  // operands, the most significant first
  bool descending = false;
  bool zeros_equal = false;  // -0 and 0; of floats
  bool nans_equal = false;   // all NaN are one value above the others
};

// Where the comparator is such an order; of complex numbers it is none.
std::optional<SortOrder> OrderOfComparator(const hlo::Computation& comparator);

}  // namespace weft::compiler
