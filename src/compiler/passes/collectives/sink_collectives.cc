// The collective pipeliner, forward-sink: collectives whose results a loop only writes to the rows
// of an array leave the loop. It stacks their operands instead; behind it stands one collective on
// the stack, and what formatted its result, with one more dimension.
#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "compiler/analysis/backend_config.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/own_loop.h"
#include "compiler/passes/rewrite.h"
#include "compiler/spmd/reshard.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// What stands between the operands that are stacked and the update of a row.
struct Sunk {
  int64_t element = 0, trips = 0;
  Instruction* update = nullptr;
  std::vector<Instruction*> ops;     // in the order of the body; collectives among them
  std::vector<Instruction*> stacks;  // what they read of their iteration
};

bool IsPlain(const Shape& shape) {
  return shape.IsArray() && !shape.HasDynamicDims() &&
         (shape.layout() == nullptr || *shape.layout() == Layout::RowMajor(shape.rank()));
}

bool IsSinkable(const Instruction& i) {
  if (!IsCollective(i.op()) || HasTrait(i.op(), hlo::kAsyncStart) || i.operand_count() != 1) {
    return false;
  }
  switch (i.op()) {
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kReduceScatter:
    case Op::kCollectivePermute: return !i.attrs().Collective()->constrain_layout;
    case Op::kAllToAll: return !i.attrs<hlo::AllToAllAttrs>().dimensions.empty();
    default: return false;
  }
}

// Ops that have a form with one more dimension in front.
bool IsLiftable(const Instruction& i) {
  switch (i.op()) {
    case Op::kReshape:
    case Op::kBitcast:
    case Op::kTranspose:
    case Op::kBroadcast:
    case Op::kSlice:
    case Op::kReverse:
    case Op::kConcatenate:
    case Op::kCopy: return true;
    case Op::kReduce: return i.operand_count() == 2 && i.operand(1)->IsConstant();
    case Op::kPad: return i.operand(1)->IsConstant();
    default: return IsElementwise(i.op()) && i.called_computations().empty();
  }
}

class SunkFinder {
 public:
  SunkFinder(const Loop& loop, int64_t element, int64_t most_bytes)
      : loop_(loop), element_(element), most_bytes_(most_bytes) {}

  std::optional<Sunk> Find() {
    std::optional<LoopBounds> bounds = FindLoopBounds(*loop_.op);
    Instruction* update = loop_.Next(element_);
    if (!bounds || bounds->trips < 2 || update->op() != Op::kDynamicUpdateSlice) return {};
    const Shape &array = update->shape(), &row = update->operand(1)->shape();
    if (!IsPlain(array) || !IsPlain(row) || array.rank() == 0 || row.dim(0) != 1 ||
        array.dim(0) != bounds->trips || HasControlDependencies(*update) ||
        !WritesWholeState(*loop_.op, element_)) {
      return {};
    }
    Sunk found{element_, bounds->trips, update, {}, {}};
    if (!Collect(*update, found)) return {};
    return found;
  }

 private:
  // Backwards, as far as everything that reads an op is there already; behind the first collective
  // on each way it ends. What no collective has a part in stays in the loop.
  bool Collect(Instruction& update, Sunk& found) {
    inside_.insert(&update);
    std::vector<Instruction*> candidates;
    for (Instruction* i = update.prev(); i != nullptr; i = i->prev()) {
      if (!IsRead(*i, update) || !IsCandidate(*i)) continue;
      inside_.insert(i);
      candidates.push_back(i);
    }
    std::reverse(candidates.begin(), candidates.end());
    std::unordered_set<const Instruction*> moved;
    for (Instruction* i : candidates) {
      bool follows = IsSinkable(*i);
      for (const Instruction* operand : i->operands()) follows |= moved.contains(operand);
      if (!follows) continue;
      moved.insert(i);
      found.ops.push_back(i);
    }
    for (const Instruction* i : found.ops) {
      for (Instruction* operand : i->operands()) {
        bool is_new =
            !moved.contains(operand) && !operand->IsConstant() &&
            std::find(found.stacks.begin(), found.stacks.end(), operand) == found.stacks.end();
        if (!is_new) continue;
        if (!IsPlain(operand->shape())) return false;
        found.stacks.push_back(operand);
      }
    }
    return moved.contains(update.operand(1));
  }

  // By what is moved: the row of the update, or the operands of ops that are no collectives.
  bool IsRead(const Instruction& i, const Instruction& update) const {
    if (i.users().empty() || i.IsRoot()) return false;
    for (const Instruction* user : i.users()) {
      if (!inside_.contains(user) || IsSinkable(*user)) return false;
      if (user == &update && (update.operand(1) != &i || !HasOneUse(i))) return false;
    }
    return true;
  }

  bool IsCandidate(const Instruction& i) const {
    if (HasControlDependencies(i) || !IsPlain(i.shape())) return false;
    if (!IsSinkable(i)) return IsLiftable(i);
    return std::max(i.shape().ByteSize(), i.operand(0)->shape().ByteSize()) <= most_bytes_;
  }

  const Loop& loop_;
  const int64_t element_;
  const int64_t most_bytes_;                       // of a collective that is small enough for now
  std::unordered_set<const Instruction*> inside_;  // lookups only
};

// --- one more dimension

Shape Stacked(const Shape& shape, int64_t trips) {
  std::vector<int64_t> dims = {trips};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  Shape stacked(shape.dtype(), dims);
  if (shape.layout() != nullptr) stacked.set_layout(Layout::RowMajor(stacked.rank()));
  return stacked;
}

void AddOne(Ints& dimensions) {
  for (int64_t& d : dimensions) ++d;
}
void AddOneWithFirst(Ints& dimensions) {
  Ints lifted = {0};
  for (int64_t d : dimensions) lifted.push_back(d + 1);
  dimensions = lifted;
}

void LiftAttrs(Instruction& i, int64_t trips) {
  switch (i.op()) {
    case Op::kAllGather: AddOne(i.mutable_attrs<hlo::AllGatherAttrs>().dimensions); return;
    case Op::kReduceScatter: AddOne(i.mutable_attrs<hlo::ReduceScatterAttrs>().dimensions); return;
    case Op::kAllToAll: AddOne(i.mutable_attrs<hlo::AllToAllAttrs>().dimensions); return;
    case Op::kReduce: AddOne(i.mutable_attrs<hlo::ReduceAttrs>().dimensions); return;
    case Op::kReverse:
    case Op::kConcatenate: AddOne(i.mutable_attrs<hlo::DimensionsAttrs>().dimensions); return;
    case Op::kTranspose:
      AddOneWithFirst(i.mutable_attrs<hlo::DimensionsAttrs>().dimensions);
      return;
    case Op::kBroadcast: AddOneWithFirst(i.mutable_attrs<hlo::BroadcastAttrs>().dimensions); return;
    case Op::kReshape: i.mutable_attrs<hlo::ReshapeAttrs>().inferred_dimension = {}; return;
    case Op::kSlice: {
      hlo::SliceDims& slice = i.mutable_attrs<hlo::SliceAttrs>().slice;
      slice.insert(slice.begin(), {0, trips, 1});
      return;
    }
    case Op::kPad: {
      hlo::Padding& padding = i.mutable_attrs<hlo::PadAttrs>().padding;
      padding.insert(padding.begin(), hlo::PaddingDim{});
      return;
    }
    default: return;
  }
}

// The ops on stacks, before `before`.
class Lifter {
 public:
  Lifter(const Sunk& sunk, hlo::Computation& into, Instruction* before, FreshIds& ids)
      : sunk_(sunk), into_(into), before_(before), ids_(ids) {}

  void Set(const Instruction* leaf, Instruction* stack) { lifted_[leaf] = stack; }

  Result<Instruction*> Run() {
    ids_.NextCopy();
    for (Instruction* i : sunk_.ops) {
      std::vector<Instruction*> operands;
      for (int64_t k = 0; k < i->operand_count(); ++k) {
        bool is_scalar = k == 1 && (i->op() == Op::kReduce || i->op() == Op::kPad);
        operands.push_back(is_scalar ? Constant(*i->operand(k)) : TRY(Operand(*i->operand(k))));
      }
      hlo::CloneMap map;
      hlo::CloneChanges changes;
      changes.shape = Stacked(i->shape(), sunk_.trips);
      changes.operands = operands;
      Instruction* copy = CloneInstruction(*i, into_, map, before_, changes);
      LiftAttrs(*copy, sunk_.trips);
      ids_.Rename(*copy);
      lifted_[i] = copy;
    }
    Builder b(into_, before_, sunk_.update);
    Instruction* rows =
        TRY(b.Reshape(lifted_.at(sunk_.update->operand(1)), sunk_.update->shape().dims()));
    rows->mutable_shape() = sunk_.update->shape();
    return rows;
  }

 private:
  Instruction* Constant(const Instruction& constant) {
    hlo::CloneMap map;
    return CloneInstruction(constant, into_, map, before_);
  }
  Result<Instruction*> Operand(const Instruction& operand) {
    if (auto it = lifted_.find(&operand); it != lifted_.end()) return it->second;
    Builder b(into_, before_, &operand);
    Ints dimensions;
    for (int64_t d = 0; d < operand.shape().rank(); ++d) dimensions.push_back(d + 1);
    return lifted_[&operand] = TRY(
               b.Broadcast(Constant(operand), Stacked(operand.shape(), sunk_.trips), dimensions));
  }

  const Sunk& sunk_;
  hlo::Computation& into_;
  Instruction* before_;
  FreshIds& ids_;
  std::unordered_map<const Instruction*, Instruction*> lifted_;  // lookups only
};

// In the body: a stack's row is what was read, at the row that was written.
Status StackRow(const Loop& loop, const Sunk& sunk, Instruction* value, int64_t element) {
  Instruction* root = loop.body->root();
  Builder b(*loop.body, root, sunk.update);
  std::vector<int64_t> dims = {1};
  dims.insert(dims.end(), value->shape().dims().begin(), value->shape().dims().end());
  Instruction* index = sunk.update->operand(2);
  std::vector<Instruction*> operands = {root->operand(element), TRY(b.Reshape(value, dims)), index};
  Instruction* zero = b.ScalarConstant(index->shape().dtype(), 0);
  for (int64_t d = 0; d < value->shape().rank(); ++d) operands.push_back(zero);
  Instruction* stack = TRY(b.Add(Op::kDynamicUpdateSlice, operands,
                                 hlo::Attrs(hlo::GetOp(Op::kDynamicUpdateSlice).attrs)));
  stack->mutable_shape() = root->operand(element)->shape();
  hlo::CopyFacts(*sunk.update, *stack);  // which goes
  root->ReplaceOperand(element, stack);
  return {};
}

Result<Instruction*> SinkRows(Loop loop, const Sunk& sunk, FreshIds& ids) {
  TRY(SplitUsers(loop.op));
  Builder before(*loop.op->parent(), loop.op, loop.op);
  std::vector<Instruction*> stacks;
  for (const Instruction* value : sunk.stacks) {
    stacks.push_back(TRY(ZeroesOf(before, Stacked(value->shape(), sunk.trips))));
  }
  const int64_t base = loop.size();
  std::vector<int64_t> all(static_cast<size_t>(base));
  for (size_t k = 0; k < all.size(); ++k) all[k] = static_cast<int64_t>(k);
  loop = TRY(RebuildLoop(loop, all, stacks));
  SetKnownTripCount(*loop.op, sunk.trips);
  for (size_t k = 0; k < stacks.size(); ++k) {
    TRY(StackRow(loop, sunk, sunk.stacks[k], base + static_cast<int64_t>(k)));
  }
  std::vector<Instruction*> read = TRY(ReadElements(loop.op)), with = read;
  Lifter lifter(sunk, *loop.op->parent(), read.back()->next(), ids);
  for (size_t k = 0; k < stacks.size(); ++k) {
    lifter.Set(sunk.stacks[k], read[static_cast<size_t>(base) + k]);
  }
  with[static_cast<size_t>(sunk.element)] = TRY(lifter.Run());
  ReplaceElements(loop.op, read, with);
  // The array is handed on as it was, and read no more: simplify-while drops it.
  loop.body->root()->ReplaceOperand(sunk.element, sunk.update->operand(0));
  loop.body->Remove(sunk.update);
  for (size_t k = sunk.ops.size(); k-- > 0;) loop.body->Remove(sunk.ops[k]);
  return loop.op;
}

}  // namespace

Result<bool> SinkCollectives(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled) return false;
  FreshIds ids(module);
  bool changed = false;
  const spmd::LinkModel link = spmd::LinkModel::Of(context.target);
  const auto small = static_cast<int64_t>(link.seconds * link.bytes_per_second);
  for (Instruction* op : OwnLoops(module)) {
    // Level by level: what feeds a collective that was sunk is sunk in the next round. Those that
    // are not bound by latency wait until no other is left.
    for (int64_t most_bytes : {small, std::numeric_limits<int64_t>::max()}) {
      for (bool again = true; again;) {
        again = false;
        std::optional<Loop> loop = FindLoop(op);
        // `again` first: a loop that was rebuilt is gone.
        for (int64_t k = 0; !again && loop && k < loop->size(); ++k) {
          std::optional<Sunk> sunk = SunkFinder(*loop, k, most_bytes).Find();
          if (!sunk) continue;
          op = TRY(SinkRows(*loop, *sunk, ids));
          again = changed = true;
        }
      }
    }
  }
  if (changed) TRY(EliminateDeadCode(module, context));
  return changed;
}

}  // namespace weft::compiler
