#include "compiler/passes/collectives/async_pairs.h"

#include "compiler/passes.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

Result<Instruction*> AddAsyncPair(Instruction* i) {
  hlo::Module& module = *i->parent()->module();
  std::string name = i->name();
  Computation* wrapped =
      module.AddComputation(module.UniqueName(StrCat("async_", name)), i->parent());
  Builder w(*wrapped);
  std::vector<Instruction*> parameters;
  std::vector<Shape> shapes;
  for (int64_t k = 0; k < i->operand_count(); ++k) {
    parameters.push_back(TRY(w.Parameter(k, i->operand(k)->shape())));
    shapes.push_back(i->operand(k)->shape());
  }
  hlo::CloneMap map;
  hlo::CloneChanges changes;
  changes.operands = std::span<Instruction* const>(parameters);
  wrapped->set_root(CloneInstruction(*i, *wrapped, map, nullptr, changes));
  Shape shape = Shape::Tuple({Shape::Tuple(std::move(shapes)), i->shape()});
  Builder b(*i->parent(), i, i);
  std::vector<Instruction*> operands(i->operands().begin(), i->operands().end());
  hlo::AsyncAttrs attrs;
  attrs.calls = wrapped;
  Instruction* start = TRY(b.Add(Op::kAsyncStart, operands, attrs, &shape, StrCat(name, "-start")));
  Shape result = i->shape();
  Instruction* done =
      TRY(b.Add(Op::kAsyncDone, std::span(&start, 1), attrs, &result, StrCat(name, "-done")));
  // What waited for the collective waits for its done; what it waited for, its start.
  if (i->extras() != nullptr) {
    start->mutable_extras().backend_config = i->extras()->backend_config;
    // Whoever made it synchronous wrote so; it is not any more.
    std::string& config = start->mutable_extras().backend_config.text;
    constexpr std::string_view kMark = "\"is_sync\":true";
    if (size_t at = config.find(kMark); at != config.npos) {
      config.replace(at, kMark.size(), "\"is_sync\":false");
    }
    start->mutable_extras().frontend_attributes = i->extras()->frontend_attributes;
    done->mutable_extras().frontend_attributes = i->extras()->frontend_attributes;
    if (i->sharding() != nullptr) done->mutable_extras().sharding = i->extras()->sharding;
  }
  for (Instruction* before :
       std::vector(i->control_predecessors().begin(), i->control_predecessors().end())) {
    start->AddControlPredecessor(before);
  }
  for (Instruction* after :
       std::vector(i->control_successors().begin(), i->control_successors().end())) {
    after->AddControlPredecessor(done);
  }
  i->DropControlDependencies();
  i->ReplaceAllUsesWith(done);
  i->parent()->Remove(i);
  return start;
}

namespace {

// The collective that an async op wraps and nothing else; null: another computation.
const Instruction* Wrapped(const Instruction& start) {
  const Computation* c = start.attrs<hlo::AsyncAttrs>().calls;
  if (c == nullptr || !IsCollective(c->root()->op())) return nullptr;
  if (c->size() != c->root()->operand_count() + 1) return nullptr;
  for (int64_t k = 0; k < c->root()->operand_count(); ++k) {
    if (c->root()->operand(k) != c->parameter(k)) return nullptr;
  }
  return c->root();
}

Op SyncOp(Op start) {
  switch (start) {
    case Op::kAllGatherStart: return Op::kAllGather;
    case Op::kAllReduceStart: return Op::kAllReduce;
    case Op::kCollectivePermuteStart: return Op::kCollectivePermute;
    default: return start;
  }
}

// The synchronous op in the place of a pair: where the start stood, with the facts of both.
Result<bool> JoinPair(Instruction* start) {
  bool is_generic = start->op() == Op::kAsyncStart;
  if (!is_generic && SyncOp(start->op()) == start->op()) return false;
  const Instruction* wrapped = is_generic ? Wrapped(*start) : start;
  if (wrapped == nullptr || start->users().size() != 1 || start->IsRoot()) return false;
  Instruction* done = start->users()[0];
  if (!HasTrait(done->op(), hlo::kAsyncDone)) return false;
  // Starts may send tuples; what is synchronous takes arrays.
  for (const Instruction* operand : start->operands()) {
    if (!operand->shape().IsArray()) return false;
  }
  Builder b(*start->parent(), start, start);
  std::vector<Instruction*> operands(start->operands().begin(), start->operands().end());
  Shape shape = done->shape();
  Instruction* op = nullptr;
  if (is_generic) {  // as it was written, whatever shape would be inferred
    hlo::CloneMap map;
    hlo::CloneChanges changes{.name = {}, .shape = shape, .operands = operands};
    op = CloneInstruction(*wrapped, *start->parent(), map, start, changes);
  } else {
    op = TRY(b.Add(SyncOp(start->op()), operands, wrapped->attrs(), &shape, wrapped->name()));
  }
  if (const hlo::InstructionExtras* extras = start->extras()) {
    op->mutable_extras().backend_config = extras->backend_config;
    op->mutable_extras().frontend_attributes = extras->frontend_attributes;
  }
  if (done->sharding() != nullptr) op->mutable_extras().sharding = done->extras()->sharding;
  // What stood between start and done stays behind the op, which ends where it begins.
  for (Instruction* i : {start, done}) {
    for (Instruction* p :
         std::vector(i->control_predecessors().begin(), i->control_predecessors().end())) {
      if (i == start) op->AddControlPredecessor(p);
    }
    for (Instruction* s :
         std::vector(i->control_successors().begin(), i->control_successors().end())) {
      if (s != start && s != done) s->AddControlPredecessor(op);
    }
    i->DropControlDependencies();
  }
  done->ReplaceAllUsesWith(op);
  done->parent()->Remove(done);
  start->parent()->Remove(start);
  return true;
}

}  // namespace

Result<bool> MakeCollectivesAsync(hlo::Module& module, const PassContext&) {
  bool changed = false;
  for (Computation* c : ExecutedComputations(module)) {
    for (Instruction* i : c->Snapshot()) {
      if (!IsCollective(i->op()) || HasTrait(i->op(), hlo::kAsyncStart)) continue;
      TRY(AddAsyncPair(i));
      changed = true;
    }
  }
  return changed;
}

Result<bool> MakeCollectivesSync(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  bool changed = false;
  for (Computation* c : ExecutedComputations(module)) {
    // A done goes with its start: only starts are looked at later.
    std::vector<Instruction*> starts = c->Snapshot();
    std::erase_if(starts, [](Instruction* i) { return !HasTrait(i->op(), hlo::kAsyncStart); });
    for (Instruction* start : starts) changed |= TRY(JoinPair(start));
  }
  if (changed) module.RemoveUnusedComputations();
  return changed;
}

}  // namespace weft::compiler
