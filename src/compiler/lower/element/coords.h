// Arithmetic on coordinates (address computation): strides, ranges and alignment are kept.
#pragma once

#include <span>

#include "compiler/lower/element/context.h"

namespace weft::compiler {

inline bool FitsS32(int64_t size) {
  return size < (int64_t{1} << 31);
}
// What a coordinate's lanes are computed in: vectors hold twice as many of 32 bits.
inline DType LaneType(int64_t low, int64_t high) {
  return low > -(int64_t{1} << 31) && FitsS32(high) ? DType::kS32 : DType::kS64;
}
inline DType LaneType(const Coord& c) {
  return LaneType(c.low, c.high);
}

Coord ConstantCoord(const ElementContext& e, int64_t value);
Coord AddCoords(ElementContext& e, const Coord& a, const Coord& b);
Coord AddConstant(ElementContext& e, const Coord& a, int64_t c);
Coord ScaleCoord(ElementContext& e, const Coord& a, int64_t factor);
Coord DivideCoord(ElementContext& e, const Coord& a, int64_t divisor);     // of values >= 0
Coord CoordRemainder(ElementContext& e, const Coord& a, int64_t divisor);  // of values >= 0
Coord ClampCoord(ElementContext& e, const Coord& coord, int64_t low, int64_t high);
// Row-major numbers of indices, and back (linearize, delinearize).
Coord LinearCoord(ElementContext& e, std::span<const int64_t> dims, const Index& index);
Index Coordinates(ElementContext& e, std::span<const int64_t> dims, const Index& index);
Coord CoordinateAt(ElementContext& e, std::span<const int64_t> dims, const Index& index, size_t d);
// One value a lane, or a scalar when all are the same.
ValueId LaneValue(ElementContext& e, const Coord& coord, DType type);
// low <= coord < high; -1: always so. `size_known`: coord is below it.
ValueId IsWithin(ElementContext& e, const Coord& coord, int64_t low, int64_t high,
                 int64_t size_known);
// A coordinate computed by the program: an integer element.
Coord CoordOfElement(ElementContext& e, Element element);

}  // namespace weft::compiler
