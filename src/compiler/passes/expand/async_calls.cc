#include "compiler/passes/expand/async_calls.h"

#include <optional>
#include <vector>

#include "base/log.h"
#include "compiler/analysis/in_place.h"
#include "compiler/analysis/work.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/async_pairs.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/ops/called.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// What JAX's compute_on marks calls with.
constexpr std::string_view kComputeType = "_xla_compute_type", kHost = "host";

// Something that only the thread of its device may do, or that is of sizes nobody knows yet.
bool IsBound(const Instruction& i) {
  const bool has_effects = hlo::HasSideEffect(i.op()) && i.op() != Op::kAsyncStart;
  return has_effects || hlo::IsCollective(i.op()) || i.op() == Op::kCustomCall ||
         i.shape().IsToken() || !IsStaticallyShaped(i);
}

// What a computation and those it calls do, calls in loops counted once; nothing where another
// thread may not.
std::optional<double> OwnWork(const Computation& c) {
  std::unordered_set<const Computation*> seen = {&c};
  std::vector<const Computation*> work = {&c};
  double sum = WorkOfComputation(c);
  while (!work.empty()) {
    const Computation& next = *work.back();
    work.pop_back();
    for (const Instruction* i : next) {
      if (IsBound(*i)) return std::nullopt;
      for (const Computation* inside : i->called_computations()) {
        if (!seen.insert(inside).second) continue;
        work.push_back(inside);
        if (i->op() == Op::kCall) sum += WorkOfComputation(*inside);
      }
    }
  }
  return sum;
}

// Adds a computation and all that it calls.
void AddCalled(const Computation& c, std::unordered_set<const Computation*>& to) {
  std::vector<const Computation*> work = {&c};
  while (!work.empty()) {
    const Computation* next = work.back();
    work.pop_back();
    if (!to.insert(next).second) continue;
    for (const Instruction* i : *next) {
      for (const Computation* inside : i->called_computations()) work.push_back(inside);
    }
  }
}

bool IsWorthAThread(const Computation& c, const PassContext& context) {
  const int64_t wanted = context.options.optimize.async_call_work;
  const double least =
      wanted >= 0 ? static_cast<double>(wanted) : context.target.WorkOfSerialRound();
  return context.target.RunsOnHost() && OwnWork(c).value_or(-1) >= least;
}

bool MayRunBeside(const Instruction& start, const PassContext& context) {
  if (!IsAsyncCall(start) || start.IsRoot() || start.users().size() != 1) return false;
  if (start.users()[0]->op() != Op::kAsyncDone) return false;
  const Computation& callee = *start.attrs<hlo::AsyncAttrs>().calls;
  const bool is_whole = start.operand_count() == std::ssize(callee.parameters()) &&
                        hlo::ShapesMatch(callee.root()->shape(), start.shape().tuple_element(1));
  return is_whole && IsWorthAThread(callee, context);
}

}  // namespace

std::unordered_set<const Instruction*> FindAsyncCalls(hlo::Module& module,
                                                      const PassContext& context) {
  std::unordered_set<const Instruction*> found;
  if (!HasOp(module, Op::kAsyncStart)) return found;
  for (const auto& computation : module.computations()) {
    for (Instruction* i : computation->Snapshot()) {
      const bool is_idle = i->op() == Op::kAsyncUpdate && i->operand_count() == 1 &&
                           i->operand(0)->op() == Op::kAsyncStart &&
                           hlo::ShapesMatch(i->operand(0)->shape(), i->shape());
      if (is_idle && !HasControlDependencies(*i)) ReplaceWithValue(i, i->operand(0));
    }
    for (const Instruction* i : *computation) {
      if (i->op() != Op::kAsyncStart || !MayRunBeside(*i, context)) continue;
      VLOG("pass", 2) << i->name() << ": runs beside what follows";
      found.insert(i);
    }
  }
  return found;
}

Result<bool> MakeCallsAsync(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled) return false;
  bool changed = false;
  std::unordered_set<const Computation*> away;  // what is asynchronous already
  for (Computation* c : ExecutedComputations(module)) {
    if (away.contains(c)) continue;
    for (Instruction* i : c->Snapshot()) {
      if (i->op() != Op::kCall || i->attrs<hlo::CallAttrs>().to_apply == nullptr) continue;
      const std::string* type = i->FrontendAttributeValue(kComputeType);
      if (type == nullptr || *type != kHost) continue;
      const Computation& callee = *i->attrs<hlo::CallAttrs>().to_apply;
      if (!IsWorthAThread(callee, context)) continue;
      AddCalled(callee, away);
      Instruction* start = TRY(AddAsyncPair(i));
      for (Instruction* half : {start, start->users()[0]}) {
        half->mutable_attrs<hlo::AsyncAttrs>().async_execution_thread = kHost;
      }
      changed = true;
    }
  }
  return changed;
}

}  // namespace weft::compiler
