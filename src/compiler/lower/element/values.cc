// Elements as values of all lanes: splats, selects, constants.
#include "compiler/lower/element/values.h"

#include <algorithm>
#include <complex>

namespace weft::compiler {

using program::Op;

void MatchLanes(ElementContext& e, ValueId& a, ValueId& b) {
  int lanes = std::max(e.b.type(a).lanes, e.b.type(b).lanes);
  if (e.b.type(a).lanes != lanes) a = e.b.Splat(a, lanes);
  if (e.b.type(b).lanes != lanes) b = e.b.Splat(b, lanes);
}

Element SelectElement(ElementContext& e, ValueId pred, Element a, Element b) {
  if (pred < 0) return a;
  auto one = [&](ValueId x, ValueId y) {
    ValueId p = pred;
    MatchLanes(e, x, y);
    bool logic = e.b.type(x).dtype == DType::kPred;
    if (e.b.type(p).lanes > 1 || logic) {  // else one lane chooses for all
      MatchLanes(e, p, x);
      MatchLanes(e, p, y);
    }
    if (!logic) return e.b.Select(p, x, y);
    // So that masks stay masks.
    ValueId no = e.b.Emit(Op::kNot, {p});
    return e.b.Emit(Op::kOr, {e.b.Emit(Op::kAnd, {p, x}), e.b.Emit(Op::kAnd, {no, y})});
  };
  return {one(a.re, b.re), a.im < 0 ? -1 : one(a.im, b.im)};
}

Element ZeroElement(ElementContext& e, DType dtype) {
  DType part = program::ComputeType(RealType(dtype));
  ValueId zero = e.b.Number(0, {part, 1});
  return {zero, IsComplex(dtype) ? zero : -1};
}

Result<Element> ConstantElement(ElementContext& e, const Literal& literal, int64_t i) {
  DType dtype = literal.dtype(), part = program::ComputeType(RealType(dtype));
  if (IsComplex(dtype)) {
    std::complex<double> c = literal.GetComplex(i);
    ValueId re = e.b.Float(c.real(), {part, 1});
    return Element{re, e.b.Float(c.imag(), {part, 1})};
  }
  if (IsFloat(dtype)) return Element{e.b.Float(literal.GetDouble(i), {part, 1}), -1};
  if (dtype == DType::kPred) return Element{e.b.Pred(literal.GetInt(i) != 0), -1};
  return Element{e.b.Int(literal.GetInt(i), {part, 1}), -1};
}

Element SpreadToLanes(ElementContext& e, Element value) {
  auto spread = [&](ValueId v) {
    return v < 0 || e.b.type(v).lanes == e.lanes ? v : e.b.Splat(v, e.lanes);
  };
  return {spread(value.re), spread(value.im)};
}

}  // namespace weft::compiler
