// Copying arrays whose elements lie apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/inline_vec.h"

namespace weft::client {

// Byte strides of a dense row-major array.
Dims RowMajorStrides(std::span<const int64_t> dims, int64_t element_bytes);
// Whether the strides are those, but for dimensions of size 1 and arrays without elements.
bool IsRowMajor(std::span<const int64_t> dims, std::span<const int64_t> byte_strides,
                int64_t element_bytes);

// Copies every element; strides are in bytes and may be zero or negative. `element_bytes` is 1, 2,
// 4, 8 or 16.
void CopyStrided(std::span<const int64_t> dims, int64_t element_bytes, std::byte* to,
                 std::span<const int64_t> to_strides, const std::byte* from,
                 std::span<const int64_t> from_strides);

}  // namespace weft::client
