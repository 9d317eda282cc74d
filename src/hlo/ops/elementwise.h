// What the rows of elementwise ops are made of.
#pragma once

#include "hlo/fwd.h"
#include "hlo/op.h"

namespace weft::hlo {

// Element types that an op takes.
enum TypeSet : unsigned {
  kTakesPred = 1,
  kTakesSigned = 2,
  kTakesUnsigned = 4,
  kTakesFloat = 8,
  kTakesComplex = 16,
  kTakesIntegers = kTakesSigned | kTakesUnsigned,
  kTakesNumbers = kTakesIntegers | kTakesFloat | kTakesComplex,
  kTakesAll = kTakesNumbers | kTakesPred,
};
// An error that names the op, the type it got and those it takes.
Status ExpectType(Op op, unsigned set, const Shape& shape);

// Operands of one shape (up to precision and dynamic sizes) of a type in `set`: their dimensions,
// and the most precise of their types.
Result<Shape> InferSameShape(const InferArgs& args, unsigned set);
template <unsigned set>
Result<Shape> InferSame(const InferArgs& args) {
  return InferSameShape(args, set);
}

// Any elementwise op, through lanes.h.
Result<Literal> EvaluateElementwise(EvalContext&, const Instruction&, std::span<Literal>);

// Helpers of evaluation. The shape that a result has at run time: unbounded dimensions are those of
// `like`.
Result<Shape> RunTimeShape(const Instruction& instruction, const Shape& declared,
                           const Literal& like);
// An array for a result, its elements not set; an error when it is larger than the context allows.
Result<Literal> NewArray(EvalContext& context, const Instruction& instruction, Shape shape);
// Gives the result the run-time sizes of operands of its rank.
void CopyDynamicSizes(std::span<const Literal> operands, Literal& result);

bool HaveSameShape(const Instruction& a, const Instruction& b);  // layouts ignored
// A fold whose instruction has the shape of the folded one, precision and dynamic sizes included.
template <Instruction* (*fold)(Instruction&)>
Instruction* FoldToSameShape(Instruction& instruction) {
  Instruction* with = fold(instruction);
  return with != nullptr && HaveSameShape(instruction, *with) ? with : nullptr;
}

// A constant whose elements are all `value`, directly or broadcast from a scalar.
bool IsConstantOf(const Instruction* instruction, double value);

}  // namespace weft::hlo
