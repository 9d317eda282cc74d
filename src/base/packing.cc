#include "base/packing.h"

#include <cstring>

namespace weft {

void PackElements(DType dtype, const std::byte* elements, int64_t n, std::byte* packed) {
  if (n == 0) return;
  if (!IsSubByte(dtype)) {
    std::memcpy(packed, elements, static_cast<size_t>(n * ByteWidth(dtype)));
    return;
  }
  unsigned bits = static_cast<unsigned>(BitWidth(dtype)), mask = (1u << bits) - 1;
  unsigned pending = 0, filled = 0;  // bits not yet written
  for (int64_t i = 0; i < n; ++i) {
    pending |= (static_cast<unsigned>(elements[i]) & mask) << filled;
    filled += bits;
    if (filled >= 8) {
      *packed++ = static_cast<std::byte>(pending);
      pending >>= 8;
      filled -= 8;
    }
  }
  if (filled > 0) *packed = static_cast<std::byte>(pending);
}

void UnpackElements(DType dtype, const std::byte* packed, int64_t n, std::byte* elements) {
  if (n == 0) return;
  if (!IsSubByte(dtype)) {
    std::memcpy(elements, packed, static_cast<size_t>(n * ByteWidth(dtype)));
    return;
  }
  unsigned bits = static_cast<unsigned>(BitWidth(dtype)), mask = (1u << bits) - 1;
  unsigned sign = IsSigned(dtype) ? 1u << (bits - 1) : 0;
  unsigned pending = 0, filled = 0;  // bits read and not yet used
  for (int64_t i = 0; i < n; ++i) {
    if (filled < bits) {
      pending |= static_cast<unsigned>(*packed++) << filled;
      filled += 8;
    }
    elements[i] = static_cast<std::byte>(((pending & mask) ^ sign) - sign);
    pending >>= bits;
    filled -= bits;
  }
}

}  // namespace weft
