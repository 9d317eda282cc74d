// Loads and stores of elements, by how lanes lie in memory.
#pragma once

#include <optional>
#include <span>

#include "base/error.h"
#include "compiler/lower/element/context.h"

namespace weft::compiler {

Element LoadAt(ElementContext& e, KernelBuilder::MemoryId memory, DType dtype, const Coord& at);
void StoreAt(ElementContext& e, KernelBuilder::MemoryId memory, DType dtype, const Coord& at,
             Element value, ValueId mask = -1);
// An element of a bound instruction whose number is known, in all lanes or in each.
Result<std::optional<Element>> EmitKnown(ElementContext& e, const hlo::Instruction& instruction,
                                         const Coord& at);

// columns.cc: -1 where lanes do not go down a column of an array of short rows.
ValueId LoadColumn(ElementContext& e, KernelBuilder::MemoryId memory, const Coord& at);
// Whole rows of as many elements as there are columns, a row for each lane, from `begin` on.
void StoreColumns(ElementContext& e, KernelBuilder::MemoryId memory, ValueId begin,
                  std::span<const ValueId> columns);
// In every group of as many lanes as there are vectors: rows to columns, or back.
void TurnGroups(KernelBuilder& b, std::span<ValueId> vectors);

}  // namespace weft::compiler
