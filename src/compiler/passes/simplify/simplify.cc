// The driver of the rules: a worklist of instructions, each looked at again when what it reads or
// who reads it has changed.
#include <algorithm>
#include <deque>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/clone.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// Each rule makes a module smaller or more canonical; the limit guards against two that undo each
// other.
constexpr int64_t kMaxRewritesPerInstruction = program::WorkBounds::kCandidates;

bool SameLayouts(const Shape& a, const Shape& b) {
  if (a.IsTuple() || a.IsBuffer()) {
    for (int64_t k = 0; k < a.tuple_size(); ++k) {
      if (!SameLayouts(a.tuple_element(k), b.tuple_element(k))) return false;
    }
    return true;
  }
  return a.layout() == nullptr || !a.IsArray() || b.LayoutOrDefault() == *a.layout();
}

// Whether an instruction that was there already can stand for `i`: no annotation gets lost.
bool CanStandFor(const Instruction& existing, const Instruction& i) {
  if (!SameLayouts(i.shape(), existing.shape())) return false;
  return i.sharding() == nullptr ||
         (existing.sharding() != nullptr && *existing.sharding() == *i.sharding());
}

// Whether a rule may look through what `i` reads: a sharding there would be passed over.
bool MayLookThrough(const Instruction& i) {
  return std::none_of(i.operands().begin(), i.operands().end(), [](const Instruction* operand) {
    return operand->sharding() != nullptr && !operand->IsParameter();
  });
}

using Rule = Result<Instruction*> (*)(Instruction&, hlo::Builder&);
constexpr Rule kRules[] = {
    SimplifyArithmetic, SimplifyPredicates, SimplifyChoices,       SimplifyMovement,
    SimplifyMotion,     SimplifySlices,     SimplifyConcatenation, SimplifyIndexing,
    SimplifyUpdates,    SimplifyReductions, SimplifyDots,
};

// Instructions to look at, each once at a time, by id: they may be gone when their turn comes.
class Worklist {
 public:
  bool empty() const { return order_.empty(); }
  void Push(Instruction* i) {
    size_t id = static_cast<size_t>(i->id());
    if (id >= waiting_.size()) waiting_.resize(id + id / 2 + 64);
    if (waiting_[id] != nullptr) return;
    waiting_[id] = i;
    order_.push_back(id);
  }
  Instruction* Pop() {  // null: it is gone
    Instruction* i = std::exchange(waiting_[order_.front()], nullptr);
    order_.pop_front();
    return i;
  }
  void Forget(const Instruction* i) {
    size_t id = static_cast<size_t>(i->id());
    if (id < waiting_.size()) waiting_[id] = nullptr;
  }
  void Clear() {
    while (!empty()) Pop();
  }

 private:
  std::vector<Instruction*> waiting_;
  std::deque<size_t> order_;
};

class Simplifier {
 public:
  Simplifier(Computation& computation, const Effects& effects, Worklist& queue)
      : computation_(computation), effects_(effects), queue_(queue) {}

  Result<bool> Run() {
    for (Instruction* i : computation_) Push(i);
    int64_t rewrites_left = kMaxRewritesPerInstruction * computation_.size() + 100;
    bool changed = false;
    while (!queue_.empty() && rewrites_left > 0) {
      Instruction* i = queue_.Pop();
      if (i == nullptr || !TRY(RewriteOne(i))) continue;
      changed = true;
      --rewrites_left;
    }
    queue_.Clear();
    return changed;
  }

 private:
  void Push(Instruction* i) { queue_.Push(i); }

  bool IsUnused(const Instruction& i) const {
    return i.users().empty() && !i.IsRoot() && !i.IsParameter() && !effects_.Has(i) &&
           !HasControlDependencies(i);
  }

  // Whether the users of `i` now read something else.
  Result<bool> RewriteOne(Instruction* i) {
    if (i->IsParameter() || HasControlDependencies(*i)) return false;
    if (i->users().empty() && !i->IsRoot()) return false;  // dead: somebody else removes it
    int64_t first_new_id = computation_.module()->id_limit();
    Instruction* same = i->def().fold != nullptr ? i->def().fold(*i) : nullptr;
    if (same != nullptr && same != i && Replace(i, same, first_new_id)) return true;
    if (!MayLookThrough(*i)) return false;
    for (Rule rule : kRules) {
      hlo::Builder b(computation_, i, i);
      same = TRY(rule(*i, b));
      if (same != nullptr && same != i && Replace(i, same, first_new_id)) return true;
    }
    return false;
  }

  bool Replace(Instruction* i, Instruction* same, int64_t first_new_id) {
    if (!Shape::Compatible(same->shape(), i->shape()) ||
        (same->id() < first_new_id && !CanStandFor(*same, *i))) {
      if (same->id() >= first_new_id) RemoveUnused(same);
      return false;
    }
    std::vector<Instruction*> added;  // last first
    for (Instruction* n = i->prev(); n != nullptr && n->id() >= first_new_id; n = n->prev()) {
      if (i->metadata() != nullptr) n->mutable_metadata() = *i->metadata();
      added.push_back(n);
      Push(n);
    }
    if (same->id() >= first_new_id) {
      same->mutable_shape() = i->shape();  // the layout
      hlo::CopyFacts(*i, *same);
      for (Instruction* operand : same->operands()) Push(operand);
    }
    for (Instruction* user : i->users()) Push(user);
    Push(same);
    i->ReplaceAllUsesWith(same);
    for (Instruction* n : added) {
      if (n != same && IsUnused(*n)) Remove(n);  // what it read comes next
    }
    RemoveUnused(i);
    return true;
  }

  void Remove(Instruction* i) {
    queue_.Forget(i);
    computation_.Remove(i);
  }

  // Removes an instruction that has no users left, and what only it read. Who still reads the
  // operands may now be the only one.
  void RemoveUnused(Instruction* start) {
    std::vector<Instruction*> unused;
    if (IsUnused(*start)) unused.push_back(start);
    while (!unused.empty()) {
      Instruction* i = unused.back();
      unused.pop_back();
      InlineVec<Instruction*, 4> operands(i->operands());
      Remove(i);
      std::sort(operands.begin(), operands.end(),
                [](const Instruction* a, const Instruction* b) { return a->id() < b->id(); });
      auto end = std::unique(operands.begin(), operands.end());
      for (auto it = operands.begin(); it != end; ++it) {
        if (IsUnused(**it)) {
          unused.push_back(*it);
        } else if ((*it)->users().size() == 1) {
          Push((*it)->users()[0]);
        }
      }
    }
  }

  Computation& computation_;
  const Effects& effects_;
  Worklist& queue_;
};

// The computation of an asynchronous collective is one instruction and stays that.
std::unordered_set<const Computation*> AsyncComputations(const hlo::Module& module) {
  std::unordered_set<const Computation*> found;
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      if (i->op() != Op::kAsyncStart || IsAsyncCall(*i)) continue;
      for (const Computation* called : i->called_computations()) found.insert(called);
    }
  }
  return found;
}

}  // namespace

Result<bool> Simplify(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  Effects effects(module);
  std::unordered_set<const Computation*> async = AsyncComputations(module);
  Worklist queue;
  bool changed = false;
  for (const auto& computation : module.computations()) {
    if (async.contains(computation.get())) continue;
    changed |= TRY(Simplifier(*computation, effects, queue).Run());
  }
  return changed;
}

}  // namespace weft::compiler
