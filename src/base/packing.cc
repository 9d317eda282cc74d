#include "base/packing.h"

#include <cstring>

namespace weft {
namespace {

// Whole bytes of elements, for which the compiler has vector code.
template <int kBits>
void PackBytes(const std::byte* elements, int64_t bytes, std::byte* packed) {
  constexpr int kOfByte = 8 / kBits;
  for (int64_t i = 0; i < bytes; ++i) {
    unsigned all = 0;
    for (int k = 0; k < kOfByte; ++k) {
      all |= (static_cast<unsigned>(elements[i * kOfByte + k]) & ((1u << kBits) - 1))
             << (k * kBits);
    }
    packed[i] = static_cast<std::byte>(all);
  }
}

template <int kBits>
void UnpackBytes(const std::byte* packed, int64_t bytes, unsigned sign, std::byte* elements) {
  constexpr int kOfByte = 8 / kBits;
  for (int64_t i = 0; i < bytes; ++i) {
    const auto all = static_cast<unsigned>(packed[i]);
    for (int k = 0; k < kOfByte; ++k) {
      const unsigned one = all >> (k * kBits) & ((1u << kBits) - 1);
      elements[i * kOfByte + k] = static_cast<std::byte>((one ^ sign) - sign);
    }
  }
}

}  // namespace

void PackElements(DType dtype, const std::byte* elements, int64_t n, std::byte* packed) {
  if (n == 0) return;
  if (!IsSubByte(dtype)) {
    std::memcpy(packed, elements, static_cast<size_t>(n * ByteWidth(dtype)));
    return;
  }
  unsigned bits = static_cast<unsigned>(BitWidth(dtype)), mask = (1u << bits) - 1;
  if (IsPackable(dtype)) {
    const int64_t of_byte = 8 / static_cast<int64_t>(bits), bytes = n / of_byte;
    bits == 4 ? PackBytes<4>(elements, bytes, packed) : PackBytes<2>(elements, bytes, packed);
    elements += bytes * of_byte, packed += bytes, n -= bytes * of_byte;
  }
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
  if (IsPackable(dtype)) {
    const int64_t of_byte = 8 / static_cast<int64_t>(bits), bytes = n / of_byte;
    bits == 4 ? UnpackBytes<4>(packed, bytes, sign, elements)
              : UnpackBytes<2>(packed, bytes, sign, elements);
    packed += bytes, elements += bytes * of_byte, n -= bytes * of_byte;
  }
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
