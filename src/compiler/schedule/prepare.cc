#include "compiler/schedule/prepare.h"

#include <algorithm>

#include "compiler/analysis/collectives.h"
#include "compiler/passes/collectives/async_pairs.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "compiler/schedule/costs.h"
#include "hlo/builder.h"
#include "hlo/call_graph.h"
#include "hlo/clone.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

Result<bool> SplitBarrier(Instruction* i) {
  if (!i->shape().IsTuple() || i->shape().tuple_size() < 2 || HasControlDependencies(*i))
    return false;
  Builder b(*i->parent(), i, i);
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < i->shape().tuple_size(); ++k) {
    Instruction* element = TRY(ElementOf(b, i->operand(0), k));
    Instruction* barrier = TRY(b.Add(Op::kOptBarrier, {element}));
    hlo::CopyFacts(*i, *barrier);
    elements.push_back(barrier);
  }
  Instruction* tuple = TRY(b.Tuple(elements));
  i->ReplaceAllUsesWith(tuple);
  i->parent()->Remove(i);
  return true;
}

}  // namespace

Result<int64_t> MakeAsync(hlo::Module& module, const std::vector<std::string>& disabled) {
  int64_t made = 0;
  for (Computation* c : ExecutedComputations(module)) {
    for (Instruction* i : c->Snapshot()) {
      bool is_marked =
          IsMarkedCollective(*i) && !i->attrs<hlo::CustomCallAttrs>().custom_call_has_side_effect;
      if (!(IsCollective(i->op()) || is_marked) || HasTrait(i->op(), hlo::kAsyncStart)) continue;
      auto stays = [&](const std::string& name) {
        return name == "all" || name == Mnemonic(i->op()) || (is_marked && name == "custom");
      };
      if (std::any_of(disabled.begin(), disabled.end(), stays)) continue;
      TRY(AddAsyncPair(i));
      ++made;
    }
  }
  return made;
}

Status WriteOutGroups(hlo::Module& module) {
  int64_t devices = DeviceCount(module);
  for (const auto& c : module.computations()) {
    for (Instruction* i : *c) {
      const hlo::CollectiveAttrs* attrs = i->attrs().Collective();
      if (attrs == nullptr || attrs->replica_groups.form != hlo::ReplicaGroups::Form::kMesh)
        continue;
      hlo::ReplicaGroups list;
      list.groups = TRY(attrs->replica_groups.Expand(devices));
      i->mutable_attrs().MutableCollective()->replica_groups = std::move(list);
    }
  }
  return {};
}

Result<bool> RenameReshapes(hlo::Module& module) {
  auto is_row_major = [](const Shape& shape) {
    return shape.IsArray() && !shape.HasDynamicDims() &&
           (shape.layout() == nullptr || *shape.layout() == Layout::RowMajor(shape.rank()));
  };
  return RewriteEach(module, [&](Instruction* i) -> Result<bool> {
    if (i->op() != Op::kReshape || !is_row_major(i->shape()) ||
        !is_row_major(i->operand(0)->shape())) {
      return false;
    }
    Builder b(*i->parent(), i, i);
    Shape shape = i->shape();
    Instruction* operand = i->operand(0);
    Instruction* bitcast =
        TRY(b.Add(Op::kBitcast, std::span(&operand, 1), hlo::Attrs(hlo::GetOp(Op::kBitcast).attrs),
                  &shape, i->name()));
    hlo::ReplaceInstruction(i, bitcast);
    return true;
  });
}

Result<bool> SplitTuples(hlo::Module& module) {
  bool changed = false;
  for (Computation* c : ExecutedComputations(module)) {
    for (bool again = true; again;) {
      again = false;
      for (Instruction* i : c->Snapshot()) {
        if (i->op() == Op::kOptBarrier) {
          again |= TRY(SplitBarrier(i));
        } else if (i->op() == Op::kGetTupleElement && i->operand(0)->op() == Op::kTuple &&
                   !HasControlDependencies(*i)) {
          Instruction* tuple = i->operand(0);
          i->ReplaceAllUsesWith(tuple->operand(i->tuple_index()));
          c->Remove(i);
          if (tuple->users().empty() && !tuple->IsRoot() && !HasControlDependencies(*tuple)) {
            c->Remove(tuple);
          }
          changed = true;
        }
      }
      changed |= again;
    }
  }
  return changed;
}

Result<int64_t> UnrollLoops(hlo::Module& module, int64_t most) {
  FreshIds ids(module);
  int64_t unrolled = 0;
  std::vector<Computation*> executed = ExecutedComputations(module);
  for (size_t at = executed.size(); at-- > 0;) {
    for (Instruction* i : executed[at]->Snapshot()) {
      if (i->op() != Op::kWhile || !i->shape().IsTuple() || HasControlDependencies(*i)) continue;
      const Computation& body = *i->attrs<hlo::WhileAttrs>().body;
      int64_t trips = KnownTripCount(*i);
      if (trips < 2 || !HoldsCollectives(body)) continue;
      int64_t room = most - module.instruction_count();
      const int64_t size = ExecutedSize(body);
      if (size == 0 || room <= 0) continue;
      if (trips <= room / size) {
        TRY(UnrollWhole(i, trips, ids));
        ++unrolled;
        continue;
      }
      int64_t factor = std::min<int64_t>({room / size, 8, trips / 2});
      while (factor > 1 && trips % factor != 0) --factor;
      if (factor < 2) continue;
      TRY(UnrollBy(i, trips, factor, ids));
      ++unrolled;
    }
  }
  if (unrolled > 0) module.RemoveUnusedComputations();
  return unrolled;
}

}  // namespace weft::compiler::schedule
