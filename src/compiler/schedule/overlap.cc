// The passes overlap-collectives and unroll-collective-loops: what `weft schedule` does, for
// programs that run here.
#include "compiler/schedule/overlap.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "compiler/analysis/collectives.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/async_pairs.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/passes/effects.h"
#include "compiler/schedule/prepare.h"
#include "compiler/schedule/scheduler.h"
#include "compiler/schedule/verify_schedule.h"
#include "hlo/call_graph.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Computation;
using hlo::Instruction;

namespace schedule {
namespace {

// Programs are compiled while somebody waits: what `weft schedule` spends where there is a memory
// limit, half a second for 1,500 jobs. With a tenth of it, halves of a batch came out 8 % longer.
constexpr SearchOptions kQuickSearch = {
    .blocks = 1'000'000, .pairs = 20'000'000, .states = 4'000, .window_states = 20'000};
// Of a module: a few seconds of compile time.
constexpr int64_t kUnrolledInstructions = program::WorkBounds::kVisits;
constexpr double kMemoryGrowth = 1.25;  // of a computation's peak, and two transfers' results

}  // namespace

Machine MachineOf(const program::TargetInfo& target, const CollectiveOptions& options,
                  int64_t devices) {
  const auto share = static_cast<double>(devices);
  program::TargetInfo device = target;
  device.bytes_per_second /= share;
  device.f32_flops /= share;
  device.bf16_matrix_flops /= share;
  device.f32_flops *= target.VectorProductShare();
  // Devices that share a core take turns.
  device.launch_seconds *= std::max(share / static_cast<double>(target.cores), 1.0);
  Machine machine = MachineOf(device);
  machine.node_devices = devices;
  machine.forwards_reshapes = true;  // buffers do (compiler/buffers)
  machine.packs_operands = true;
  machine.link = static_cast<double>(options.link) * 1e6 / 8;
  return machine;
}

namespace {

// Channels that several instructions name are met by all of them in one way: these stay as they
// are.
std::map<int64_t, int64_t> ChannelUses(const hlo::Module& module) {
  std::map<int64_t, int64_t> uses;
  for (const auto& c : module.computations()) {
    for (const Instruction* i : *c) {
      const hlo::CollectiveAttrs* attrs = i->attrs().Collective();
      if (attrs != nullptr && attrs->channel_id) ++uses[*attrs->channel_id];
    }
  }
  return uses;
}

Result<bool> MakeLongOnesAsync(hlo::Module& module, Costs& costs) {
  const std::map<int64_t, int64_t> uses = ChannelUses(module);
  bool changed = false;
  for (Computation* c : RunOrder(module)) {
    for (Instruction* i : c->Snapshot()) {
      if (!IsCollective(i->op()) || HasTrait(i->op(), hlo::kAsyncStart) || !IsFlatCollective(*i)) {
        continue;
      }
      const std::optional<int64_t> channel = i->attrs().Collective()->channel_id;
      if (channel && uses.at(*channel) > 1) continue;
      if (costs.Of(*i).seconds < 2 * costs.machine().latency) continue;
      TRY(AddAsyncPair(i));
      changed = true;
    }
  }
  return changed;
}

bool HasStarts(const Computation& c) {
  for (const Instruction* i : c) {
    if (HasTrait(i->op(), hlo::kAsyncStart)) return true;
  }
  return false;
}

}  // namespace

int64_t MemoryLimit(const Problem& problem) {
  std::vector<int32_t> listed(problem.size());
  for (size_t n = 0; n < listed.size(); ++n) listed[n] = static_cast<int32_t>(n);
  int64_t most = 0;
  for (const Job& job : problem.jobs) {
    int64_t bytes = 0;
    for (int32_t b : job.makes) bytes += problem.bytes[static_cast<size_t>(b)];
    if (job.is_async) most = std::max(most, bytes);
  }
  const auto peak = static_cast<double>(Evaluate(problem, listed).peak);
  return static_cast<int64_t>(kMemoryGrowth * peak) + 2 * most;
}

namespace {

void Explain(const Computation& c, const Problem& problem, const SearchOptions& search,
             const Order& best) {
  double compute = 0, wire = 0;
  for (const Job& job : problem.jobs) {
    (job.stream == Stream::kCompute ? compute : wire) += job.seconds;
  }
  VLOG("schedule", 1) << c.name() << ": " << problem.size() << " jobs, " << best.value.length * 1e3
                      << " ms by " << best.rule << ", bound " << LowerBound(problem) * 1e3
                      << " ms, compute " << compute * 1e3 << " ms, wire " << wire * 1e3 << " ms, "
                      << best.value.peak << " bytes of " << search.memory_limit;
}

}  // namespace
}  // namespace schedule

Result<bool> UnrollCollectiveLoops(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  return TRY(schedule::UnrollLoops(module, schedule::kUnrolledInstructions)) > 0;
}

Result<bool> OverlapCollectives(hlo::Module& module, const PassContext& context) {
  using namespace schedule;
  const CollectiveOptions& options = context.options.collectives;
  const int64_t devices = DeviceCount(module);
  // Without a link a transfer is a copy by the cores that compute: it hides behind nothing, and the
  // buffers in flight are memory for nothing (8 to 31 % more, no faster).
  if (!options.async || options.link <= 0) return false;
  if (devices < 2 || !context.target.RunsOnHost()) return false;
  const Machine machine = MachineOf(context.target, options, devices);
  Costs of_collectives(module, machine);
  if (!TRY(MakeLongOnesAsync(module, of_collectives))) return false;
  // What is rematerialised need not wait for the gradient that stands in the same barrier.
  TRY(SplitTuples(module));
  Costs costs(module, machine);
  Lengths lengths;
  for (Computation* c : RunOrder(module)) {
    Problem problem = MakeProblem(*c, costs, lengths);
    if (!HasStarts(*c)) {
      std::vector<int32_t> listed(problem.size());
      for (size_t n = 0; n < listed.size(); ++n) listed[n] = static_cast<int32_t>(n);
      lengths[c] = Evaluate(problem, listed).length;
      continue;
    }
    SearchOptions search = kQuickSearch;
    search.memory_limit = MemoryLimit(problem);
    const Order best = FindOrder(problem, search);
    Explain(*c, problem, search, best);
    WriteOrder(*c, problem, best);
    lengths[c] = best.value.length;
  }
  TRY(VerifySchedules(module));
  return true;
}

}  // namespace weft::compiler
