// Anti-dependences (write after read): a loop that updates an array in place, one row a round, and
// reads rows that no round before has written reads the array as it was before the loop. Where that
// hangs on the sign of a distance that is not known, there are two loops (loop versioning).
#include <algorithm>
#include <limits>

#include "compiler/passes/loops/loop_distributor.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "program/kernel.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

namespace {

bool IsBelowZero(const Instruction& i, const Instruction& x) {
  return i.op() == Op::kCompare && i.operand(0) == &x && IntegerValue(*i.operand(1)) == 0 &&
         i.attrs<hlo::CompareAttrs>().direction == hlo::Direction::kLt;
}

}  // namespace

// Computed from what stays as it is: the same in all rounds.
bool LoopDistributor::IsSame(const Instruction& i) const {
  if (IsArrayThatStays(i)) return true;
  bool computed = hlo::IsElementwise(i.op()) || i.op() == Op::kReshape || IsElementRead(i);
  return computed && IsPlain(i) && i.called_computations().empty() && i.operand_count() > 0 &&
         std::ranges::all_of(i.operands(), [&](const Instruction* o) { return IsSame(*o); });
}

bool LoopDistributor::IsBeyond(int64_t place) const {
  return reversed_from_ ? place <= first_ : place >= first_ + bounds_.trips - 1;
}

// Rows go down where `reversed_from_`: what is not written yet is at most the row of the round,
// else at least. `x` less the row where `negated`. No sum wraps around: rows and `kFar` are small.
bool LoopDistributor::IsAway(const Instruction& x, bool negated) {
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max() / 2;
  bool least_zero = negated == reversed_from_.has_value();
  if (!program::FitsInteger(2 * kFar, x.shape().dtype())) return false;
  if (std::optional<int64_t> known = IntegerValue(x)) {
    return (least_zero ? *known >= 0 : *known <= 0) && std::abs(*known) <= kFar && rows_ <= kFar;
  }
  if (!IsOneNumber(x) || !IsSame(x) || rows_ > kFar) return false;
  checks_.push_back({&x, least_zero ? hlo::Direction::kGe : hlo::Direction::kLe, 0});
  checks_.push_back(
      {&x, least_zero ? hlo::Direction::kLe : hlo::Direction::kGe, least_zero ? kFar : -kFar});
  return true;
}

// Whether no round before this one has written the row at `place`, given that checks_ hold.
bool LoopDistributor::IsNotYetWritten(const Instruction& place) {
  const Instruction& p = place;
  if (&p == index_) return true;
  if (!IsOneNumber(p) || !IsSigned(p.shape().dtype())) return false;
  if (std::optional<int64_t> known = IntegerValue(p)) return IsBeyond(*known);
  auto either = [&](const Instruction& a, const Instruction& b) {
    size_t before = checks_.size();
    if (IsNotYetWritten(a)) return true;
    checks_.resize(before);
    return IsNotYetWritten(b);
  };
  auto both = [&](const Instruction& a, const Instruction& b) {
    return IsNotYetWritten(a) && IsNotYetWritten(b);
  };
  switch (p.op()) {
    case Op::kReshape: return IsNotYetWritten(*p.operand(0));
    case Op::kSubtract: return p.operand(0) == index_ && IsAway(*p.operand(1), true);
    case Op::kAdd:
      if (p.operand(1) == index_) return IsAway(*p.operand(0), false);
      return p.operand(0) == index_ && IsAway(*p.operand(1), false);
    case Op::kMaximum:
    case Op::kMinimum: {
      bool all = (p.op() == Op::kMaximum) == reversed_from_.has_value();
      return all ? both(*p.operand(0), *p.operand(1)) : either(*p.operand(0), *p.operand(1));
    }
    case Op::kSelect:
      // An index from the end where it is below zero, which no row ahead is.
      if (!reversed_from_ && IsBelowZero(*p.operand(0), *p.operand(2))) {
        return IsNotYetWritten(*p.operand(2));
      }
      return both(*p.operand(1), *p.operand(2));
    default: return false;
  }
}

// All reads of an array that a store updates are of single rows which are not written yet.
bool LoopDistributor::ReadsOldRows(const ElementStore& store) {
  size_t before = checks_.size();
  for (const Instruction* state : loop_.body_state->users()) {
    if (state->tuple_index() != store.k) continue;
    for (const Instruction* user : state->users()) {
      if (user == store.write && std::ranges::count(user->operands(), state) == 1) continue;
      bool old = user->op() == Op::kDynamicSlice && user->operand_count() == 2 &&
                 IsOneNumber(*user) && IsPlain(*user) && IsNotYetWritten(*user->operand(1));
      if (!old) {
        checks_.resize(before);
        return false;
      }
    }
  }
  renamed_.insert(store.k);
  return true;
}

// --- two versions of a loop ---

bool LoopDistributor::CanBeVersioned() const {
  for (int64_t k = 0; k < loop_.size(); ++k) {
    bool stored = std::ranges::any_of(stores_, [&](const ElementStore& s) { return s.k == k; });
    if (!stored && !loop_.IsInvariant(k) && k != bounds_.index) return false;
  }
  return !loop_.op->IsRoot() && std::ranges::all_of(loop_.op->users(), [](const Instruction* user) {
    return user->op() == Op::kGetTupleElement && user->sharding() == nullptr &&
           !HasControlDependencies(*user);
  });
}

// What is the same in all rounds, before the loop.
Result<Instruction*> LoopDistributor::Outside(Builder& b, const Instruction& i) {
  if (i.IsConstant()) {
    hlo::CloneMap map;
    return hlo::CloneInstruction(i, *loop_.op->parent(), map, loop_.op);
  }
  if (IsState(i)) return ReadInit(loop_, i.tuple_index());
  std::vector<Instruction*> operands;
  for (const Instruction* operand : i.operands()) operands.push_back(TRY(Outside(b, *operand)));
  return b.Add(i.op(), operands, i.attrs(), &i.shape());
}

Result<Instruction*> LoopDistributor::AddCheck(Builder& b) {
  Instruction* all = nullptr;
  for (const Check& check : checks_) {
    Instruction* number = TRY(Outside(b, *check.number));
    if (!number->shape().IsScalar()) number = TRY(b.Reshape(number, {}));
    Instruction* bound =
        b.ScalarConstant(number->shape().dtype(), static_cast<double>(check.bound));
    Instruction* holds = TRY(b.Compare(number, bound, check.direction));
    all = all == nullptr ? holds : TRY(b.Add(Op::kAnd, {all, holds}));
  }
  return all;
}

// (state before the loop) -> the arrays that it stores into, by a loop of its own.
Result<Instruction*> LoopDistributor::AddVersion(std::string_view name, Computation* condition,
                                                 Computation* body) {
  Computation& parent = *loop_.op->parent();
  hlo::Module& module = *parent.module();
  Computation* version = module.AddComputation(module.UniqueName(name), &parent);
  Builder b(*version, nullptr, loop_.op);
  const Shape& shape = loop_.op->shape();
  Instruction* state = TRY(b.Parameter(0, shape));
  std::vector<Instruction*> init, results;
  for (int64_t k = 0; k < loop_.size(); ++k) {
    init.push_back(k == bounds_.index ? b.ScalarConstant(shape.tuple_element(k).dtype(),
                                                         static_cast<double>(bounds_.init))
                                      : TRY(b.GetTupleElement(state, k)));
  }
  Instruction* tuple = TRY(b.Tuple(init));
  hlo::WhileAttrs attrs{.condition = condition, .body = body};
  Instruction* loop = TRY(b.Add(Op::kWhile, std::span(&tuple, 1), std::move(attrs), &shape));
  for (const ElementStore& store : stores_) {
    results.push_back(TRY(b.GetTupleElement(loop, store.k)));
  }
  version->set_root(TRY(b.Tuple(results)));
  return loop;
}

Result<Instruction*> LoopDistributor::Version() {
  Computation& parent = *loop_.op->parent();
  hlo::Module& module = *parent.module();
  hlo::CloneMap map;
  Computation* condition = hlo::CloneComputation(*loop_.condition, module, map,
                                                 module.UniqueName("any_order_condition"), &parent);
  Computation* body =
      hlo::CloneComputation(*loop_.body, module, map, module.UniqueName("any_order_body"), &parent);
  Instruction* free = TRY(AddVersion("any_order", condition, body));
  Instruction* bound = TRY(AddVersion("in_order", loop_.condition, loop_.body));
  Builder b(parent, loop_.op, loop_.op);
  hlo::ConditionalAttrs attrs;
  attrs.true_computation = free->parent();
  attrs.false_computation = bound->parent();
  Instruction* state = loop_.op->operand(0);
  std::vector<Instruction*> operands = {TRY(AddCheck(b)), state, state};
  Shape shape = free->parent()->root()->shape();
  Instruction* either = TRY(b.Add(Op::kConditional, operands, std::move(attrs), &shape));
  for (Instruction* user : std::vector(loop_.op->users())) {
    int64_t k = user->tuple_index();
    auto store = std::ranges::find(stores_, k, &ElementStore::k);
    Instruction* with =
        store != stores_.end() ? TRY(b.GetTupleElement(either, store - stores_.begin()))
        : k == bounds_.index   ? b.ScalarConstant(user->shape().dtype(),
                                                  static_cast<double>(bounds_.init + bounds_.trips))
                               : TRY(ReadInit(loop_, k));
    user->ReplaceAllUsesWith(with);
    parent.Remove(user);
  }
  parent.Remove(loop_.op);
  return free;
}

}  // namespace weft::compiler
