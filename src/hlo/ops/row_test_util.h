// For tests of op rows: literals from lists, and one op inferred and evaluated.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/elements.h"
#include "hlo/evaluate.h"
#include "hlo/module.h"
#include "hlo/verify.h"

namespace weft::hlo {

inline Literal Array(DType dtype, std::vector<int64_t> dims, const std::vector<double>& values) {
  Literal literal{Shape(dtype, dims)};
  EXPECT_EQ(literal.size(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) literal.SetDouble(static_cast<int64_t>(i), values[i]);
  return literal;
}
inline Literal Vector(DType dtype, const std::vector<double>& values) {
  return Array(dtype, {static_cast<int64_t>(values.size())}, values);
}
inline Literal Scalar(DType dtype, double value) {
  return Array(dtype, {}, {value});
}
inline Literal Complexes(const std::vector<std::complex<double>>& values,
                         DType dtype = DType::kC64) {
  Literal literal{Shape(dtype, {static_cast<int64_t>(values.size())})};
  for (size_t i = 0; i < values.size(); ++i) literal.SetComplex(static_cast<int64_t>(i), values[i]);
  return literal;
}

// A module to add computations of scalars to.
class OpTest : public testing::Test {
 protected:
  OpTest() : module_("test") {}

  // A computation with scalar parameters of the given types, whose root the caller adds and sets.
  Computation* NewComputation(const std::vector<DType>& parameters) {
    Computation* c = module_.AddComputation(module_.UniqueName("f"));
    for (size_t i = 0; i < parameters.size(); ++i) {
      c->Add(Op::kParameter, module_.UniqueName("p"), Shape::Scalar(parameters[i]), {},
             ParameterAttrs{static_cast<int64_t>(i)});
    }
    return c;
  }
  Instruction* Add(Computation* c, Op op, std::vector<Instruction*> operands, Attrs attrs = {}) {
    std::vector<const Shape*> shapes;
    for (Instruction* operand : operands) shapes.push_back(&operand->shape());
    Result<Shape> shape = InferShape(op, shapes, attrs);
    EXPECT_TRUE(shape) << (shape ? "" : shape.error().message());
    Instruction* i = c->Add(op, module_.UniqueName("i"), shape ? *shape : Shape(), operands, attrs);
    c->set_root(i);
    return i;
  }
  Instruction* AddConstant(Computation* c, Literal literal) {
    return c->Add(Op::kConstant, module_.UniqueName("c"), literal.shape(), {},
                  ConstantAttrs{literal});
  }
  // f(a, b) = op(a, b)
  Computation* Binary(Op op, DType dtype, Attrs attrs = {}) {
    Computation* c = NewComputation({dtype, dtype});
    Add(c, op, {c->parameter(0), c->parameter(1)}, attrs);
    return c;
  }

  Result<Shape> Infer(Op op, const std::vector<Shape>& operands, Attrs attrs = {},
                      const Shape* declared = nullptr) {
    std::vector<const Shape*> shapes;
    for (const Shape& s : operands) shapes.push_back(&s);
    return InferShape(op, shapes, attrs, declared);
  }

  // Infers and evaluates one op. `declared` for ops whose shape is written.
  Result<Literal> Eval(Op op, std::vector<Literal> operands, Attrs attrs = {},
                       const Shape* declared = nullptr) {
    Computation* c = module_.AddComputation(module_.UniqueName("main"));
    std::vector<Instruction*> parameters;
    std::vector<const Shape*> shapes;
    for (size_t i = 0; i < operands.size(); ++i) {
      parameters.push_back(c->Add(Op::kParameter, module_.UniqueName("p"), operands[i].shape(), {},
                                  ParameterAttrs{static_cast<int64_t>(i)}));
      shapes.push_back(&parameters.back()->shape());
    }
    Shape shape = TRY(InferShape(op, shapes, attrs, declared));
    Instruction* i = c->Add(op, module_.UniqueName("i"), shape, parameters, attrs);
    EvalOptions options;
    EvalContext context(module_, options);
    return i->def().evaluate(context, *i, operands);
  }
  std::string EvalText(Op op, std::vector<Literal> operands, Attrs attrs = {},
                       const Shape* declared = nullptr) {
    Result<Literal> result = Eval(op, std::move(operands), std::move(attrs), declared);
    return result ? result->ToString() : "error: " + result.error().message();
  }

  Module module_;
};

}  // namespace weft::hlo
