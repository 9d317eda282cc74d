// Data layout transformation of loop invariants (of carried arrays: transpose_carried.cc): of an
// array whose columns a loop reads, one an iteration, a transposed copy is made before the loop, in
// which they are rows. Elements of a column lie far from each other and are gathered one by one;
// those of a row are loaded by vectors.
#include "compiler/passes/loops/transpose_columns.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/analysis/queries.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/hoist_invariants.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/loops/own_loop.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// One element along the last dimension, all of the others, at a place that changes.
bool IsColumn(const Instruction& i, const Instruction& array) {
  if (i.op() != Op::kDynamicSlice || i.operand(0) != &array || !IsStaticallyShaped(i)) return false;
  if (HasControlDependencies(i) || i.sharding() != nullptr) return false;
  const int64_t rank = array.shape().rank();
  return LeadingOfColumn(i.shape(), array.shape()) == rank - 1 && !IntegerValue(*i.operand(rank));
}

// Reads of columns of element k of the state.
std::vector<Instruction*> ColumnsOf(const Loop& loop, int64_t k) {
  std::vector<Instruction*> columns;
  for (Instruction* state : loop.body_state->users()) {
    if (!loop.ReadsElement(*state) || state->tuple_index() != k) continue;
    for (Instruction* user : state->users()) {
      if (IsColumn(*user, *state)) columns.push_back(user);
    }
  }
  return columns;
}

// All of the array is read at least once, by columns that are worth vectors.
bool Pays(const Loop& loop, int64_t k, int64_t trips, const program::TargetInfo& target) {
  const Shape& shape = loop.op->shape().tuple_element(k);
  if (!shape.IsArray() || !shape.IsStatic() || shape.rank() < 2 || !loop.IsInvariant(k)) {
    return false;
  }
  int64_t columns = shape.dim(shape.rank() - 1);
  return columns >= program::TargetFacts::kUsualLanes && trips >= columns &&
         shape.elements() >= columns * kLongColumn &&
         shape.ByteSize() <= target.memory_bytes / kHoistedPartOfMemory;
}

Result<Loop> TransposeElement(const Loop& loop, int64_t k, std::span<Instruction* const> columns) {
  Builder before(*loop.op->parent(), loop.op, loop.op);
  Ints order = {loop.op->shape().tuple_element(k).rank() - 1}, all;
  for (int64_t d = 0; d < order[0]; ++d) order.push_back(d);
  for (int64_t n = 0; n < loop.size(); ++n) all.push_back(n);
  Instruction* transposed = TRY(before.Transpose(TRY(ReadInit(loop, k)), order));
  Loop with = TRY(RebuildLoop(loop, all, std::span(&transposed, 1)));
  Builder b(*with.body, with.body_state->next(), columns[0]);
  Instruction* rows = TRY(b.GetTupleElement(with.body_state, with.size() - 1));
  for (Instruction* column : columns)
    TRY(ReadColumnAsRow(column, rows, column->shape().rank() - 1));
  return with;
}

Result<bool> TransposeColumnsIn(Instruction* op, std::span<Instruction* const> around,
                                const program::TargetInfo& target) {
  std::optional<Loop> loop = FindLoop(op);
  if (!loop) return false;
  // Where the trip count is not known, the loops around it alone are to make up for the transposes.
  const int64_t trips = TripCount(*op).value_or(1);
  bool changed = false;
  for (int64_t k = 0, end = loop->size(); k < end; ++k) {
    if (!Pays(*loop, k, trips, target)) continue;
    std::vector<Instruction*> columns = ColumnsOf(*loop, k);
    if (columns.empty()) continue;
    loop = TRY(TransposeElement(*loop, k, columns));
    changed = true;
  }
  for (int64_t k = 0, end = loop->size(); k < end; ++k) {
    std::optional<Loop> transposed = TRY(TransposeCarried(*loop, k, trips, around, target));
    if (!transposed) continue;
    loop = transposed;
    changed = true;
    --k, --end;  // the next one has its number, this one is the last
  }
  return changed;
}

}  // namespace

Result<bool> TransposeColumns(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled || !HasOp(module, Op::kWhile)) return false;
  if (context.target.LaneBits() == 0) return false;
  bool changed = false;
  std::vector<Instruction*> loops = OwnLoops(module);  // the innermost first
  for (size_t n = 0; n < loops.size(); ++n) {
    std::span<Instruction* const> around = std::span(loops).subspan(n + 1);
    changed |= TRY(TransposeColumnsIn(loops[n], around, context.target));
  }
  return changed;
}

}  // namespace weft::compiler
