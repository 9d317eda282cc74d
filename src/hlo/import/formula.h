// Formulas of elementwise ops, written as arithmetic.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "hlo/import/to_hlo.h"

namespace weft::hlo::mlir {

class Formula;

// A value of a formula, with the arithmetic of its elements.
struct Term {
  Formula* formula;
  Instruction* value;
};

// Emits instructions over arrays of one shape.
class Formula {
 public:
  Formula(Converter& c, Shape shape) : c_(c), shape_(std::move(shape)) {}

  Term Apply(Op op, std::initializer_list<Term> terms) {
    return Typed(op, terms, NoAttrs{}, shape_);
  }
  Term Math(Op op, Term x) { return Typed(op, {x}, UnaryMathAttrs{}, shape_); }
  Term Compare(Term a, Term b, Direction direction) {
    return Typed(Op::kCompare, {a, b}, CompareAttrs{.direction = direction}, With(DType::kPred));
  }
  Term Logic(Op op, std::initializer_list<Term> terms) {
    return Typed(op, terms, NoAttrs{}, With(DType::kPred));
  }
  Term Convert(Term x, DType dtype) { return Typed(Op::kConvert, {x}, NoAttrs{}, With(dtype)); }
  Term Constant(double number) { return Written(Literal::Scalar<double>(DType::kF64, number)); }
  // A literal of rank 0, everywhere.
  Term Written(Literal literal) {
    Shape shape = With(literal.shape().dtype());
    Shape scalar = literal.shape();
    Instruction* constant =
        c_.Emit(Op::kConstant, {}, ConstantAttrs{.literal = std::move(literal)}, scalar);
    if (shape.rank() == 0) return {this, constant};
    return {this, c_.Emit(Op::kBroadcast, {constant}, BroadcastAttrs{}, std::move(shape))};
  }
  Term Typed(Op op, std::initializer_list<Term> terms, Attrs attrs, Shape shape) {
    std::vector<Instruction*> operands;
    for (Term term : terms) operands.push_back(term.value);
    return {this, c_.Emit(op, operands, std::move(attrs), std::move(shape))};
  }
  Shape With(DType dtype) const {
    Shape shape = shape_;
    shape.set_dtype(dtype);
    return shape;
  }

 private:
  Converter& c_;
  Shape shape_;
};

inline Term operator+(Term a, Term b) {
  return a.formula->Apply(Op::kAdd, {a, b});
}
inline Term operator-(Term a, Term b) {
  return a.formula->Apply(Op::kSubtract, {a, b});
}
inline Term operator*(Term a, Term b) {
  return a.formula->Apply(Op::kMultiply, {a, b});
}
inline Term operator/(Term a, Term b) {
  return a.formula->Apply(Op::kDivide, {a, b});
}
inline Term operator-(Term a) {
  return a.formula->Apply(Op::kNegate, {a});
}
inline Term operator+(Term a, double b) {
  return a + a.formula->Constant(b);
}
inline Term operator-(Term a, double b) {
  return a - a.formula->Constant(b);
}
inline Term operator*(Term a, double b) {
  return a * a.formula->Constant(b);
}
inline Term operator/(Term a, double b) {
  return a / a.formula->Constant(b);
}
inline Term operator-(double a, Term b) {
  return b.formula->Constant(a) - b;
}
inline Term operator/(double a, Term b) {
  return b.formula->Constant(a) / b;
}
inline Term operator<(Term a, Term b) {
  return a.formula->Compare(a, b, Direction::kLt);
}
inline Term operator<(Term a, double b) {
  return a < a.formula->Constant(b);
}
inline Term operator<=(Term a, double b) {
  return a.formula->Compare(a, a.formula->Constant(b), Direction::kLe);
}
inline Term operator==(Term a, Term b) {
  return a.formula->Compare(a, b, Direction::kEq);
}
inline Term operator==(Term a, double b) {
  return a == a.formula->Constant(b);
}
inline Term operator!=(Term a, Term b) {
  return a.formula->Compare(a, b, Direction::kNe);
}
inline Term operator&(Term a, Term b) {
  return a.formula->Logic(Op::kAnd, {a, b});
}
inline Term operator|(Term a, Term b) {
  return a.formula->Logic(Op::kOr, {a, b});
}

inline Term Select(Term chosen, Term a, Term b) {
  return a.formula->Typed(Op::kSelect, {chosen, a, b}, NoAttrs{}, a.value->shape());
}
inline Term Select(Term chosen, double a, Term b) {
  return Select(chosen, b.formula->Constant(a), b);
}
inline Term Abs(Term x) {
  return x.formula->Apply(Op::kAbs, {x});
}
inline Term Floor(Term x) {
  return x.formula->Apply(Op::kFloor, {x});
}
inline Term Sign(Term x) {
  return x.formula->Apply(Op::kSign, {x});
}
inline Term Power(Term x, Term y) {
  return x.formula->Apply(Op::kPower, {x, y});
}
inline Term Exp(Term x) {
  return x.formula->Math(Op::kExponential, x);
}
inline Term Log(Term x) {
  return x.formula->Math(Op::kLog, x);
}
inline Term Sqrt(Term x) {
  return x.formula->Math(Op::kSqrt, x);
}
inline Term IsWhole(Term x) {
  return Floor(x) == x;
}

}  // namespace weft::hlo::mlir
