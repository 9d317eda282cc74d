// Rules of shape inference that several op families share.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/shape.h"
#include "hlo/attr_types.h"
#include "hlo/op.h"

namespace weft::hlo {

Status ExpectArray(Op op, std::string_view what, const Shape& shape);

// The dimensions of `shape` with another element type and no layout.
Shape WithType(const Shape& shape, DType dtype);

// Equal types, or two float types of whatever precision.
bool SameTypeUpToPrecision(DType a, DType b);
// The float type with more range, then more precision; of equal types that type.
DType MorePrecise(DType a, DType b);

// Same rank and, dimension by dimension, equal bounds; an unbounded dimension goes with any.
bool DimsAgree(const Shape& a, const Shape& b);
// As DimsAgree, and types equal up to precision; of tuples, element by element.
bool ShapesAgree(const Shape& a, const Shape& b);
// The dimensions of both at once: those of the more specific one; dynamic when either is. The
// element type is a's. Needs DimsAgree.
Shape MergeDims(const Shape& a, const Shape& b);

// The size of a dimension (not unbounded) after a window slides over it; an error for windows that
// make no sense.
Result<int64_t> WindowedSize(Op op, int64_t size, const WindowDim& window);
// All dimensions of an array after a window slides over them.
Result<Shape> WindowedShape(Op op, const Shape& base, const Window& window, DType dtype);

// A computation with all its parameters and a root, as ops need that call one.
Status ExpectComputation(Op op, std::string_view what, const Computation* computation,
                         int64_t parameters);
// (accumulators..., values...) -> accumulators, all scalars, as reduce and its like need it.
// types[i] is the element type of the i-th reduced array, inits[i] the shape of its initial value.
Status CheckReducer(Op op, const Computation* computation, std::span<const Shape* const> inits,
                    std::span<const DType> types);

}  // namespace weft::hlo
