// Helpers for tests of op rows: computations are built in memory, and one instruction is inferred,
// evaluated or folded by its row alone.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/literal.h"
#include "hlo/evaluate.h"
#include "hlo/module.h"
#include "hlo/verify.h"

namespace weft::hlo {

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
    Result<Shape> shape =
        InferShape(op, shapes, attrs, declared.IsValid() ? &declared : nullptr);
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
