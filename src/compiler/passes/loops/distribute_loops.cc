// Loop distribution (fission): what a loop only collects is computed behind it, in vectors; counted
// loops over numbers inside of it too (outer-loop vectorization).
#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/log.h"
#include "compiler/analysis/element_cost.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/batch_loop.h"
#include "compiler/passes/loops/hoist_invariants.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

class LoopDistributor {
 public:
  LoopDistributor(const Loop& loop, const LoopBounds& bounds, const Effects& effects,
                  const program::TargetInfo& target)
      : loop_(loop),
        bounds_(bounds),
        effects_(effects),
        spare_bytes_(target.memory_bytes / kHoistedPartOfMemory) {}

  Result<bool> Run() {
    FindStores();
    if (stores_.empty()) return false;
    FindInnerLoops();
    FindCarried();
    FindAvailable();
    if (!FindMoved() || !IsOfUse()) return false;
    TRY(KeepStacks());
    TRY(ComputeBehind());
    TRY(DropStores());
    return true;
  }

 private:
  bool IsState(const Instruction& i) const {
    return i.op() == Op::kGetTupleElement && i.operand(0) == loop_.body_state;
  }
  bool IsCounter(const Instruction& i) const {
    return IsState(i) && i.tuple_index() == bounds_.index;
  }
  bool IsPlain(const Instruction& i) const {
    return i.shape().IsArray() && i.shape().IsStatic() && !HasControlDependencies(i) &&
           i.sharding() == nullptr && effects_.IsFunction(i);
  }

  // --- what is stored ---

  // The array is read by nothing but the write, which is nothing but the next state.
  bool IsWrittenOnly(const ElementStore& store) const {
    const Instruction* before = store.write->operand(0);
    if (!IsState(*before) || before->tuple_index() != store.k) return false;
    if (store.write->users().size() != 1 || !IsPlain(*store.write)) return false;
    for (const Instruction* user : loop_.body_state->users()) {
      if (user->tuple_index() != store.k) continue;
      if (user != before || user->users().size() != 1) return false;
    }
    for (const Instruction* user : loop_.condition_state->users()) {
      if (user->tuple_index() == store.k) return false;
    }
    return true;
  }

  // The counter, or a constant less the counter; and all rows that it says are there.
  bool IsRow(const Instruction& index, int64_t rows) {
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

  void FindStores() {
    for (int64_t k = 0; k < loop_.size(); ++k) {
      std::optional<ElementStore> store = FindElementStore(k, loop_.Next(k));
      if (!store || !IsWrittenOnly(*store)) continue;
      int64_t rows = store->write->shape().dim(0);
      if (stores_.empty()) {
        reversed_from_.reset();
        if (!IsRow(*store->index, rows)) continue;
        rows_ = rows, index_ = store->index;
      }
      if (store->index == index_ && rows == rows_) stores_.push_back(*store);
    }
  }

  // --- what stays, what goes ---

  bool IsStore(const Instruction& i) const {
    return std::ranges::any_of(stores_, [&](const ElementStore& s) { return s.write == &i; });
  }

  // What the next round, or another result, depends on.
  void FindCarried() {
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

  bool IsRowRead(const Instruction& i) const {
    if (i.op() != Op::kDynamicSlice || i.operand_count() != 2 || i.operand(1) != index_) {
      return false;
    }
    const Instruction& all = *i.operand(0);
    return IsState(all) && loop_.IsInvariant(all.tuple_index()) && all.shape().IsStatic() &&
           all.shape().dim(0) == rows_ && IsOneNumber(i);
  }

  // An element of an array that stays as it is, at a place that is computed.
  bool IsElementRead(const Instruction& i) const {
    if (i.op() != Op::kDynamicSlice || i.operand_count() != 2 || IsRowRead(i)) return false;
    const Instruction& all = *i.operand(0);
    bool stays = IsState(all) && loop_.IsInvariant(all.tuple_index());
    return (stays || all.op() == Op::kConstant) && IsOneNumber(i) && all.shape().IsStatic();
  }

  // A loop inside, and what is read of it.
  const NumberLoop* InnerLoop(const Instruction& i) const {
    auto it = inner_.find(&i);
    return it != inner_.end() ? &it->second : nullptr;
  }
  bool IsOfInnerLoop(const Instruction& i) const {
    return i.op() == Op::kGetTupleElement && InnerLoop(*i.operand(0)) != nullptr;
  }
  bool IsArrayThatStays(const Instruction& i) const {
    return i.IsConstant() || (IsState(i) && loop_.IsInvariant(i.tuple_index()));
  }
  void FindInnerLoops() {
    for (Instruction* i : *loop_.body) {
      std::optional<NumberLoop> numbers = FindNumberLoop(i, effects_);
      if (!numbers) continue;
      bool known = std::ranges::all_of(i->operand(0)->operands(), [&](const Instruction* o) {
        return IsOneNumber(*o) || IsArrayThatStays(*o);
      });
      if (known) inner_.emplace(i, *numbers);
    }
  }

  // What is batched with it.
  std::span<Instruction* const> InputsOf(const Instruction& i) const {
    if (InnerLoop(i) != nullptr) return i.operand(0)->operands();
    return i.operands().subspan(IsElementRead(i) ? 1 : 0);
  }

  // Computed element by element from such, whichever round it is.
  bool IsBatched(const Instruction& i) const {
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
  void FindAvailable() {
    for (const Instruction* i : *loop_.body) {
      bool leaf = IsArrayThatStays(*i) || (IsOneNumber(*i) && IsCounter(*i));
      bool computed = IsBatched(*i) && std::ranges::all_of(InputsOf(*i), [&](Instruction* o) {
                        return available_.contains(o);
                      });
      if (leaf || computed || IsRowRead(*i)) available_.insert(i);
    }
  }

  // Stores whose values can be computed behind the loop; what they need of it is kept on stacks.
  bool FindMoved() {
    std::erase_if(stores_, [&](const ElementStore& store) {
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
  bool IsLeaf(const Instruction& i) const { return available_.contains(&i) && !IsBatched(i); }
  bool IsStack(const Instruction& i) const {
    return carried_.contains(&i) && !available_.contains(&i) && IsOneNumber(i);
  }

  // Vectors make short work of what goes; it must be worth the stacks, and not be done in the time
  // that the recurrence takes anyway.
  bool IsOfUse() const {
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
                    << ", arrays between " << stacks << " of " << bytes << " bytes, "
                    << bounds_.trips << " rounds";
    return is_of_use;
  }

  // --- the change ---

  Status KeepStacks() {
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

  Result<Instruction*> Rows(Builder& b, Instruction& i) {
    if (const NumberLoop* inner = InnerLoop(i)) return InnerRows(b, *inner);
    if (IsOfInnerLoop(i)) {
      const std::vector<Instruction*>& last = inner_rows_.at(i.operand(0));
      return InAllRows(b, last[static_cast<size_t>(i.tuple_index())], rows_);
    }
    Shape shape(i.shape().dtype(), {rows_});
    if (i.IsConstant()) return InAllRows(b, TRY(Whole(i)), rows_);
    if (IsCounter(i)) {
      Instruction* row = TRY(b.Add(Op::kIota, {}, hlo::IotaAttrs{.iota_dimension = 0}, &shape));
      if (!reversed_from_) return row;
      Instruction* from = TRY(b.Fill(shape, static_cast<double>(*reversed_from_)));
      return b.Add(Op::kSubtract, {from, row});
    }
    if (IsState(i)) return InAllRows(b, TRY(Whole(i)), rows_);
    if (IsRowRead(i)) return ReadInit(loop_, i.operand(0)->tuple_index());
    if (i.op() == Op::kReshape || i.op() == Op::kBroadcast) return behind_.Find(i.operand(0));
    if (IsElementRead(i)) {
      return GatherRows(b, TRY(Whole(*i.operand(0))), behind_.Find(i.operand(1)));
    }
    std::vector<Instruction*> operands;
    for (Instruction* operand : i.operands()) operands.push_back(behind_.Find(operand));
    return b.Add(i.op(), operands, i.attrs(), &shape);
  }

  // A constant, or state that stays, as it is outside.
  Result<Instruction*> Whole(const Instruction& i) {
    if (!i.IsConstant()) return ReadInit(loop_, i.tuple_index());
    hlo::CloneMap map;
    return hlo::CloneInstruction(i, *loop_.op->parent(), map, loop_.op);
  }

  Result<Instruction*> InnerRows(Builder& b, const NumberLoop& inner) {
    std::vector<Instruction*> init;
    for (Instruction* o : inner.loop.op->operand(0)->operands()) {
      init.push_back(IsArrayThatStays(*o) ? TRY(Whole(*o)) : behind_.Find(o));
    }
    return (inner_rows_[inner.loop.op] = TRY(BatchLoop(b, inner, rows_, init)))[0];
  }

  Status ComputeBehind() {
    // Behind the elements of the loop's result that are read for stacks.
    Instruction* place = loop_.op->next();
    while (place != nullptr && place->op() == Op::kGetTupleElement &&
           place->operand(0) == loop_.op) {
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
  Result<Instruction*> UpdateRows(Builder& b, const ElementStore& store, Instruction* all) {
    hlo::SliceAttrs rows{.slice = {{.start = first_, .limit = first_ + bounds_.trips}}};
    Instruction* written = TRY(b.Add(Op::kSlice, {all}, std::move(rows)));
    Instruction* start = b.ScalarConstant(DType::kS32, static_cast<double>(first_));
    return b.Add(Op::kDynamicUpdateSlice, {TRY(ReadInit(loop_, store.k)), written, start});
  }

  Status DropStores() {
    Instruction* root = loop_.body->root();
    Builder b(*loop_.body, root, root);
    std::vector<int64_t> kept;
    for (int64_t k = 0; k < loop_.size(); ++k) {
      bool is_stored =
          std::ranges::any_of(stores_, [&](const ElementStore& s) { return s.k == k; });
      if (!is_stored) kept.push_back(k);
    }
    for (const ElementStore& store : stores_) {
      Instruction* state = store.write->operand(0);
      root->ReplaceOperand(store.k, TRY(b.Fill(store.write->shape(), 0)));
      loop_.body->Remove(store.write);
      loop_.body->Remove(state);
    }
    for (Instruction* user : std::vector(loop_.op->users())) {
      if (user->users().empty() && !user->IsRoot()) user->parent()->Remove(user);
    }
    TRY(RebuildLoop(loop_, kept, {}));
    return {};
  }

  Loop loop_;
  const LoopBounds bounds_;
  const Effects& effects_;
  const int64_t spare_bytes_;  // for stacks
  std::vector<ElementStore> stores_;
  int64_t rows_ = 0, first_ = 0;          // of the arrays; the first that is written
  Instruction* index_ = nullptr;          // the row of a round
  std::optional<int64_t> reversed_from_;  // it is so much less the counter
  std::unordered_set<const Instruction*> carried_, available_, moved_;
  std::vector<Instruction*> kept_;
  std::unordered_map<const Instruction*, NumberLoop> inner_;
  std::unordered_map<const Instruction*, std::vector<Instruction*>> inner_rows_;  // behind
  hlo::CloneMap behind_;
};

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
    std::optional<Loop> loop = FindLoop(i);
    std::optional<LoopBounds> bounds = FindLoopBounds(*i);
    if (!loop || !bounds || bounds->step != 1 || bounds->trips <= 0) continue;
    changed |= TRY(LoopDistributor(*loop, *bounds, effects, context.target).Run());
  }
  if (changed) TRY(RecognizeSlices(module, context));  // places that follow from the counter
  return changed;
}

}  // namespace weft::compiler
