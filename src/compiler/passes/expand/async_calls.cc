#include "compiler/passes/expand/async_calls.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/log.h"
#include "compiler/analysis/in_place.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/analysis/work.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/async_pairs.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/ops/called.h"
#include "program/target_facts.h"
#include "program/target_gpu.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// What JAX's compute_on marks calls with: those for the host, and those for a stream of a GPU.
constexpr std::string_view kComputeType = "_xla_compute_type", kHost = "host";
constexpr std::string_view kStream = "_xla_stream_annotation", kParallel = "parallel";

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

// Whether it is at most part of another op's kernel.
bool IsMadeElsewhere(Op op) {
  return hlo::IsElementwise(op) || op == Op::kBroadcast || op == Op::kIota || op == Op::kReshape ||
         op == Op::kSlice || op == Op::kDynamicSlice || op == Op::kPad;
}

double SecondsOfMoving(const Instruction& instruction, const program::TargetInfo& target) {
  int64_t bytes = instruction.shape().ByteSize();
  for (const Instruction* operand : instruction.operands()) bytes += operand->shape().ByteSize();
  return static_cast<double>(bytes) / target.bytes_per_second;
}

double SecondsOnGrid(const Computation& computation, const program::TargetInfo& target);

double SecondsOfKernels(const Instruction& i, const program::TargetInfo& target) {
  switch (i.op()) {
    case Op::kWhile: {
      const auto& attrs = i.attrs<hlo::WhileAttrs>();
      const std::optional<int64_t> known = TripCount(i);
      const double trips = known ? static_cast<double>(*known) : kLikelyTrips;
      return trips * (SecondsOnGrid(*attrs.body, target) + SecondsOnGrid(*attrs.condition, target));
    }
    case Op::kConditional: {
      double longest = 0;
      for (const Computation* c : i.called_computations()) {
        longest = std::max(longest, SecondsOnGrid(*c, target));
      }
      return longest;
    }
    case Op::kCall: return SecondsOnGrid(*i.attrs<hlo::CallAttrs>().to_apply, target);
    default: break;
  }
  const double computing = WorkOfInstruction(i) / (target.f32_flops / 2);
  if (IsMadeElsewhere(i.op()) && !i.IsRoot()) return computing;
  return target.launch_seconds + std::max(computing, SecondsOfMoving(i, target));
}

// Of a computation's kernels one after the other: launches, and what takes longer of computing and
// of memory. Elementwise ops are parts of other kernels.
double SecondsOnGrid(const Computation& computation, const program::TargetInfo& target) {
  double seconds = 0;
  for (const Instruction* i : computation) {
    if (IsForwarding(*i) || i->IsParameter() || i->IsConstant()) continue;
    seconds += SecondsOfKernels(*i, target);
  }
  return seconds;
}

// Worth a thread on CPUs, a stream on GPUs.
bool IsWorthAThread(const Computation& c, const PassContext& context) {
  const program::TargetInfo& target = context.target;
  std::optional<double> work = OwnWork(c);
  if (!work) return false;
  double least = target.WorkOfSerialRound();
  if (target.HasThreadGrid()) {
    constexpr double kWork = program::TargetFacts::kWorkPerSecond;
    work = SecondsOnGrid(c, target) * kWork;
    least = program::GpuFigures::kStreamTurns * target.launch_seconds * kWork;
  }
  const int64_t wanted = context.options.optimize.async_call_work;
  return *work >= (wanted >= 0 ? static_cast<double>(wanted) : least);
}

// The thread that a call is marked for; empty: none.
std::string_view ThreadOf(const Instruction& call, const PassContext& context) {
  const std::string* type = call.FrontendAttributeValue(kComputeType);
  if (type != nullptr && *type == kHost) return kHost;
  if (!context.target.HasThreadGrid()) return "";
  return call.FrontendAttributeValue(kStream) == nullptr ? "" : kParallel;
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
      const std::string_view thread = ThreadOf(*i, context);
      if (thread.empty()) continue;
      const Computation& callee = *i->attrs<hlo::CallAttrs>().to_apply;
      if (!IsWorthAThread(callee, context)) continue;
      AddCalled(callee, away);
      Instruction* start = TRY(AddAsyncPair(i));
      for (Instruction* half : {start, start->users()[0]}) {
        half->mutable_attrs<hlo::AsyncAttrs>().async_execution_thread = thread;
      }
      changed = true;
    }
  }
  return changed;
}

}  // namespace weft::compiler
