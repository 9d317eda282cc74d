// Small matrices whose elements are all values in registers.
#pragma once

#include <vector>

#include "compiler/lower/matrix.h"

namespace weft::compiler {

using Matrix = std::vector<std::vector<Element>>;

int64_t BatchOf(const Shape& shape);
Index ElementAt(ElementContext& e, ValueId base, int64_t offset);

// The elements of an operand's matrix that begins at element `base`.
Result<Matrix> LoadSmallMatrix(ElementContext& e, const hlo::Instruction& operand, ValueId base,
                               int64_t m, int64_t n);
void StoreSmallMatrix(ElementContext& e, KernelBuilder::MemoryId memory, DType dtype, ValueId base,
                      const Matrix& a);

}  // namespace weft::compiler
