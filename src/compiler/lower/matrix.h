// Numbers of one real or complex type in a kernel, and the elements of a matrix of them.
#pragma once

#include <vector>

#include "compiler/lower/element/element.h"

namespace weft::compiler {

class Field {
 public:
  Field(ElementContext& elements, DType dtype);

  bool is_complex() const { return complex_; }
  DType dtype() const { return dtype_; }
  Element Zero() const { return {zero_, complex_ ? zero_ : -1}; }
  Element NotANumber() const;
  Element Conjugate(Element x) const;
  Element Subtract(Element x, Element y) const;
  Element Multiply(Element x, Element y) const;
  Element Divide(Element x, Element y) const;
  Element DivideByReal(Element x, ValueId y) const;
  Element FromReal(ValueId x) const { return {x, complex_ ? zero_ : -1}; }
  // x - y * z
  Element SubtractProduct(Element x, Element y, Element z) const {
    return Subtract(x, Multiply(y, z));
  }
  // What pivots are chosen by: |x|, or |re| + |im|.
  ValueId PivotSize(Element x) const;
  ValueId IsZero(Element x) const;
  ValueId IsUsableDiagonal(ValueId x) const;  // positive and finite

  // As values that a loop carries, and back.
  void Append(Element x, KernelBuilder::Carry& carry) const;
  Element Take(const std::vector<ValueId>& values, size_t& next) const;

 private:
  ElementContext& e_;
  KernelBuilder& b_;
  DType dtype_;
  bool complex_;
  program::Type real_;
  ValueId zero_;
};

// A matrix in memory, row after row.
struct MatrixMemory {
  ElementContext& e;
  KernelBuilder::MemoryId memory;
  DType dtype;
  ValueId base;  // number of its first element
  int64_t columns;

  Coord At(ValueId i, ValueId j) const;
  Element Load(ValueId i, ValueId j) const { return LoadAt(e, memory, dtype, At(i, j)); }
  void Store(ValueId i, ValueId j, Element x) const { StoreAt(e, memory, dtype, At(i, j), x); }
};

}  // namespace weft::compiler
