// Loop distribution (fission): what a loop only collects is computed behind it, in vectors; loops
// over numbers inside of it too (outer-loop vectorization).
#include <algorithm>
#include <ranges>
#include <unordered_set>

#include "compiler/analysis/element_cost.h"
#include "compiler/passes.h"
#include "compiler/passes/loops/batched_round.h"
#include "compiler/passes/loops/if_convert.h"
#include "compiler/passes/loops/loop_distributor.h"
#include "compiler/passes/loops/short_vectors.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/simplify/simplify_rules.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

Status LoopDistributor::Change() {
  TRY(KeepStacks());
  TRY(ComputeBehind());
  return DropStores();
}

Status LoopDistributor::KeepStacks() {
  Builder before(*loop_.op->parent(), loop_.op, loop_.op);
  std::vector<Instruction*> inits;
  for (Instruction* i : *loop_.body) {
    if (!moved_.contains(i) || !IsStack(*i)) continue;
    kept_.push_back(i);
    inits.push_back(TRY(before.Fill(Shape(i->shape().dtype(), {rows_}), 0)));
  }
  std::vector<int64_t> all;
  for (int64_t k = 0; k < loop_.size(); ++k) all.push_back(k);
  const int64_t first = loop_.size();
  loop_ = TRY(RebuildLoop(loop_, all, inits));
  Instruction* root = loop_.body->root();
  Builder b(*loop_.body, root, root);
  Builder after(*loop_.op->parent(), loop_.op->next(), loop_.op);
  for (size_t n = 0; n < kept_.size(); ++n) {
    const int64_t k = first + static_cast<int64_t>(n);
    const int64_t one[] = {1};
    Instruction* value = TRY(ReshapeTo(b, kept_[n], one));
    Instruction* write = TRY(b.Add(Op::kDynamicUpdateSlice, {loop_.Next(k), value, index_}));
    root->ReplaceOperand(k, write);
    behind_.instructions[kept_[n]] = TRY(after.GetTupleElement(loop_.op, k));
  }
  return {};
}

Result<Instruction*> LoopDistributor::Rows(Builder& b, Instruction& i) {
  if (const NumberLoop* inner = InnerLoop(i)) return InnerRows(b, *inner);
  if (IsOfInnerLoop(i)) {
    const std::vector<Instruction*>& last = inner_rows_.at(i.operand(0));
    return InAllRows(b, last[static_cast<size_t>(i.tuple_index())], rows_);
  }
  Shape shape(i.shape().dtype(), {rows_});
  if (i.IsConstant()) return InAllRows(b, TRY(Whole(i)), rows_);
  if (IsCounter(i) || &i == index_) {
    Instruction* row = TRY(b.Add(Op::kIota, {}, hlo::IotaAttrs{.iota_dimension = 0}, &shape));
    if (!reversed_from_ || &i == index_) return row;
    Instruction* from = TRY(b.Fill(shape, static_cast<double>(*reversed_from_)));
    return b.Add(Op::kSubtract, {from, row});
  }
  if (IsState(i)) return InAllRows(b, TRY(Whole(i)), rows_);
  if (IsRowRead(i)) return ReadInit(loop_, i.operand(0)->tuple_index());
  if (std::optional<int64_t> column = ColumnRead(i)) return Column(b, i, *column);
  if (IsVectorRead(i)) return Vectors(b, i);
  if (i.op() == Op::kReshape || i.op() == Op::kBroadcast) return behind_.Find(i.operand(0));
  if (IsElementRead(i) && IsSame(i)) return InAllRows(b, TRY(Outside(b, i)), rows_);
  if (IsElementRead(i)) {
    return GatherRows(b, TRY(Whole(*i.operand(0))), behind_.Find(i.operand(1)));
  }
  std::vector<Instruction*> operands;
  for (Instruction* operand : i.operands()) operands.push_back(behind_.Find(operand));
  return b.Add(i.op(), operands, i.attrs(), &shape);
}

// One element of each row.
Result<Instruction*> LoopDistributor::Column(Builder& b, const Instruction& i, int64_t column) {
  const Instruction* row = &i;
  while (row->op() != Op::kDynamicSlice) row = row->operand(0);
  Instruction* all = TRY(ReadInit(loop_, row->operand(0)->tuple_index()));
  const int64_t flat[] = {rows_, all->shape().elements() / rows_}, one[] = {rows_};
  hlo::SliceAttrs part{
      .slice = {{.start = 0, .limit = rows_}, {.start = column, .limit = column + 1}}};
  all = TRY(b.Add(Op::kSlice, {TRY(ReshapeTo(b, all, flat))}, std::move(part)));
  return ReshapeTo(b, all, one);
}

// The vectors of all rows, side by side.
Result<Instruction*> LoopDistributor::Vectors(Builder& b, const Instruction& i) {
  const Instruction* row = &i;
  while (row->op() != Op::kDynamicSlice) row = row->operand(0);
  Instruction* all = TRY(ReadInit(loop_, row->operand(0)->tuple_index()));
  const int64_t flat[] = {rows_, i.shape().elements()}, columns_first[] = {1, 0};
  all = TRY(b.Transpose(TRY(ReshapeTo(b, all, flat)),
                        hlo::Ints(std::begin(columns_first), std::end(columns_first))));
  Dims dims = i.shape().dims();
  dims.push_back(rows_);
  return ReshapeTo(b, all, dims);
}

// A constant, or state that stays, as it is outside.
Result<Instruction*> LoopDistributor::Whole(const Instruction& i) {
  if (!i.IsConstant()) return ReadInit(loop_, i.tuple_index());
  hlo::CloneMap map;
  return hlo::CloneInstruction(i, *loop_.op->parent(), map, loop_.op);
}

Result<Instruction*> LoopDistributor::InnerRows(Builder& b, const NumberLoop& inner) {
  std::vector<Instruction*> init;
  for (Instruction* o : inner.loop.op->operand(0)->operands()) {
    init.push_back(IsArrayThatStays(*o) ? TRY(Whole(*o)) : behind_.Find(o));
  }
  // Two vectors hide some of the latency of a round, and long rows keep few others waiting.
  int64_t width = 1;
  for (int64_t k = 0; k < inner.loop.size(); ++k) {
    if (inner.loop.IsInvariant(k)) continue;
    width = std::max(width, ByteWidth(inner.loop.op->shape().tuple_element(k).dtype()));
  }
  const int64_t block = std::min(rows_, 2 * lane_bits_ / 8 / width);
  return (inner_rows_[inner.loop.op] = TRY(BatchLoop(b, inner, rows_, block, init)))[0];
}

Status LoopDistributor::ComputeBehind() {
  // Behind the elements of the loop's result that are read for stacks.
  Instruction* place = loop_.op->next();
  while (place != nullptr && place->op() == Op::kGetTupleElement && place->operand(0) == loop_.op) {
    place = place->next();
  }
  Builder b(*loop_.op->parent(), place, loop_.op);
  for (Instruction* i : *loop_.body) {
    if (!moved_.contains(i) || behind_.instructions.contains(i)) continue;
    behind_.instructions[i] = TRY(Rows(b, *i));
  }
  for (const ElementStore& store : stores_) {
    Instruction* all = behind_.Find(store.value);
    if (bounds_.trips != rows_) all = TRY(UpdateRows(b, store, all));
    for (Instruction* user : std::vector(loop_.op->users())) {
      if (user->tuple_index() == store.k) user->ReplaceAllUsesWith(all);
    }
  }
  return {};
}

// The rows that the loop wrote, the others as they were before it.
Result<Instruction*> LoopDistributor::UpdateRows(Builder& b, const ElementStore& store,
                                                 Instruction* all) {
  hlo::SliceAttrs rows{.slice = {{.start = first_, .limit = first_ + bounds_.trips}}};
  Instruction* written = TRY(b.Add(Op::kSlice, {all}, std::move(rows)));
  Instruction* start = b.ScalarConstant(DType::kS32, static_cast<double>(first_));
  return b.Add(Op::kDynamicUpdateSlice, {TRY(ReadInit(loop_, store.k)), written, start});
}

// Reads of arrays that are gone, and what was made of them.
void LoopDistributor::RemoveUnused() {
  for (Instruction *i = loop_.body->last(), *before; i != nullptr; i = before) {
    before = i->prev();
    bool removable = i->users().empty() && !i->IsRoot() && i->op() != Op::kParameter &&
                     !effects_.Has(*i) && !HasControlDependencies(*i);
    if (removable) loop_.body->Remove(i);
  }
}

Status LoopDistributor::DropStores() {
  Instruction* root = loop_.body->root();
  Builder b(*loop_.body, root, root);
  std::vector<int64_t> kept;
  for (int64_t k = 0; k < loop_.size(); ++k) {
    bool is_stored = std::ranges::any_of(stores_, [&](const ElementStore& s) { return s.k == k; });
    if (!is_stored) kept.push_back(k);
  }
  for (const ElementStore& store : stores_) {
    root->ReplaceOperand(store.k, TRY(b.Fill(store.write->shape(), 0)));
    loop_.body->Remove(store.write);
  }
  RemoveUnused();
  for (const ElementStore& store : stores_) {
    for (Instruction* state : std::vector(loop_.body_state->users())) {
      if (state->tuple_index() == store.k) loop_.body->Remove(state);
    }
  }
  for (Instruction* user : std::vector(loop_.op->users())) {
    if (user->users().empty() && !user->IsRoot()) user->parent()->Remove(user);
  }
  TRY(RebuildLoop(loop_, kept, {}));
  return {};
}

namespace {

Result<bool> DistributeLoop(Instruction* i, const Effects& effects, const PassContext& context) {
  std::optional<Loop> loop = FindLoop(i);
  std::optional<LoopBounds> bounds = FindLoopBounds(*i);
  if (!loop || !bounds || bounds->step != 1 || bounds->trips <= 0) return false;
  LoopDistributor distributor(*loop, *bounds, effects, context.target);
  if (!distributor.Analyse()) return false;
  if (!distributor.NeedsChecks()) {
    TRY(distributor.Change());
    return true;
  }
  if (!distributor.CanBeVersioned()) return false;
  Loop version = *FindLoop(TRY(distributor.Version()));
  Effects again(*i->parent()->module());
  LoopDistributor free(version, *bounds, again, context.target);
  if (free.Analyse()) TRY(free.Change());
  return true;
}

// The loop with all branches of its conditionals computed, where that lets it be distributed.
Result<bool> DistributeWithoutBranches(Instruction* i, const PassContext& context) {
  std::optional<LoopBounds> bounds = FindLoopBounds(*i);
  if (!bounds || bounds->step != 1 || bounds->trips < kVectorReduce) return false;
  Instruction* copy = TRY(CopyWithoutBranches(i));
  if (copy == nullptr) return false;
  i->ReplaceAllUsesWith(copy);
  Effects effects(*i->parent()->module());
  if (TRY(DistributeLoop(copy, effects, context))) {
    i->parent()->Remove(i);
    return true;
  }
  copy->ReplaceAllUsesWith(i);
  copy->parent()->Remove(copy);
  return false;
}

// Of a copy that was not of use: what was added before the loop since the next id was `first`.
void RemoveAdded(Instruction* loop, int64_t first) {
  for (Instruction *i = loop->prev(), *before; i != nullptr && i->id() >= first; i = before) {
    before = i->prev();
    if (i->users().empty()) i->parent()->Remove(i);
  }
}

void UseResults(Instruction& loop, const LoopInNumbers& copy) {
  for (Instruction* user : std::vector(loop.users())) {
    user->ReplaceAllUsesWith(copy.results[static_cast<size_t>(user->tuple_index())]);
    user->parent()->Remove(user);
  }
}

bool HasShortVectors(const hlo::Computation& body) {
  for (const Instruction* i : body) {
    if (i->shape().IsArray() && IsFewNumbers(*i) && !IsOneNumber(*i)) return true;
  }
  return false;
}

// Something that takes long enough to be computed before a loop.
bool HasLongWork(const hlo::Computation& body) {
  for (const Instruction* i : body) {
    if (i->op() == Op::kWhile || (i->shape().IsArray() && ElementCost(*i) > kCheapElement)) {
      return true;
    }
  }
  return false;
}

// What is computed before the loop, of numbers or of short vectors.
Result<bool> DistributeAhead(Instruction* i, const PassContext& context) {
  std::optional<Loop> loop = FindLoop(i);
  std::optional<LoopBounds> bounds = FindLoopBounds(*i);
  if (!loop || !bounds || bounds->step != 1 || context.target.LaneBits() == 0) return false;
  if (!HasLongWork(*loop->body)) return false;
  Effects effects(*i->parent()->module());
  const int64_t first = i->parent()->module()->id_limit();
  std::optional<LoopInNumbers> copy;
  if (HasShortVectors(*loop->body)) copy = TRY(CopyInNumbers(i, false, effects));
  if (copy) {
    Effects again(*i->parent()->module());
    LoopDistributor free(*FindLoop(copy->op), *FindLoopBounds(*copy->op), again, context.target);
    if (free.AnalyseAhead()) {
      UseResults(*i, *copy);
      TRY(free.ChangeAhead());
      i->parent()->Remove(i);
      return true;
    }
  }
  RemoveAdded(i, first);
  LoopDistributor distributor(*loop, *bounds, effects, context.target);
  if (!distributor.AnalyseAhead()) return false;
  TRY(distributor.ChangeAhead());
  return true;
}

// The loop with its short vectors as numbers, where all of that can be distributed.
Result<bool> DistributeInNumbers(Instruction* i, const PassContext& context) {
  std::optional<LoopBounds> bounds = FindLoopBounds(*i);
  if (!bounds || bounds->step != 1 || bounds->trips < kVectorReduce) return false;
  Instruction* chosen = TRY(CopyWithoutBranches(i));
  if (chosen != nullptr) i->ReplaceAllUsesWith(chosen);
  Instruction* from = chosen != nullptr ? chosen : i;
  Effects effects(*i->parent()->module());
  const int64_t first = i->parent()->module()->id_limit();
  std::optional<LoopInNumbers> copy = TRY(CopyInNumbers(from, true, effects));
  bool distributed = false;
  if (copy) {
    Effects again(*i->parent()->module());
    LoopDistributor free(*FindLoop(copy->op), *FindLoopBounds(*copy->op), again, context.target);
    distributed = free.Analyse() && free.MovesAll() && !free.NeedsChecks();
    if (distributed) {
      UseResults(*from, *copy);
      TRY(free.Change());
    }
  }
  if (!distributed) RemoveAdded(from, first);
  if (chosen != nullptr) {
    if (!distributed) chosen->ReplaceAllUsesWith(i);
    chosen->parent()->Remove(chosen);
  }
  if (distributed) i->parent()->Remove(i);
  return distributed;
}

// The next loop from the outside that is none of those; null: there is none.
Instruction* NextLoop(hlo::Module& module, const std::unordered_set<int64_t>& seen) {
  for (const auto& computation : module.computations() | std::views::reverse) {
    for (Instruction* i : *computation) {
      if (i->op() == Op::kWhile && !seen.contains(i->id())) return i;
    }
  }
  return nullptr;
}

// Behind the rest: a loop whose rounds are lanes has the functions of the loops in it there too.
Result<bool> DistributeAllAhead(hlo::Module& module, const PassContext& context) {
  bool changed = false;
  std::unordered_set<int64_t> seen;
  while (Instruction* loop = NextLoop(module, seen)) {
    seen.insert(loop->id());
    const int64_t before = module.id_limit();
    changed |= TRY(DistributeAhead(loop, context));
    if (module.id_limit() != before) module.RemoveUnusedComputations();
  }
  return changed;
}

}  // namespace

Result<bool> DistributeLoops(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled || !HasOp(module, Op::kWhile)) return false;
  Effects effects(module);
  bool changed = false;
  std::vector<Instruction*> loops;  // one that is rebuilt takes others than loops along
  for (const auto& computation : module.computations()) {
    for (Instruction* i : *computation) {
      if (i->op() == Op::kWhile) loops.push_back(i);
    }
  }
  for (Instruction* i : loops) {
    bool distributed = TRY(DistributeLoop(i, effects, context));
    if (!distributed) distributed = TRY(DistributeWithoutBranches(i, context));
    if (!distributed) distributed = TRY(DistributeInNumbers(i, context));
    changed |= distributed;
  }
  module.RemoveUnusedComputations();
  changed |= TRY(DistributeAllAhead(module, context));
  if (changed) TRY(RecognizeSlices(module, context));  // places that follow from the counter
  return changed;
}

}  // namespace weft::compiler
