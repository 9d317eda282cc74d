// How elements of every dtype are compared by numbers.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "cpu/routines/sort_items.h"

namespace weft::cpu {

// How elements of a key operand are compared. Formats without the usual order of bits have a table
// of keys by byte.
struct KeyFormat {
  int width;  // bytes in memory
  KeyOrder<uint32_t> narrow;
  KeyOrder<uint64_t> wide;  // 8 bytes
  std::vector<uint32_t> table;

  // The number of an element, given its bits.
  uint64_t Key(uint64_t raw) const {
    if (!table.empty()) return table[raw];
    return is_wide() ? wide(raw) : narrow(static_cast<uint32_t>(raw));
  }
  bool is_wide() const { return width == 8; }
  int bits() const { return table.empty() ? 8 * width : 32; }
};

KeyFormat FormatOf(DType dtype, bool descending, bool zeros_equal, bool nans_equal);

}  // namespace weft::cpu
