// Adds instructions with inferred shapes and unique names.
//
//   Builder b(*computation);
//   Instruction* sum = TRY(b.Add(Op::kAdd, {x, y}));
//   Instruction* wide = TRY(b.Broadcast(sum, Shape(DType::kF32, {4, 8}), {0}));
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hlo/module.h"

namespace weft::hlo {

class Builder {
 public:
  // New instructions go before `before`; null: to the end. `like`: their metadata is that one's.
  explicit Builder(Computation& computation, Instruction* before = nullptr,
                   const Instruction* like = nullptr)
      : computation_(computation), before_(before), like_(like) {}

  Computation& computation() const { return computation_; }

  // Any op. `shape` is needed by ops whose result shape cannot be inferred (trait kShapeWritten)
  // and checked otherwise. Operands must live in the same computation. The name is made unique;
  // empty: the mnemonic's.
  Result<Instruction*> Add(Op op, std::span<Instruction* const> operands, Attrs attrs,
                           const Shape* shape = nullptr, std::string_view name = "");
  Result<Instruction*> Add(Op op, std::initializer_list<Instruction*> operands) {
    return Add(op, std::span(operands.begin(), operands.size()), Attrs(GetOp(op).attrs));
  }
  Result<Instruction*> Add(Op op, std::initializer_list<Instruction*> operands, Attrs attrs) {
    return Add(op, std::span(operands.begin(), operands.size()), std::move(attrs));
  }

  // The frequent ones.
  Result<Instruction*> Parameter(int64_t number, const Shape& shape, std::string_view name = "");
  Instruction* Constant(Literal value, std::string_view name = "");
  Instruction* ScalarConstant(DType dtype, double value);  // rounded as convert does
  Result<Instruction*> Broadcast(Instruction* operand, const Shape& shape, Ints dimensions);
  // A constant of `value` in every element.
  Result<Instruction*> Fill(const Shape& shape, double value);
  Result<Instruction*> Reshape(Instruction* operand, std::span<const int64_t> dims);
  Result<Instruction*> Transpose(Instruction* operand, Ints permutation);
  Result<Instruction*> Convert(Instruction* operand, DType dtype);
  Result<Instruction*> Compare(Instruction* a, Instruction* b, Direction direction);
  Result<Instruction*> Reduce(Instruction* operand, Instruction* init, Ints dimensions,
                              Computation* to_apply);
  Result<Instruction*> Tuple(std::span<Instruction* const> elements);
  Result<Instruction*> GetTupleElement(Instruction* tuple, int64_t index);
  Result<Instruction*> Call(Computation* to_apply, std::span<Instruction* const> operands);

 private:
  Computation& computation_;
  Instruction* before_;
  const Instruction* like_;
};

// A computation (a, b) -> op(a, b) on scalars, added to the module before `before` (null: first).
Result<Computation*> AddScalarBinary(Module& module, Op op, DType dtype,
                                     Computation* before = nullptr);

}  // namespace weft::hlo
