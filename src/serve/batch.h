// Rows of requests in one array and back: joining, padding, cutting.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/literal.h"

namespace weft::serve {

// Copies the elements of `from` into `to` at row `row` of the first dimension; the others begin at
// 0. Each dimension of `from` fits.
void PasteAt(const Literal& from, Literal& to, int64_t row);

// The part of an array of shape `shape` that begins at row `row`. Shares the bytes where whole rows
// are taken.
Result<Literal> CutAt(const Literal& from, const Shape& shape, int64_t row);

// Arrays of one shape but for their rows, one behind the other.
Result<Literal> JoinRows(std::span<const Literal> parts);

// An array of shape `shape`: the parts one behind the other along the first dimension, zeros where
// none reaches. One part that is it already is taken as it is.
Result<Literal> Assemble(std::span<const Literal* const> parts, const Shape& shape);

}  // namespace weft::serve
