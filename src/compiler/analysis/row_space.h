// Rows: arrays whose trailing dimensions are reduced, and values of one element for each row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "compiler/analysis/element_cost.h"
#include "hlo/instruction.h"

namespace weft::compiler {

struct RowSpace {
  Dims wide;        // dimensions of what is reduced
  size_t kept = 0;  // the first `kept` of them number the rows
  int64_t rows = 1;
  int64_t length = 1;  // elements of a row

  // Reductions of so few elements may also be computed where they are needed.
  bool IsShort() const { return length <= kShortReduce; }
  bool IsWide(const Shape& shape) const;
  // One element a row: the kept dimensions, with any dimensions of size 1 among them.
  bool IsNarrow(const Shape& shape) const;
  bool operator==(const RowSpace&) const = default;
};

// The space of a reduction over all dimensions from some one on, if rows are of a size that one
// thread should work on.
std::optional<RowSpace> RowSpaceOfReduce(const hlo::Instruction& reduce);
bool IsRowReduce(const hlo::Instruction& instruction, const RowSpace& space);
// A row's values of `user` depend on the same row's value of its operand only.
bool KeepsRows(const hlo::Instruction& user, const hlo::Instruction& operand,
               const RowSpace& space);
// The space of a fused computation made of rows: that of its reductions.
std::optional<RowSpace> RowSpaceOf(std::span<const hlo::Instruction* const> members);

}  // namespace weft::compiler
