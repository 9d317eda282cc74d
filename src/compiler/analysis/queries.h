// What passes and lowering ask about single instructions and shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hlo/module.h"

namespace weft::compiler {

// One instruction reads it, and it is no result.
bool IsReadOnce(const hlo::Instruction& i);
bool IsStaticArray(const hlo::Instruction& i);
// A broadcast that keeps the element type, of static shapes; its result dimensions ascend.
bool IsOrderedBroadcast(const hlo::Instruction& i);
// The value of a scalar constant, or of the one that is broadcast; null when there is none.
const Literal* SplatValue(const hlo::Instruction& i);
// All elements of an array are the same bits.
bool IsSplat(const Literal& l);
// The scalar (a constant or not) that fills an array, or the scalar itself; null: none.
hlo::Instruction* FillScalar(hlo::Instruction& i);
// An array whose elements are computed from their indices alone, by few operations: an iota, one
// value, or element by element of such.
bool IsOfIndices(const hlo::Instruction& i);
// The integer that a scalar constant holds; unsigned 64-bit ones as their bits.
std::optional<int64_t> IntegerValue(const hlo::Instruction& i);
// The op that a computation (x, y) -> op(x, y) applies; nullopt: it is another one.
std::optional<hlo::Op> BinaryReducer(const hlo::Computation& c);
// op(x, x) = x, so that it does not matter how often a reduction meets an element.
bool IsIdempotent(hlo::Op op);
// A reduce-precision to all bits of its type: the operand is rounded by itself, never contracted.
bool IsWholePrecision(const hlo::Instruction& i);
Shape WithoutLayoutOf(const Shape& shape);

// Two shapes of as many elements, cut into the shortest runs of dimensions with equal products:
// dimensions [from.begin, from.end) of one are [to.begin, to.end) of the other. Dimensions of size
// 1 are in some run or other. Empty when a shape has no elements.
struct DimRun {
  int64_t from_begin, from_end, to_begin, to_end;
};
std::vector<DimRun> MatchDims(std::span<const int64_t> from, std::span<const int64_t> to);
// Which dimension of `to` a dimension of `from` is, where it is neither cut nor joined with others
// of more than one element.
std::optional<int64_t> DimAfterReshape(std::span<const int64_t> from, std::span<const int64_t> to,
                                       int64_t dim);

}  // namespace weft::compiler
