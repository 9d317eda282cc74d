// For tests of op rows: literals from lists, and one op inferred and evaluated.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/elements.h"
#include "base/literal.h"
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

// A literal of any type from numbers.
inline Literal Values(Shape shape, std::initializer_list<double> values) {
  Literal literal{std::move(shape)};
  int64_t i = 0;
  for (double v : values) literal.SetDouble(i++, v);
  return literal;
}
inline Literal Ints32(std::initializer_list<double> values) {
  return Values(Shape(DType::kS32, {static_cast<int64_t>(values.size())}), values);
}

class OpTester {
 public:
  OpTester() : module_("test") { entry_ = module_.AddComputation("main"); }

  Module& module() { return module_; }
  Computation* entry() { return entry_; }
  Instruction* Parameter(Shape shape) {
    return Add(Op::kParameter, shape, {}, ParameterAttrs{parameters_++});
  }
  Instruction* Add(Op op, Shape shape, std::vector<Instruction*> operands, Attrs attrs = {}) {
    return entry_->Add(op, module_.UniqueName(Mnemonic(op)), std::move(shape), operands,
                       std::move(attrs));
  }

  // The inferred shape as text, or the error's message.
  static std::string Infer(Op op, std::vector<Shape> operands, Attrs attrs,
                           const Shape* declared = nullptr) {
    std::vector<const Shape*> pointers;
    for (const Shape& s : operands) pointers.push_back(&s);
    Result<Shape> shape = InferShape(op, pointers, attrs, declared);
    return shape ? shape->ToString() : shape.error().message();
  }

  // Evaluates op on operands; the shape is inferred unless declared.
  Literal Evaluate(Op op, std::vector<Literal> operands, Attrs attrs, Shape declared = {}) {
    std::vector<Instruction*> parameters;
    std::vector<const Shape*> shapes;
    for (const Literal& l : operands) parameters.push_back(Parameter(l.shape()));
    for (const Literal& l : operands) shapes.push_back(&l.shape());
    Result<Shape> shape = InferShape(op, shapes, attrs, declared.IsValid() ? &declared : nullptr);
    CHECK(shape.has_value()) << shape.error().message();
    Shape result = declared.IsValid() ? declared : *shape;
    Instruction* instruction = Add(op, result, parameters, attrs);
    EvalContext context(module_, options_);
    Result<Literal> literal = GetOp(op).evaluate(context, *instruction, operands);
    CHECK(literal.has_value()) << literal.error().message();
    return *literal;
  }

 private:
  Module module_;
  Computation* entry_;
  EvalOptions options_;
  int64_t parameters_ = 0;
};

}  // namespace weft::hlo
