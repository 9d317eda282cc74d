// Reductions by the threads of a block.
#pragma once

#include <functional>
#include <vector>

#include "compiler/lower/reduce.h"
#include "program/target_facts.h"

namespace weft::compiler {

// Of a block that reduces a row, at most.
constexpr int64_t kRowThreads = program::TargetFacts::kBlockThreads / 4;
// Threads that share a column.
constexpr int64_t kColumnSlices = kRowThreads / program::TargetFacts::kWarpThreads;

// What a reduction's elements are, by their number in the row.
using Accumulate =
    std::function<Result<std::vector<Element>>(const Coord& j, std::vector<Element> acc)>;

// Places in a row: first, first + step, ... < end, `trips` of them at most. A place has as many
// elements as there are lanes.
struct Places {
  ValueId first, end;
  int64_t step, trips;
  bool even = false;  // exactly `trips`: loops have known bounds and are unrolled
  int lanes = 1;
  int64_t row = 0;  // elements of a whole one
};

// The elements there, from the reducers' starting values.
Result<std::vector<Element>> AccumulateStrided(KernelDraft& draft, RowReducer& reducer,
                                               const Places& places, const Accumulate& accumulate);

// In a thread loop, which it ends: what the threads have, combined, known to all of them.
Result<std::vector<Element>> CombineThreads(KernelDraft& draft, RowReducer& reducer,
                                            const std::vector<Element>& mine);

// The places of a row by all threads of a block, as many as is the distance between those of one.
Result<std::vector<Element>> ReduceByBlock(KernelDraft& draft, RowReducer& reducer, Places places,
                                           const Accumulate& accumulate);

// The places of a warp's columns by as many warps as there are slices; `store` gets each column's
// result.
Status ReduceColumns(KernelDraft& draft, RowReducer& reducer, int64_t columns, ValueId block,
                     const Places& places,
                     const std::function<Accumulate(ValueId column)>& accumulate,
                     const std::function<Status(ValueId column, std::vector<Element>)>& store);

}  // namespace weft::compiler
