#include "compiler/passes/loops/drop_state.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/analysis/queries.h"
#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

bool IsUsedWhole(const Instruction& loop) {
  if (loop.IsRoot()) return true;
  return std::any_of(loop.users().begin(), loop.users().end(), [](const Instruction* user) {
    return user->op() != Op::kGetTupleElement || user->sharding() != nullptr ||
           HasControlDependencies(*user);
  });
}

namespace {

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

// The same in another computation, as the last of what is copied in front of `before`.
Instruction* CopyConstant(const Instruction& i, Instruction* before, hlo::CloneMap& map) {
  for (const Instruction* operand : i.operands()) {
    if (!map.instructions.contains(operand)) CopyConstant(*operand, before, map);
  }
  return hlo::CloneInstruction(i, *before->parent(), map, before);
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
      if (init == nullptr || !loop_.IsInvariant(k)) continue;
      // What an iteration wants one element of is computed there.
      bool wanted = IsCheapConstant(*init) || (IsOfIndices(*init) && IsReadByElement(k));
      if (!wanted || HasControlDependencies(*init)) continue;
      constant_[static_cast<size_t>(k)] = true;
    }
  }

  // Iterations read single elements of the array, and hand it on.
  bool IsReadByElement(int64_t k) const {
    for (const Instruction* state : {loop_.body_state, loop_.condition_state}) {
      for (const Instruction* element : state->users()) {
        if (element->tuple_index() != k) continue;
        for (const Instruction* user : element->users()) {
          bool hands_on = user == loop_.body->root();
          bool reads = user->op() == Op::kDynamicSlice && user->operand(0) == element &&
                       user->shape().elements() == 1;
          if (!hands_on && !reads) return false;
        }
      }
    }
    return true;
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
        if (constant == nullptr) {
          hlo::CloneMap map;
          constant = CopyConstant(*loop_.Init(k), state->next(), map);
        }
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

}  // namespace

bool MayDropState(const Loop& loop, const Effects& effects) {
  return StatePlan(loop, effects).ChangesState();
}

Result<Loop> DropState(const Loop& loop, const Effects& effects) {
  return StatePlan(loop, effects).Apply();
}

}  // namespace weft::compiler
