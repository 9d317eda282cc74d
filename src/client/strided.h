// Copying arrays whose elements lie apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/inline_vec.h"
#include "base/literal.h"

namespace weft::client {

// Byte strides of a dense row-major array.
Dims RowMajorStrides(std::span<const int64_t> dims, int64_t element_bytes);
// Byte strides of a dense array in the order that its layout says.
Dims LayoutStrides(const Shape& shape);
// Whether the strides are row-major ones, but for dimensions of size 1 and arrays without elements.
bool IsRowMajor(std::span<const int64_t> dims, std::span<const int64_t> byte_strides,
                int64_t element_bytes);

// Copies every element; strides are in bytes and may be zero or negative. `element_bytes` is 1, 2,
// 4, 8 or 16.
void CopyStrided(std::span<const int64_t> dims, int64_t element_bytes, std::byte* to,
                 std::span<const int64_t> to_strides, const std::byte* from,
                 std::span<const int64_t> from_strides);

// What an array with a layout looks like in memory, and back: elements lie row-major here whatever
// it says. Those of arrays without are the same either way.
Result<Literal> AsLaidOut(const Shape& shape, const Literal& row_major);
Result<Literal> FromLaidOut(const Shape& shape, const Literal& laid_out);

}  // namespace weft::client
