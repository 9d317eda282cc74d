// The collective pipeliner: what an iteration waits for is moved to another iteration.
//
// Backward: a collective that depends on the counter and on invariant state alone is issued for the
// next iteration; the loop runs once less, and its last iteration stands behind it. Forward: a
// collective whose result ends in an update of an array is done in the next iteration; the first
// iteration stands before the loop, and the last update behind it.
#include <algorithm>
#include <optional>
#include <span>
#include <unordered_set>

#include "compiler/analysis/backend_config.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/own_loop.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

bool IsSyncCollective(const Instruction& i) {
  return IsCollective(i.op()) && !HasTrait(i.op(), hlo::kAsyncStart) && i.operand_count() == 1 &&
         i.shape().IsArray() && !HasControlDependencies(i);
}

std::vector<int64_t> AllElements(const Loop& loop) {
  std::vector<int64_t> all(static_cast<size_t>(loop.size()));
  for (size_t k = 0; k < all.size(); ++k) all[k] = static_cast<int64_t>(k);
  return all;
}

// From the last on, as far as nothing reads them; never what the first one reads.
void RemoveChain(std::span<Instruction* const> chain) {
  for (size_t k = chain.size(); k-- > 0;) {
    if (!chain[k]->users().empty() || chain[k]->IsRoot()) return;
    chain[k]->parent()->Remove(chain[k]);
  }
}

// --- backward

// What a collective is computed from, itself last.
struct Ahead {
  std::vector<const Instruction*> ops;
};

class AheadFinder {
 public:
  AheadFinder(const Loop& loop, int64_t counter, const Effects& effects) : loop_(loop) {
    for (const Instruction* i : *loop.body) Add(*i, counter, effects);
  }

  std::optional<Ahead> Find(const Instruction& collective) const {
    if (!counted_.contains(collective.operand(0))) return std::nullopt;
    Ahead ahead;
    std::unordered_set<const Instruction*> needed = {collective.operand(0)};
    for (const Instruction* i = collective.prev(); i != nullptr; i = i->prev()) {
      if (!needed.contains(i) || IsState(*i)) continue;
      ahead.ops.push_back(i);
      needed.insert(i->operands().begin(), i->operands().end());
    }
    std::reverse(ahead.ops.begin(), ahead.ops.end());
    ahead.ops.push_back(&collective);
    return ahead;
  }

 private:
  bool IsState(const Instruction& i) const {
    return i.op() == Op::kGetTupleElement && i.operand(0) == loop_.body_state;
  }

  void Add(const Instruction& i, int64_t counter, const Effects& effects) {
    if (IsState(i)) {
      if (i.tuple_index() == counter) counted_.insert(&i);
      if (i.tuple_index() == counter || loop_.IsInvariant(i.tuple_index())) known_.insert(&i);
      return;
    }
    // A barrier keeps its iteration, and so does whatever could be noticed.
    if (i.IsParameter() || i.op() == Op::kOptBarrier || HasControlDependencies(i) ||
        IsCollective(i.op()) || effects.Has(i)) {
      return;
    }
    for (const Instruction* operand : i.operands()) {
      if (!known_.contains(operand)) return;
    }
    known_.insert(&i);
    for (const Instruction* operand : i.operands()) {
      if (counted_.contains(operand)) counted_.insert(&i);
    }
  }

  const Loop& loop_;
  // What the counter and invariant state determine; of it what the counter has a part in.
  std::unordered_set<const Instruction*> known_, counted_;
};

// Copies of what is computed ahead, before `before`; the map says what state elements are. Returns
// the collective.
Instruction* CopyAhead(const Ahead& ahead, hlo::Computation& into, Instruction* before,
                       hlo::CloneMap map, FreshIds& ids) {
  Instruction* last = nullptr;
  for (const Instruction* i : ahead.ops) {
    last = CloneInstruction(*i, into, map, before);
    ids.Rename(*last);
  }
  return last;
}

// The condition is asked one iteration ahead.
Status RunOnceLess(const Loop& loop, const LoopBounds& bounds) {
  for (Instruction* read : std::vector<Instruction*>(loop.condition_state->users())) {
    if (read->tuple_index() != bounds.index) continue;
    Builder b(*loop.condition, read->next(), read);
    Instruction* step = b.ScalarConstant(read->shape().dtype(), static_cast<double>(bounds.step));
    Instruction* next = TRY(b.Add(Op::kAdd, {read, step}));
    read->ReplaceAllUsesWith(next);
  }
  return {};
}

Result<bool> PipelineBackward(Instruction* op, const Effects& effects, FreshIds& ids) {
  Loop loop = *FindLoop(op);
  std::optional<LoopBounds> bounds = FindLoopBounds(*op);
  if (!bounds || bounds->trips < 2) return false;
  std::vector<Instruction*> collectives;
  std::vector<Ahead> aheads;
  AheadFinder finder(loop, bounds->index, effects);
  for (Instruction* i : *loop.body) {
    if (!IsSyncCollective(*i) || i->IsRoot()) continue;
    if (std::optional<Ahead> ahead = finder.Find(*i)) {
      collectives.push_back(i);
      aheads.push_back(*std::move(ahead));
    }
  }
  if (collectives.empty()) return false;
  // Those of the first iteration.
  std::vector<Instruction*> first;
  hlo::CloneMap inits;
  for (Instruction* read : loop.body_state->users()) {
    inits.instructions[read] = TRY(ReadInit(loop, read->tuple_index()));
  }
  ids.NextCopy();
  for (const Ahead& ahead : aheads) {
    first.push_back(CopyAhead(ahead, *op->parent(), op, inits, ids));
  }
  int64_t base = loop.size();
  loop = TRY(RebuildLoop(loop, AllElements(loop), first));
  // In the body: read what the iteration before issued, issue for the next one.
  hlo::CloneMap next, last;
  for (Instruction* read : loop.body_state->users()) {
    if (read->tuple_index() == bounds->index) {
      next.instructions[read] = loop.Next(bounds->index);
    }
  }
  ids.NextCopy();
  std::vector<Instruction*> carried;
  for (size_t k = 0; k < collectives.size(); ++k) {
    Instruction* root = loop.body->root();
    Instruction* read = root->operand(base + static_cast<int64_t>(k));
    Instruction* issued = CopyAhead(aheads[k], *loop.body, root, next, ids);
    loop.body->MoveBefore(read, collectives[k]);
    root->ReplaceOperand(base + static_cast<int64_t>(k), issued);
    collectives[k]->ReplaceAllUsesWith(read);
    loop.body->Remove(collectives[k]);
    carried.push_back(issued);
  }
  TRY(RunOnceLess(loop, *bounds));
  SetKnownTripCount(*loop.op, bounds->trips - 1);
  // The last iteration, which issues nothing.
  std::vector<Instruction*> state = TRY(ReadElements(loop.op));
  Instruction* behind = state.back()->next();
  for (size_t k = 0; k < carried.size(); ++k) {
    last.instructions[carried[k]] = state[static_cast<size_t>(base) + k];
  }
  std::vector<Instruction*> result = TRY(CopyBody(*loop.body, behind, state, ids, last));
  ReplaceElements(loop.op, state, result);
  return true;
}

// --- forward

struct Behind {
  int64_t element = 0;
  std::vector<Instruction*> chain;  // the collective, formatting ops, the update
  Instruction* collective() const { return chain.front(); }
  Instruction* update() const { return chain.back(); }
};

bool IsFormatting(const Instruction& i) {
  switch (i.op()) {
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kConvert:
    case Op::kBitcast:
    case Op::kCopy:
    case Op::kSlice:
    case Op::kReverse:
    case Op::kNegate:
    case Op::kBroadcast: return true;
    default: return false;
  }
}

std::optional<Behind> FindBehind(const Loop& loop, int64_t k) {
  Instruction* update = loop.Next(k);
  if (update->op() != Op::kDynamicUpdateSlice || !HasOneUse(*update)) return std::nullopt;
  const Instruction* array = update->operand(0);
  if (array->op() != Op::kGetTupleElement || array->operand(0) != loop.body_state ||
      array->tuple_index() != k || !HasOneUse(*array) || HasControlDependencies(*update)) {
    return std::nullopt;
  }
  for (const hlo::Computation* c : {loop.body, loop.condition}) {
    for (const Instruction* read : c->parameter(0)->users()) {
      if (read != array && read->tuple_index() == k) return std::nullopt;
    }
  }
  Behind found;
  found.element = k;
  found.chain = {update};
  Instruction* i = update->operand(1);
  while (IsFormatting(*i) && HasOneUse(*i) && !HasControlDependencies(*i)) {
    found.chain.push_back(i);
    i = i->operand(0);
  }
  if (!IsSyncCollective(*i) || !HasOneUse(*i)) return std::nullopt;
  found.chain.push_back(i);
  std::reverse(found.chain.begin(), found.chain.end());
  return found;
}

// The chain on a given operand, array and indices, before `before`; returns the update.
Instruction* CopyChain(const Behind& b, hlo::Computation& into, Instruction* before,
                       Instruction* array, std::span<Instruction* const> carried, FreshIds& ids) {
  hlo::CloneMap map;
  ids.NextCopy();
  map.instructions[b.collective()->operand(0)] = carried[0];
  map.instructions[b.update()->operand(0)] = array;
  for (int64_t k = 2; k < b.update()->operand_count(); ++k) {
    map.instructions[b.update()->operand(k)] = carried[static_cast<size_t>(k) - 1];
  }
  Instruction* last = nullptr;
  for (Instruction* i : b.chain) {
    last = CloneInstruction(*i, into, map, before);
    ids.Rename(*last);
  }
  return last;
}

// What a chain needs of its iteration: the operand, then the indices.
std::vector<Instruction*> NeedsOf(const Behind& b) {
  std::vector<Instruction*> values = {b.collective()->operand(0)};
  for (int64_t k = 2; k < b.update()->operand_count(); ++k) {
    values.push_back(b.update()->operand(k));
  }
  return values;
}

// The first iteration in front of the loop, without the chains. What the chains need of it.
Result<std::vector<Instruction*>> PeelFirst(const Loop& loop, std::span<const Behind> found,
                                            FreshIds& ids) {
  std::vector<Instruction*> state, carried;
  for (int64_t k = 0; k < loop.size(); ++k) state.push_back(TRY(ReadInit(loop, k)));
  hlo::CloneMap map;
  std::vector<Instruction*> next = TRY(CopyBody(*loop.body, loop.op, state, ids, map));
  for (const Behind& b : found) {
    next[static_cast<size_t>(b.element)] = state[static_cast<size_t>(b.element)];
    for (Instruction* value : NeedsOf(b)) carried.push_back(map.Find(value));
  }
  Builder before(*loop.op->parent(), loop.op, loop.op);
  loop.op->ReplaceOperand(0, TRY(before.Tuple(next)));
  Instruction* peeled = map.Find(loop.body->root());
  if (peeled->users().empty()) peeled->parent()->Remove(peeled);
  for (const Behind& b : found) {
    std::vector<Instruction*> copies;
    for (Instruction* i : b.chain) copies.push_back(map.Find(i));
    RemoveChain(copies);
  }
  return carried;
}

Result<bool> PipelineForward(Instruction* op, FreshIds& ids) {
  Loop loop = *FindLoop(op);
  if (KnownTripCount(*op) < 2) return false;
  int64_t trips = KnownTripCount(*op);
  std::vector<Behind> found;
  for (int64_t k = 0; k < loop.size(); ++k) {
    if (std::optional<Behind> behind = FindBehind(loop, k)) found.push_back(*std::move(behind));
  }
  if (found.empty()) return false;
  std::vector<Instruction*> carried = TRY(PeelFirst(loop, found, ids));
  // The body does the chains of the iteration before.
  int64_t base = loop.size();
  loop = TRY(RebuildLoop(*FindLoop(op), AllElements(loop), carried));
  std::vector<Instruction*> reads = TRY(ReadElements(loop.op)), with = reads;
  Instruction* behind = reads.back()->next();
  int64_t at = base;
  for (const Behind& b : found) {
    std::vector<Instruction*> values = NeedsOf(b), inside, outside;
    Instruction* root = loop.body->root();
    for (size_t k = 0; k < values.size(); ++k) {
      auto element = at + static_cast<int64_t>(k);
      inside.push_back(root->operand(element));
      outside.push_back(reads[static_cast<size_t>(element)]);
      root->ReplaceOperand(element, values[k]);
    }
    Instruction* update = CopyChain(b, *loop.body, root, b.update()->operand(0), inside, ids);
    root->ReplaceOperand(b.element, update);
    with[static_cast<size_t>(b.element)] = CopyChain(
        b, *loop.op->parent(), behind, reads[static_cast<size_t>(b.element)], outside, ids);
    RemoveChain(b.chain);
    at += std::ssize(values);
  }
  SetKnownTripCount(*loop.op, trips - 1);
  ReplaceElements(loop.op, reads, with);
  return true;
}

}  // namespace

Result<bool> PipelineCollectives(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled) return false;
  FreshIds ids(module);
  bool changed = false;
  for (Instruction* op : OwnLoops(module)) {
    if (!FindLoop(op) || (op->users().empty() && !op->IsRoot())) continue;
    hlo::Computation* parent = op->parent();
    const hlo::Computation* body = op->attrs<hlo::WhileAttrs>().body;
    Effects effects(module);
    if (!TRY(PipelineForward(op, ids))) {
      changed |= TRY(PipelineBackward(op, effects, ids));
      continue;
    }
    changed = true;
    // The loop is another one now.
    for (Instruction* i : parent->Snapshot()) {
      if (i->op() == Op::kWhile && i->attrs<hlo::WhileAttrs>().body == body) {
        TRY(PipelineBackward(i, effects, ids));
        break;
      }
    }
  }
  if (changed) TRY(EliminateDeadCode(module, context));
  return changed;
}

}  // namespace weft::compiler
