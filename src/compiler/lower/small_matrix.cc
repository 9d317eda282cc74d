#include "compiler/lower/small_matrix.h"

namespace weft::compiler {

using hlo::Instruction;

int64_t BatchOf(const Shape& shape) {
  int64_t batch = 1;
  for (int64_t d = 0; d + 2 < shape.rank(); ++d) batch *= shape.dim(d);
  return batch;
}

Index ElementAt(ElementContext& e, ValueId base, int64_t offset) {
  Index index;
  index.is_linear = true;
  index.linear = {e.b.Add(base, e.b.Int(offset)), 0, 1};
  return index;
}

Result<Matrix> LoadSmallMatrix(ElementContext& e, const Instruction& operand, ValueId base,
                               int64_t m, int64_t n) {
  Matrix a(static_cast<size_t>(m));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      a[static_cast<size_t>(i)].push_back(
          TRY(EmitElement(e, operand, ElementAt(e, base, i * n + j))));
    }
  }
  return a;
}

void StoreSmallMatrix(ElementContext& e, KernelBuilder::MemoryId memory, DType dtype, ValueId base,
                      const Matrix& a) {
  int64_t at = 0;
  for (const auto& row : a) {
    for (const Element& x : row) StoreAt(e, memory, dtype, ElementAt(e, base, at++).linear, x);
  }
}

}  // namespace weft::compiler
