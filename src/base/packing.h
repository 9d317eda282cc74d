// Elements of less than a byte, packed: without gaps, the first in the lowest bits of the first
// byte. Bits behind the last element are zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace weft {

// Types that buffers of a Program may hold packed: two or four elements fill a byte.
constexpr bool IsPackable(DType t) {
  return IsSubByte(t) && (BitWidth(t) == 2 || BitWidth(t) == 4);
}
// Bytes of n packed elements; types of whole bytes are what they are.
constexpr int64_t PackedBytes(DType t, int64_t n) {
  if (!IsSubByte(t)) return n * ByteWidth(t);
  int64_t bits = BitWidth(t);
  return n / 8 * bits + (n % 8 * bits + 7) / 8;
}

// n elements of one byte each to and from PackedBytes(dtype, n) bytes; only the lowest bits of what
// is packed count. Types of whole bytes are copied.
void PackElements(DType dtype, const std::byte* elements, int64_t n, std::byte* packed);
void UnpackElements(DType dtype, const std::byte* packed, int64_t n, std::byte* elements);

}  // namespace weft
