// Arithmetic of real and complex fields for factorisations.
#include "compiler/lower/matrix.h"

#include <limits>

#include "program/math.h"

namespace weft::compiler {

using program::Op;

Field::Field(ElementContext& elements, DType dtype)
    : e_(elements),
      b_(elements.b),
      dtype_(dtype),
      complex_(IsComplex(dtype)),
      real_{program::ComputeType(RealType(dtype)), 1},
      zero_(b_.Float(0, real_)) {}

Element Field::NotANumber() const {
  return FromReal(b_.Float(std::numeric_limits<double>::quiet_NaN(), real_));
}

Element Field::Conjugate(Element x) const {
  return complex_ ? Element{x.re, b_.Emit(Op::kNeg, {x.im})} : x;
}

Element Field::Subtract(Element x, Element y) const {
  MatchLanes(e_, x.re, y.re);
  if (!complex_) return {b_.Sub(x.re, y.re), -1};
  MatchLanes(e_, x.im, y.im);
  return {b_.Sub(x.re, y.re), b_.Sub(x.im, y.im)};
}

Element Field::Multiply(Element x, Element y) const {
  MatchLanes(e_, x.re, y.re);
  if (!complex_) return {b_.Mul(x.re, y.re), -1};
  MatchLanes(e_, x.im, y.im);
  return {b_.Sub(b_.Mul(x.re, y.re), b_.Mul(x.im, y.im)),
          b_.Add(b_.Mul(x.re, y.im), b_.Mul(x.im, y.re))};
}

Element Field::Divide(Element x, Element y) const {
  MatchLanes(e_, x.re, y.re);
  if (!complex_) return {b_.Div(x.re, y.re), -1};
  MatchLanes(e_, x.im, y.im);
  program::math::Complex q = program::math::Div(b_, {x.re, x.im}, {y.re, y.im});
  return {q.re, q.im};
}

Element Field::DivideByReal(Element x, ValueId y) const {
  MatchLanes(e_, x.re, y);
  return {b_.Div(x.re, y), complex_ ? b_.Div(x.im, y) : -1};
}

ValueId Field::PivotSize(Element x) const {
  ValueId size = b_.Emit(Op::kAbs, {x.re});
  return complex_ ? b_.Add(size, b_.Emit(Op::kAbs, {x.im})) : size;
}

ValueId Field::IsZero(Element x) const {
  ValueId is = b_.Emit(Op::kEq, {x.re, zero_});
  return complex_ ? b_.Emit(Op::kAnd, {is, b_.Emit(Op::kEq, {x.im, zero_})}) : is;
}

ValueId Field::IsUsableDiagonal(ValueId x) const {
  ValueId infinity = b_.Float(std::numeric_limits<double>::infinity(), real_);
  return b_.Emit(Op::kAnd, {b_.Emit(Op::kGt, {x, zero_}), b_.Emit(Op::kLt, {x, infinity})});
}

void Field::Append(Element x, KernelBuilder::Carry& carry) const {
  carry.push_back(x.re);
  if (complex_) carry.push_back(x.im);
}

Element Field::Take(const std::vector<ValueId>& values, size_t& next) const {
  Element x{values[next++], -1};
  if (complex_) x.im = values[next++];
  return x;
}

Coord MatrixMemory::At(ValueId i, ValueId j) const {
  KernelBuilder& b = e.b;
  return {b.Add(b.Add(base, b.Mul(i, b.Int(columns))), j), 0, 1};
}

}  // namespace weft::compiler
