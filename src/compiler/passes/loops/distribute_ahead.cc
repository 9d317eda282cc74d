// Loop distribution, what comes first: what rounds compute from their number and from what stays
// alone is computed before the loop, for all rounds at once in vectors. Rounds read it.
#include <algorithm>

#include "base/log.h"
#include "compiler/analysis/element_cost.h"
#include "compiler/passes/loops/batched_round.h"
#include "compiler/passes/loops/loop_distributor.h"
#include "compiler/passes/rewrite.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// The rounds begin at 0, or behind few that are computed as well.
bool LoopDistributor::FindRounds() {
  if (bounds_.init < 0 || bounds_.init > bounds_.trips || bounds_.trips < kVectorReduce) {
    return false;
  }
  for (Instruction* state : loop_.body_state->users()) {
    if (IsCounter(*state)) index_ = state;
  }
  rows_ = bounds_.init + bounds_.trips;
  return index_ != nullptr && index_->shape().IsScalar();
}

// Nothing but what is computed before the loop reads it there.
bool LoopDistributor::IsReadAhead(const Instruction& i) const {
  return std::ranges::all_of(i.users(), [&](const Instruction* user) {
    if (user->op() != Op::kTuple) return available_.contains(user);
    return user != loop_.body->root() &&  // the start of a loop inside
           std::ranges::all_of(user->users(), [&](auto* of) { return available_.contains(of); });
  });
}

// Adds what it is computed from; the work of the longest operation in it.
double LoopDistributor::CollectAhead(const Instruction& i,
                                     std::unordered_set<const Instruction*>& cone) const {
  if (!cone.insert(&i).second || IsLeaf(i)) return 0;
  const NumberLoop* inner = InnerLoop(i);
  double work = inner != nullptr ? inner->cost : IsFree(i) ? 0 : ElementCost(i);
  if (IsOfInnerLoop(i)) return std::max(work, CollectAhead(*i.operand(0), cone));
  for (const Instruction* operand : InputsOf(i)) {
    work = std::max(work, CollectAhead(*operand, cone));
  }
  return work;
}

// Functions, which vectors make short work of, are worth an array each; a few sums are computed
// again as quickly as they are read.
bool LoopDistributor::AnalyseAhead() {
  if (!FindRounds()) return false;
  FindInnerLoops();
  FindAvailable();
  int64_t bytes = 0;
  for (Instruction* i : *loop_.body) {
    if (!available_.contains(i) || !IsBatched(*i) || !IsOneNumber(*i) || IsReadAhead(*i)) continue;
    std::unordered_set<const Instruction*> cone;
    if (CollectAhead(*i, cone) <= kCheapElement) continue;
    kept_.push_back(i);
    moved_.insert(cone.begin(), cone.end());
    bytes += rows_ * i->shape().ByteSize();
  }
  double goes = 0, stays = 0;
  for (const Instruction* i : *loop_.body) {
    const NumberLoop* inner = InnerLoop(*i);
    if (i->op() == Op::kWhile && inner == nullptr) return false;  // which is most of the work
    const bool none = IsFree(*i) || i->IsParameter() || i->op() == Op::kGetTupleElement;
    if (inner == nullptr && (!i->shape().IsArray() || none)) continue;
    double work = inner != nullptr ? inner->cost : ElementCost(*i);
    if (inner == nullptr) work *= static_cast<double>(i->shape().elements());
    (moved_.contains(i) ? goes : stays) += work;
  }
  const auto arrays = static_cast<double>(kept_.size());
  const bool is_of_use = goes > arrays * kCheapElement && bytes <= spare_bytes_ &&
                         goes * program::TargetFacts::kUsualLanes > stays;
  VLOG("pass", 3) << loop_.op->name() << (is_of_use ? " is" : " is not")
                  << " distributed: a round's cost before it " << goes << ", in it " << stays
                  << ", arrays between " << arrays << " of " << bytes << " bytes";
  return is_of_use;
}

Status LoopDistributor::ChangeAhead() {
  Builder before(*loop_.op->parent(), loop_.op, loop_.op);
  for (Instruction* i : *loop_.body) {
    if (!moved_.contains(i) || behind_.instructions.contains(i)) continue;
    behind_.instructions[i] = TRY(Rows(before, *i));
  }
  std::vector<Instruction*> arrays;
  for (Instruction* i : kept_) {
    arrays.push_back(TRY(InAllRows(before, behind_.Find(i), rows_)));
  }
  std::vector<int64_t> all;
  for (int64_t k = 0; k < loop_.size(); ++k) all.push_back(k);
  const int64_t first = loop_.size();
  loop_ = TRY(RebuildLoop(loop_, all, arrays));
  for (size_t n = 0; n < kept_.size(); ++n) {
    Builder b(*loop_.body, kept_[n], kept_[n]);
    const int64_t k = first + static_cast<int64_t>(n);
    Instruction* array = TRY(b.GetTupleElement(loop_.body_state, k));
    Instruction* one = TRY(b.Add(Op::kDynamicSlice, {array, index_},
                                 hlo::DynamicSliceAttrs{.dynamic_slice_sizes = {1}}));
    kept_[n]->ReplaceAllUsesWith(TRY(ReshapeTo(b, one, kept_[n]->shape().dims())));
  }
  RemoveUnused();
  return {};
}

}  // namespace weft::compiler
