// Loops: those that run never, once or a few times, and the state of the others.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/analysis/trip_count.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/expand/callers.h"
#include "compiler/passes/loops/batch_scanned_dots.h"
#include "compiler/passes/loops/hoist_invariants.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/recognize/recognize_slices.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/builder.h"
#include "hlo/call_graph.h"
#include "hlo/clone.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// Constants up to this size are written into body and condition instead of being carried along.
constexpr int64_t kMaxCopiedConstantBytes = 16 * program::TargetFacts::kLineBytes;
// Elements that start as the same value are compared with so many others.
constexpr size_t kMaxTwins = program::WorkBounds::kAlternatives / 2;

// A constant, or what fills an array without reading one: may be computed anew in the loop.
bool IsCheapConstant(const Instruction& i) {
  if (HasControlDependencies(i) || !IsStaticArray(i)) return false;
  if (i.op() == Op::kIota || SplatValue(i) != nullptr) return true;
  return i.IsConstant() && !i.attrs<hlo::ConstantAttrs>().elided &&
         i.shape().ByteSize() <= kMaxCopiedConstantBytes;
}

// The same in another computation, as its first instruction after `state`.
Instruction* CopyConstant(const Instruction& i, Instruction& state) {
  hlo::CloneMap map;
  for (const Instruction* operand : i.operands()) {
    hlo::CloneInstruction(*operand, *state.parent(), map, state.next());
  }
  Instruction* after = i.operand_count() == 0 ? &state : map.Find(i.operand(0));
  return hlo::CloneInstruction(i, *state.parent(), map, after->next());
}

bool IsUsedWhole(const Instruction& loop) {
  if (loop.IsRoot()) return true;
  return std::any_of(loop.users().begin(), loop.users().end(), [](const Instruction* user) {
    return user->op() != Op::kGetTupleElement || user->sharding() != nullptr ||
           HasControlDependencies(*user);
  });
}

void RemoveUnreached(Computation& c, const std::unordered_set<const Instruction*>& reached) {
  for (Instruction* i = c.last(); i != nullptr;) {
    Instruction* previous = i->prev();
    if (!reached.contains(i) && !i->IsParameter()) c.Remove(i);
    i = previous;
  }
}

// Walks from what must stay to what that reads.
class Reach {
 public:
  void Add(Instruction* i) {
    if (reached_.insert(i).second) stack_.push_back(i);
  }
  // Calls `on_element(k)` for elements of the state that are read.
  template <class F>
  void Walk(const Instruction* state, F on_element) {
    while (!stack_.empty()) {
      Instruction* i = stack_.back();
      stack_.pop_back();
      for (Instruction* operand : i->operands()) Add(operand);
      for (Instruction* before : i->control_predecessors()) Add(before);
      bool reads = i->op() == Op::kGetTupleElement && i->operand(0) == state;
      if (reads) on_element(i->tuple_index());
    }
  }
  const std::unordered_set<const Instruction*>& reached() const { return reached_; }

 private:
  std::unordered_set<const Instruction*> reached_;
  std::vector<Instruction*> stack_;
};

// What becomes of each element of a loop's state.
class StatePlan {
 public:
  StatePlan(const Loop& loop, const Effects& effects)
      : loop_(loop),
        effects_(effects),
        whole_(IsUsedWhole(*loop.op)),
        constant_(static_cast<size_t>(loop.size())),
        twin_(static_cast<size_t>(loop.size()), -1),
        distance_(static_cast<size_t>(loop.size())),
        live_(static_cast<size_t>(loop.size())) {
    FindConstants();
    FindTwins();
    FindCounters();
    FindLive();
  }

  bool ChangesState() const {
    auto live = std::count(live_.begin(), live_.end(), true);
    return live < loop_.size() && live > 0;
  }

  Result<Loop> Apply() {
    for (int64_t k = 0; k < loop_.size(); ++k) {
      if (IsConstant(k)) ReplaceByConstant(k);
      if (twin_[static_cast<size_t>(k)] >= 0) TRY(ReplaceByTwin(k));
    }
    std::vector<int64_t> kept;
    for (int64_t k = 0; k < loop_.size(); ++k) {
      if (live_[static_cast<size_t>(k)]) kept.push_back(k);
    }
    // The elements that go must not be read by what is left.
    CutRoot(kept[0]);
    RemoveUnread(*loop_.body);
    RemoveUnread(*loop_.condition);
    return RebuildLoop(loop_, kept, {});
  }

 private:
  bool IsConstant(int64_t k) const { return constant_[static_cast<size_t>(k)]; }

  void FindConstants() {
    for (int64_t k = 0; k < loop_.size(); ++k) {
      const Instruction* init = loop_.Init(k);
      if (init == nullptr || !loop_.IsInvariant(k) || !IsCheapConstant(*init)) continue;
      constant_[static_cast<size_t>(k)] = true;
    }
  }

  // Elements i and j of one initial value are the same all along when iterations treat them alike.
  bool StayEqual(int64_t i, int64_t j) const {
    const Instruction *x = loop_.Next(i), *y = loop_.Next(j);
    if (x == y || (loop_.IsInvariant(i) && loop_.IsInvariant(j))) return true;
    if (x->op() != y->op() || x->operand_count() != y->operand_count()) return false;
    if (!(x->shape() == y->shape()) || !(x->attrs() == y->attrs()) || !effects_.IsFunction(*x)) {
      return false;
    }
    for (int64_t k = 0; k < x->operand_count(); ++k) {
      const Instruction *a = x->operand(k), *z = y->operand(k);
      if (a != z && !(Reads(a, i) && Reads(z, j))) return false;
    }
    return true;
  }

  void FindTwins() {
    if (whole_) return;
    std::unordered_map<const Instruction*, std::vector<int64_t>> by_init;
    for (int64_t k = 0; k < loop_.size(); ++k) {
      const Instruction* init = loop_.Init(k);
      if (init == nullptr || IsConstant(k) || !init->shape().IsArray()) continue;
      std::vector<int64_t>& others = by_init[init];
      auto other = std::find_if(others.begin(), others.end(),
                                [&](int64_t j) { return StayEqual(j, k) && SameShape(j, k); });
      if (other != others.end()) {
        twin_[static_cast<size_t>(k)] = *other;
      } else if (others.size() < kMaxTwins) {
        others.push_back(k);
      }
    }
  }
  // What counts by equal steps from constants: all but one, the one that ends the loop if any, are
  // that one plus a distance.
  void FindCounters() {
    if (whole_) return;
    std::vector<Counter> counters;
    for (int64_t k = 0; k < loop_.size(); ++k) {
      std::optional<Counter> counter = CounterOf(k);
      if (counter) counters.insert(EndsLoop(k) ? counters.begin() : counters.end(), *counter);
    }
    for (size_t i = 1; i < counters.size(); ++i) {
      const Counter& c = counters[i];
      auto end = counters.begin() + static_cast<int64_t>(i);
      auto other = std::find_if(counters.begin(), end, [&](const Counter& o) {
        return o.step == c.step && SameShape(o.k, c.k) && twin_[static_cast<size_t>(o.k)] < 0;
      });
      if (other == end) continue;
      twin_[static_cast<size_t>(c.k)] = other->k;
      distance_[static_cast<size_t>(c.k)] = c.init - other->init;
    }
  }

  bool EndsLoop(int64_t k) const {
    const auto& users = loop_.condition_state->users();
    return std::any_of(users.begin(), users.end(), [&](const Instruction* read) {
      return read->tuple_index() == k && !read->users().empty();
    });
  }

  struct Counter {
    int64_t k, init, step;
  };
  std::optional<Counter> CounterOf(int64_t k) const {
    constexpr int64_t kLargest = 1 << 30;  // of counters, so that distances do not wrap
    if (IsConstant(k) || twin_[static_cast<size_t>(k)] >= 0) return std::nullopt;
    const Instruction *init = loop_.Init(k), *next = loop_.Next(k);
    if (init == nullptr || !init->shape().IsScalar()) return std::nullopt;
    DType dtype = init->shape().dtype();
    if (dtype != DType::kS32 && dtype != DType::kS64) return std::nullopt;
    if (next->op() != Op::kAdd || !Reads(next->operand(0), k)) return std::nullopt;
    std::optional<int64_t> first = IntegerValue(*init), step = IntegerValue(*next->operand(1));
    if (!first || !step || *step == 0 || std::abs(*first) >= kLargest / 2) return std::nullopt;
    return Counter{k, *first, *step};
  }
  bool Reads(const Instruction* i, int64_t k) const {
    return i->op() == Op::kGetTupleElement && i->operand(0) == loop_.body_state &&
           i->tuple_index() == k;
  }

  bool SameShape(int64_t j, int64_t k) const {
    const Shape &whole = loop_.op->shape(), &inside = loop_.body_state->shape();
    return whole.tuple_element(j) == whole.tuple_element(k) &&
           inside.tuple_element(j) == inside.tuple_element(k);
  }

  void FindLive() {
    Reach body, condition;
    auto mark = [&](int64_t k) {
      int64_t twin = twin_[static_cast<size_t>(k)];
      if (twin >= 0) k = twin;
      if (IsConstant(k) || live_[static_cast<size_t>(k)]) return;
      live_[static_cast<size_t>(k)] = true;
      body.Add(loop_.Next(k));
    };
    for (Instruction* i : *loop_.body) {
      if (MustStay(*i)) body.Add(i);
    }
    for (Instruction* i : *loop_.condition) {
      if (MustStay(*i) || i->IsRoot()) condition.Add(i);
    }
    condition.Walk(loop_.condition_state, mark);
    for (const Instruction* user : loop_.op->users()) {
      if (!whole_ && !loop_.IsInvariant(user->tuple_index())) mark(user->tuple_index());
    }
    for (int64_t k = 0; whole_ && k < loop_.size(); ++k) {
      if (!loop_.IsInvariant(k)) mark(k);
    }
    body.Walk(loop_.body_state, mark);
  }
  bool MustStay(const Instruction& i) const {
    return effects_.Has(i) || (HasControlDependencies(i) && !i.IsRoot());
  }

  void ReplaceByConstant(int64_t k) {
    for (Instruction* state : {loop_.body_state, loop_.condition_state}) {
      Instruction* constant = nullptr;
      for (Instruction* element : std::vector<Instruction*>(state->users())) {
        if (element->tuple_index() != k) continue;
        if (constant == nullptr) constant = CopyConstant(*loop_.Init(k), *state);
        element->ReplaceAllUsesWith(constant);
      }
    }
  }

  Status ReplaceByTwin(int64_t k) {
    int64_t twin = twin_[static_cast<size_t>(k)], distance = distance_[static_cast<size_t>(k)];
    for (Instruction* from : {loop_.body_state, loop_.condition_state, loop_.op}) {
      for (Instruction* element : std::vector<Instruction*>(from->users())) {
        if (element->tuple_index() != k) continue;
        element->mutable_attrs<hlo::GetTupleElementAttrs>().index = twin;
        if (distance != 0) TRY(AddBehind(*element, distance));
      }
    }
    return {};
  }

  // Whoever reads the number reads it plus a distance.
  Status AddBehind(Instruction& element, int64_t distance) {
    hlo::Builder b(*element.parent(), element.next(), &element);
    Literal literal{element.shape()};
    literal.SetInt(0, distance);
    Instruction* sum = TRY(b.Add(Op::kAdd, {&element, b.Constant(std::move(literal))}));
    element.ReplaceAllUsesWith(sum);
    sum->ReplaceOperand(0, &element);
    return {};
  }

  // The body's result without the elements that go: another one stands in their place until the
  // root is built anew.
  void CutRoot(int64_t kept) {
    Instruction* root = loop_.body->root();
    for (int64_t k = 0; k < loop_.size(); ++k) {
      if (!live_[static_cast<size_t>(k)]) root->ReplaceOperand(k, root->operand(kept));
    }
  }

  // Removes what nobody reads, the reads of the elements that go among it.
  void RemoveUnread(Computation& c) {
    Reach reach;
    for (Instruction* i : c) {
      if (i->IsRoot() || MustStay(*i)) reach.Add(i);
    }
    reach.Walk(nullptr, [](int64_t) {});
    RemoveUnreached(c, reach.reached());
  }

  const Loop& loop_;
  const Effects& effects_;
  bool whole_;
  std::vector<bool> constant_;
  std::vector<int64_t> twin_, distance_;  // of the twin that it is; how far it is from that one
  std::vector<bool> live_;
};

class LoopSimplifier {
 public:
  LoopSimplifier(hlo::Module& module, const PassContext& context)
      : module_(module),
        limits_(context.options.optimize),
        target_(context.target),
        effects_(module),
        callers_(module) {}

  Result<bool> Run() {
    hlo::CallGraph graph(module_);
    bool changed = false;
    for (Computation* computation : graph.PostOrder()) {
      std::vector<Instruction*> loops;
      for (Instruction* i : *computation) {
        if (i->op() == Op::kWhile && !HasControlDependencies(*i)) loops.push_back(i);
      }
      for (Instruction* loop : loops) changed |= TRY(SimplifyLoop(loop));
    }
    if (changed) module_.RemoveUnusedComputations();
    return changed;
  }

 private:
  bool HasEffects(const Computation& c) const {
    for (const Instruction* i : c) {
      if (effects_.Has(*i)) return true;
    }
    return false;
  }

  Result<bool> SimplifyLoop(Instruction* op) {
    const auto& attrs = op->attrs<hlo::WhileAttrs>();
    std::optional<int64_t> trips = TripCount(*op);
    if (HasEffects(*attrs.condition)) trips = std::nullopt;
    if (trips && op->sharding() == nullptr && MayUnroll(*attrs.body, *trips) &&
        op->shape() == op->operand(0)->shape()) {
      Unroll(op, *trips);
      return true;
    }
    bool changed = ReadInvariantsOutside(op);
    std::optional<Loop> loop = FindLoop(op);
    if (!loop) return changed;
    if (IsOwned(*loop) && KeepLastOfGreatest(*loop)) changed = true;
    if (StatePlan(*loop, effects_).ChangesState()) {
      loop = Own(*loop);
      loop = TRY(StatePlan(*loop, effects_).Apply());
      changed = true;
    }
    if (IsOwned(*loop)) {  // a copy for others would have to be made first
      if (TRY(SliceKnownGathers(*loop->body))) changed = true;
      if (std::optional<Loop> hoisted = TRY(HoistInvariants(*loop, trips, effects_, target_))) {
        loop = hoisted;
        changed = true;
      }
      if (trips && TRY(BatchScannedDots(*loop, *trips, effects_, target_))) changed = true;
    }
    return changed;
  }

  bool MayUnroll(const Computation& body, int64_t trips) {
    if (trips == 0) return true;
    bool fits = body.size() * trips <= limits_.unroll_max_instructions;
    if (trips == 1) return fits || callers_.IsOnly(&body);
    if (!fits || trips > limits_.unroll_max_trips) return false;
    for (const Instruction* i : body) {
      if (effects_.Has(*i) || i->op() == Op::kWhile || i->op() == Op::kConditional ||
          i->op() == Op::kCall || i->op() == Op::kCustomCall) {
        return false;
      }
    }
    return true;
  }

  void Unroll(Instruction* op, int64_t trips) {
    const Computation& body = *op->attrs<hlo::WhileAttrs>().body;
    // Channels and scheduling groups are of one iteration. The first takes those of a body that
    // goes.
    std::optional<FreshIds> ids;
    if (HoldsCollectives(body)) ids.emplace(module_);
    Instruction* value = op->operand(0);
    for (int64_t t = 0; t < trips; ++t) {
      hlo::CloneMap map;
      map.instructions[body.parameter(0)] = value;
      if (ids) ids->NextCopy();
      const bool renames = ids && (t > 0 || !callers_.IsOnly(&body));
      for (const Instruction* i : body) {
        if (i->IsParameter()) continue;
        Instruction* copy = hlo::CloneInstruction(*i, *op->parent(), map, op);
        if (renames) ids->Renumber(*copy);
        callers_.Add(*copy);
      }
      value = map.Find(body.root());
    }
    op->ReplaceAllUsesWith(value);
    op->parent()->Remove(op);
  }

  // What a loop hands on as it is can be read from its initial value.
  bool ReadInvariantsOutside(Instruction* op) {
    std::optional<Loop> loop = FindLoop(op);
    if (!loop) return false;
    bool changed = false;
    for (Instruction* user : std::vector<Instruction*>(op->users())) {
      if (user->op() != Op::kGetTupleElement || user->sharding() != nullptr) continue;
      if (HasControlDependencies(*user) || !loop->IsInvariant(user->tuple_index())) continue;
      Instruction* init = loop->Init(user->tuple_index());
      if (init == nullptr || !(init->shape() == user->shape())) continue;
      user->ReplaceAllUsesWith(init);
      op->parent()->Remove(user);
      changed = true;
    }
    return changed;
  }

  // The only use of an element of a state that is read, or null.
  static Instruction* OnlyRead(const Instruction& state, int64_t k) {
    Instruction* read = nullptr;
    for (Instruction* user : state.users()) {
      if (user->op() != Op::kGetTupleElement || user->tuple_index() != k) continue;
      if (user->users().empty() && !user->IsRoot()) continue;
      if (read != nullptr) return nullptr;
      read = user;
    }
    return read != nullptr && read->users().size() == 1 && !read->IsRoot() ? read : nullptr;
  }

  // A loop that runs while the greatest of what it has seen is below a bound, or the least above
  // one, may as well look at the last: those before were on the right side. The rounds then need
  // not wait for each other.
  bool KeepLastOfGreatest(const Loop& loop) {
    Instruction* root = loop.condition->root();
    if (root->op() != Op::kCompare || !root->shape().IsScalar() || IsUsedWhole(*loop.op)) {
      return false;
    }
    const auto& attrs = root->attrs<hlo::CompareAttrs>();
    for (int64_t side = 0; side < 2; ++side) {
      const Instruction *seen = root->operand(side), *bound = root->operand(1 - side);
      bool reads = seen->op() == Op::kGetTupleElement && seen->operand(0) == loop.condition_state;
      bool fixed = bound->IsConstant() || (bound->op() == Op::kGetTupleElement &&
                                           bound->operand(0) == loop.condition_state &&
                                           loop.IsInvariant(bound->tuple_index()));
      if (!reads || !fixed) continue;
      bool below = attrs.direction == hlo::Direction::kLt || attrs.direction == hlo::Direction::kLe;
      bool above = attrs.direction == hlo::Direction::kGt || attrs.direction == hlo::Direction::kGe;
      if (side == 1) std::swap(below, above);
      int64_t k = seen->tuple_index();
      Instruction* next = loop.Next(k);
      if (!(next->op() == Op::kMaximum && below) && !(next->op() == Op::kMinimum && above))
        continue;
      const auto& results = loop.body->root()->operands();
      if (std::count(results.begin(), results.end(), next) != 1) continue;
      const Instruction* before = OnlyRead(*loop.body_state, k);
      bool unread = std::none_of(
          loop.op->users().begin(), loop.op->users().end(), [&](const Instruction* user) {
            return user->tuple_index() == k && (user->IsRoot() || !user->users().empty());
          });
      if (!unread || before == nullptr || before->users()[0] != next || next->users().size() != 1 ||
          next->operand(0) == next->operand(1)) {
        continue;
      }
      loop.body->root()->ReplaceOperand(k, next->operand(next->operand(0) == before ? 1 : 0));
      loop.body->Remove(next);
      return true;
    }
    return false;
  }

  bool IsOwned(const Loop& loop) const {
    return callers_.IsOnly(loop.body) && callers_.IsOnly(loop.condition);
  }

  // The loop with a body and a condition that no other instruction calls.
  Loop Own(Loop loop) {
    if (IsOwned(loop)) return loop;
    auto& attrs = loop.op->mutable_attrs<hlo::WhileAttrs>();
    const Computation* shared = attrs.body;
    attrs.body = callers_.Own(attrs.body);
    if (attrs.body != shared && HoldsCollectives(*attrs.body)) {
      FreshIds ids(module_);
      for (Instruction* i : *attrs.body) ids.Renumber(*i);
    }
    attrs.condition = callers_.Own(attrs.condition);
    return *FindLoop(loop.op);
  }

  hlo::Module& module_;
  const OptimizeOptions& limits_;
  const program::TargetInfo& target_;
  const Effects effects_;
  Callers callers_;
};

}  // namespace

Result<bool> SimplifyWhile(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled || !HasOp(module, Op::kWhile)) return false;
  return LoopSimplifier(module, context).Run();
}

}  // namespace weft::compiler
