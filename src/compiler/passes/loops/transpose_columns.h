// The parts of transpose-columns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "compiler/passes/loops/loop_state.h"
#include "program/target.h"
#include "program/target_facts.h"

namespace weft::compiler {

// Columns shorter than this are as well gathered.
inline constexpr int64_t kLongColumn = 2 * program::TargetFacts::kUsualLanes;  // elements

// How many leading dimensions a column has whole, where `part` is one element along all others;
// nullopt: it is no column. Of a matrix: 1.
std::optional<int64_t> LeadingOfColumn(const Shape& part, const Shape& whole);

// The column, a dynamic-slice, is read as a row of `rows`, which has `leading` dimensions last.
Status ReadColumnAsRow(hlo::Instruction* column, hlo::Instruction* rows, int64_t leading);

// Element k of the state, of which the body reads and writes columns alone, is carried transposed.
// Nullopt: it is something else, or does not pay. `around`: loops that may be around it, from the
// inside, which are then to be taken likewise.
Result<std::optional<Loop>> TransposeCarried(const Loop& loop, int64_t k, int64_t trips,
                                             std::span<hlo::Instruction* const> around,
                                             const program::TargetInfo& target);

}  // namespace weft::compiler
