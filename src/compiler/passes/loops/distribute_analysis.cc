// Loop distribution (fission), the analysis: what of a loop stays, and what is computed behind it.
#include <algorithm>
#include <tuple>

#include "base/log.h"
#include "compiler/analysis/element_cost.h"
#include "compiler/passes/loops/hoist_invariants.h"
#include "compiler/passes/loops/loop_distributor.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/simplify/simplify_rules.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

LoopDistributor::LoopDistributor(const Loop& loop, const LoopBounds& bounds, const Effects& effects,
                                 const program::TargetInfo& target)
    : loop_(loop),
      bounds_(bounds),
      effects_(effects),
      spare_bytes_(target.memory_bytes / kHoistedPartOfMemory),
      lane_bits_(target.LaneBits()) {}

bool LoopDistributor::Analyse() {
  FindStores();
  if (stores_.empty()) return false;
  FindInnerLoops();
  FindCarried();
  FindAvailable();
  return FindMoved() && IsOfUse();
}

bool LoopDistributor::IsState(const Instruction& i) const {
  return i.op() == Op::kGetTupleElement && i.operand(0) == loop_.body_state;
}
bool LoopDistributor::IsCounter(const Instruction& i) const {
  return IsState(i) && i.tuple_index() == bounds_.index;
}
bool LoopDistributor::IsPlain(const Instruction& i) const {
  return i.shape().IsArray() && i.shape().IsStatic() && !HasControlDependencies(i) &&
         i.sharding() == nullptr && effects_.IsFunction(i);
}

// The array is written by nothing else, and the write is nothing but the next state.
bool LoopDistributor::IsOnlyWrite(const ElementStore& store) const {
  const Instruction* before = store.write->operand(0);
  if (!IsState(*before) || before->tuple_index() != store.k) return false;
  if (store.write->users().size() != 1 || !IsPlain(*store.write)) return false;
  return std::ranges::none_of(loop_.condition_state->users(), [&](const Instruction* user) {
    return user->tuple_index() == store.k;
  });
}

// State that stays as it is, or of which the loop reads what was there before it.
bool LoopDistributor::IsOld(const Instruction& array) const {
  return IsState(array) &&
         (loop_.IsInvariant(array.tuple_index()) || renamed_.contains(array.tuple_index()));
}

// The counter, or a constant less the counter; and all rows that it says are there.
bool LoopDistributor::IsRow(const Instruction& index, int64_t rows) {
  int64_t first = bounds_.init, last = bounds_.init + bounds_.trips - 1;
  if (index.op() == Op::kSubtract && IsCounter(*index.operand(1))) {
    std::optional<int64_t> from = IntegerValue(*index.operand(0));
    if (!from) return false;
    std::tie(first, last) = std::pair(*from - last, *from - first);
    reversed_from_ = *from;
  } else if (!IsCounter(index)) {
    return false;
  }
  first_ = first;
  return first >= 0 && last < rows && index.shape().IsScalar();
}

void LoopDistributor::FindStores() {
  for (int64_t k = 0; k < loop_.size(); ++k) {
    std::optional<ElementStore> store = FindElementStore(k, loop_.Next(k));
    if (!store || !IsOnlyWrite(*store)) continue;
    int64_t rows = store->write->shape().dim(0);
    if (stores_.empty()) {
      reversed_from_.reset();
      if (!IsRow(*store->index, rows)) continue;
      rows_ = rows, index_ = store->index;
    }
    if (store->index == index_ && rows == rows_ && ReadsOldRows(*store)) stores_.push_back(*store);
  }
  store_count_ = stores_.size();
}

bool LoopDistributor::IsStore(const Instruction& i) const {
  return std::ranges::any_of(stores_, [&](const ElementStore& s) { return s.write == &i; });
}

// What the next round, or another result, depends on.
void LoopDistributor::FindCarried() {
  carried_.insert(index_);
  for (int64_t k = 0; k < loop_.size(); ++k) {
    if (!IsStore(*loop_.Next(k))) carried_.insert(loop_.Next(k));
  }
  for (Instruction* i = loop_.body->last(); i != nullptr; i = i->prev()) {
    bool is_kept = carried_.contains(i) || effects_.Has(*i) || HasControlDependencies(*i);
    if (!(is_kept || IsState(*i)) || i == loop_.body->root()) continue;
    carried_.insert(i);
    for (const Instruction* operand : i->operands()) carried_.insert(operand);
  }
}

bool LoopDistributor::IsRowRead(const Instruction& i) const {
  if (i.op() != Op::kDynamicSlice || i.operand_count() != 2 || i.operand(1) != index_) {
    return false;
  }
  const Instruction& all = *i.operand(0);
  return IsOld(all) && all.shape().IsStatic() && all.shape().dim(0) == rows_ && IsOneNumber(i);
}

// The row of an array of rows that stays as it is, below reshapes; null: something else.
const Instruction* RowBelow(const Instruction& i) {
  const Instruction* row = &i;
  while (row->op() == Op::kReshape) row = row->operand(0);
  return row->op() == Op::kDynamicSlice && row->shape().dim(0) == 1 ? row : nullptr;
}

// One element of the counter's row: which one, counted in the row.
std::optional<int64_t> LoopDistributor::ColumnRead(const Instruction& i) const {
  if (!IsOneNumber(i)) return std::nullopt;
  const Instruction* row = RowBelow(i.op() == Op::kSlice ? *i.operand(0) : i);
  if (row == nullptr || row->operand_count() < 3 || row->operand(1) != index_) return std::nullopt;
  const Shape& all = row->operand(0)->shape();
  if (!IsOld(*row->operand(0)) || !all.IsStatic() || all.dim(0) != rows_) return std::nullopt;
  int64_t column = 0;
  for (int64_t d = 1; d < all.rank(); ++d) {
    std::optional<int64_t> start = IntegerValue(*row->operand(d + 1));
    if (!start || *start < 0 || *start > all.dim(d) - row->shape().dim(d)) return std::nullopt;
    bool whole = row->shape().dim(d) == all.dim(d);
    if (!whole && row->shape().elements() != 1) return std::nullopt;
    column = column * all.dim(d) + *start;
  }
  if (i.op() != Op::kSlice) return row == &i ? std::optional(column) : std::nullopt;
  const Shape& from = i.operand(0)->shape();
  int64_t place = 0;
  for (int64_t d = 0; d < from.rank(); ++d) {
    place = place * from.dim(d) + i.attrs<hlo::SliceAttrs>().slice[static_cast<size_t>(d)].start;
  }
  return column + place;
}

// The counter's row of an array of short ones.
bool LoopDistributor::IsVectorRead(const Instruction& i) const {
  if (!IsFewNumbers(i) || IsOneNumber(i)) return false;
  const Instruction* row = RowBelow(i);
  if (row == nullptr || row->operand(1) != index_ || !IsOld(*row->operand(0))) return false;
  const Shape& all = row->operand(0)->shape();
  return all.IsStatic() && all.dim(0) == rows_ && row->shape().elements() * rows_ == all.elements();
}

// An element of an array that stays as it is, at a place that is computed.
bool LoopDistributor::IsElementRead(const Instruction& i) const {
  if (i.op() != Op::kDynamicSlice || i.operand_count() != 2 || IsRowRead(i)) return false;
  const Instruction& all = *i.operand(0);
  return (IsOld(all) || all.op() == Op::kConstant) && IsOneNumber(i) && all.shape().IsStatic();
}

// A loop inside, and what is read of it.
const NumberLoop* LoopDistributor::InnerLoop(const Instruction& i) const {
  auto it = inner_.find(&i);
  return it != inner_.end() ? &it->second : nullptr;
}
bool LoopDistributor::IsOfInnerLoop(const Instruction& i) const {
  return i.op() == Op::kGetTupleElement && InnerLoop(*i.operand(0)) != nullptr;
}
bool LoopDistributor::IsArrayThatStays(const Instruction& i) const {
  return i.IsConstant() || (IsState(i) && loop_.IsInvariant(i.tuple_index()));
}
void LoopDistributor::FindInnerLoops() {
  for (Instruction* i : *loop_.body) {
    std::optional<NumberLoop> numbers = FindNumberLoop(i, effects_);
    // Threads would wait for the longest row of all.
    if (!numbers || (!numbers->bounds && lane_bits_ == 0)) continue;
    bool known = true;
    for (int64_t k = 0; k < numbers->loop.size(); ++k) {
      const Instruction& o = *i->operand(0)->operand(k);
      bool row = IsVectorRead(o) && !numbers->read_by_element[static_cast<size_t>(k)];
      known &= IsOneNumber(o) || IsArrayThatStays(o) || row;
    }
    if (known) inner_.emplace(i, *numbers);
  }
}

// What is batched with it.
std::span<Instruction* const> LoopDistributor::InputsOf(const Instruction& i) const {
  if (InnerLoop(i) != nullptr) return i.operand(0)->operands();
  return i.operands().subspan(IsElementRead(i) ? 1 : 0);
}

// Computed element by element from such, whichever round it is.
bool LoopDistributor::IsBatched(const Instruction& i) const {
  if (InnerLoop(i) != nullptr) return true;
  if (!IsOneNumber(i) || !IsPlain(i)) return false;
  if (IsOfInnerLoop(i)) return true;
  bool same = i.op() == Op::kReshape || i.op() == Op::kBroadcast;
  bool computed =
      hlo::IsElementwise(i.op()) && i.operand_count() > 0 && i.called_computations().empty();
  bool known = same || computed || IsElementRead(i);
  return known &&
         std::ranges::all_of(InputsOf(i), [](const Instruction* o) { return IsOneNumber(*o); });
}

// Known behind the loop without being kept.
void LoopDistributor::FindAvailable() {
  for (const Instruction* i : *loop_.body) {
    bool leaf = IsArrayThatStays(*i) || (IsOneNumber(*i) && IsCounter(*i));
    bool computed = IsBatched(*i) && std::ranges::all_of(InputsOf(*i), [&](Instruction* o) {
                      return available_.contains(o);
                    });
    if (leaf || computed || IsRowRead(*i) || ColumnRead(*i) || IsVectorRead(*i)) {
      available_.insert(i);
    }
  }
}

// What stays in the loop reads the array.
bool LoopDistributor::ReadsCarried(const ElementStore& store) const {
  return std::ranges::any_of(loop_.body_state->users(), [&](const Instruction* state) {
    return state->tuple_index() == store.k &&
           std::ranges::any_of(state->users(), [&](const Instruction* user) {
             return user != store.write && carried_.contains(user);
           });
  });
}

// Stores whose values can be computed behind the loop; what they need of it is kept on stacks.
bool LoopDistributor::FindMoved() {
  std::erase_if(stores_, [&](const ElementStore& store) {
    if (ReadsCarried(store)) return true;
    std::unordered_set<const Instruction*> needed = {store.value};
    for (Instruction* i = loop_.body->last(); i != nullptr; i = i->prev()) {
      if (!needed.contains(i) || IsStack(*i) || IsLeaf(*i)) continue;
      if (!IsBatched(*i)) return true;
      for (const Instruction* operand : InputsOf(*i)) needed.insert(operand);
    }
    bool moves = !carried_.contains(store.value);
    if (moves) moved_.insert(needed.begin(), needed.end());
    return !moves;
  });
  return !stores_.empty();
}
bool LoopDistributor::IsLeaf(const Instruction& i) const {
  return available_.contains(&i) && !IsBatched(i);
}
bool LoopDistributor::IsStack(const Instruction& i) const {
  return carried_.contains(&i) && !available_.contains(&i) && IsOneNumber(i);
}

// Vectors make short work of what goes; it must be worth the stacks, and not be done in the time
// that the recurrence takes anyway.
bool LoopDistributor::IsOfUse() const {
  double goes = 0, stays = 0, stacks = 1;
  int64_t bytes = 0;
  for (Instruction* i : *loop_.body) {
    bool is_moved = moved_.contains(i) && !carried_.contains(i);
    if (moved_.contains(i) && IsStack(*i)) ++stacks, bytes += rows_ * i->shape().ByteSize();
    const NumberLoop* inner = InnerLoop(*i);
    if (inner == nullptr && (!IsOneNumber(*i) || IsFree(*i))) continue;
    (is_moved ? goes : stays) += inner != nullptr ? inner->cost : ElementCost(*i);
  }
  const bool is_of_use = goes > stays && goes > stacks * kCheapElement && bytes <= spare_bytes_ &&
                         bounds_.trips >= kVectorReduce;
  VLOG("pass", 3) << loop_.op->name() << (is_of_use ? " is" : " is not")
                  << " distributed: a round's cost behind it " << goes << ", in it " << stays
                  << ", arrays between " << stacks << " of " << bytes << " bytes, " << bounds_.trips
                  << " rounds";
  return is_of_use;
}

}  // namespace weft::compiler
