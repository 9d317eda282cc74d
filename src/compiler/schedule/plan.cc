#include "compiler/schedule/plan.h"

#include <algorithm>

#include "base/log.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/pipeline.h"
#include "compiler/schedule/certificate.h"
#include "compiler/schedule/prepare.h"
#include "hlo/clone.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Instruction;
using hlo::Op;

constexpr std::string_view kToDevices =
    "propagate-shardings,partition,inline-calls,separate-computations,reassociate-all-reduces,"
    "eliminate-dead-code";

// What is done to loops before they are optimised.
struct LoopPlan {
  std::string_view name;
  bool unrolls = false;
  std::string_view passes;
  std::string_view only_if = "";  // this pass finds something to do
};
constexpr LoopPlan kLoopPlans[] = {
    {"unrolled", true, ""},
    {"pipelined", false, "simplify-while,sink-all-reduces,pipeline-collectives"},
    {"kept", false, ""},
    {"sunk", false,
     "simplify-while,sink-all-reduces,sink-collectives,simplify-while,pipeline-collectives",
     "sink-collectives"},
};

bool HasLoopsWithCollectives(const hlo::Module& module) {
  for (const auto& c : module.computations()) {
    for (const Instruction* i : *c) {
      if (i->op() == Op::kWhile && HoldsCollectives(*i->attrs<hlo::WhileAttrs>().body)) return true;
    }
  }
  return false;
}

Status Run(hlo::Module& module, std::string_view passes, const program::TargetInfo& device) {
  if (passes.empty()) return {};
  TRY(RunPasses(module, TRY(FindPasses(passes)), CompileOptions(), {}, device));
  return {};
}

Result<bool> Applies(const hlo::Module& partitioned, const LoopPlan& plan,
                     const program::TargetInfo& device) {
  if (plan.only_if.empty()) return true;
  std::unique_ptr<hlo::Module> module = hlo::CloneModule(partitioned);
  std::vector<PassRun> runs =
      TRY(RunPasses(*module, TRY(FindPasses(plan.passes)), CompileOptions(), {}, device));
  return std::any_of(runs.begin(), runs.end(),
                     [&](const PassRun& run) { return run.pass == plan.only_if && run.changed; });
}

// What else is tried once it is known what is done to loops.
struct Variation {
  bool combines = true;             // collectives
  std::string_view decompose = "";  // the pass that takes collectives apart
};

Result<std::unique_ptr<hlo::Module>> Optimize(const hlo::Module& partitioned, const LoopPlan& plan,
                                              const program::TargetInfo& device, int64_t unroll,
                                              const Variation& variation = {}) {
  std::unique_ptr<hlo::Module> module = hlo::CloneModule(partitioned);
  if (plan.unrolls) TRY(UnrollLoops(*module, unroll));
  TRY(Run(*module, plan.passes, device));
  if (!variation.decompose.empty()) {
    // Rows that unrolled loops read are what was written before they are taken apart.
    TRY(Run(*module, StrCat("simplify,eliminate-dead-code,", variation.decompose), device));
  }
  CompileOptions options;
  options.collectives.async = false;  // that is the scheduler's part
  if (!variation.combines) options.pipeline.disable = {"combine-collectives"};
  TRY(RunPasses(*module, TRY(NativePipeline()), options, {}, device));
  return module;
}

struct Candidate {
  Plan plan;
  int64_t peak = 0;
  double excess = 0;  // seconds above the lower bound
};

bool IsBetter(const Candidate& a, const Candidate& b, int64_t limit) {
  bool a_fits = limit == 0 || a.peak <= limit, b_fits = limit == 0 || b.peak <= limit;
  if (a_fits != b_fits) return a_fits;
  return a_fits ? a.plan.length < b.plan.length : a.peak < b.peak;
}

}  // namespace

bool NeedsPartition(const hlo::Module& module) {
  if (module.config().num_partitions < 2 || module.config().is_scheduled) return false;
  bool has_shardings = false, has_collectives = false, is_manual = false;
  for (const auto& c : module.computations()) {
    for (const Instruction* i : *c) {
      has_shardings |= i->sharding() != nullptr;
      has_collectives |= IsCollective(i->op());
      is_manual |= i->op() == Op::kCustomCall &&
                   i->attrs<hlo::CustomCallAttrs>().custom_call_target == "SPMDFullToShardShape";
    }
  }
  return has_shardings && (is_manual || !has_collectives);
}

Result<Plan> MakePlan(std::unique_ptr<hlo::Module> module, const Machine& machine,
                      const Profile* profile, const PlanOptions& options) {
  const program::TargetInfo& device = machine.device;
  TRY(Run(*module, kToDevices, device));
  SchedulerOptions scheduler = options.scheduler;
  if (options.memory_ratio > 0) {
    std::unique_ptr<hlo::Module> kept = TRY(Optimize(*module, kLoopPlans[2], device, 0));
    Certificate before = TRY(Certify(*kept, machine, profile));
    scheduler.memory_limit =
        static_cast<int64_t>(options.memory_ratio * static_cast<double>(before.peak));
  }
  const bool has_loops = HasLoopsWithCollectives(*module);
  Candidate best;
  const LoopPlan* chosen = nullptr;
  auto consider = [&](const LoopPlan& plan, const Variation& variation) -> Status {
    std::unique_ptr<hlo::Module> own =
        TRY(Optimize(*module, plan, device, scheduler.unroll, variation));
    SchedulerOptions how = scheduler;
    if (!plan.unrolls) how.unroll = 0;
    TRY(ScheduleModule(*own, machine, profile, how));
    Certificate made = TRY(Certify(*own, machine, profile));
    VLOG("schedule", 1) << "loops " << plan.name
                        << (variation.combines ? "" : ", collectives apart")
                        << (variation.decompose.empty() ? "" : ", ") << variation.decompose << ": "
                        << made.line.length * 1e3 << " ms, " << made.peak << " bytes";
    Candidate candidate{{std::move(own), plan.name, made.line.length, scheduler.memory_limit},
                        made.peak,
                        made.line.length - made.bounds.best};
    if (chosen == nullptr || IsBetter(candidate, best, scheduler.memory_limit)) {
      best = std::move(candidate);
      chosen = &plan;
    }
    return {};
  };
  for (const LoopPlan& plan : kLoopPlans) {
    if (!has_loops && plan.name != "kept") continue;
    if (plan.unrolls && scheduler.unroll == 0) continue;
    if (!TRY(Applies(*module, plan, device))) continue;
    TRY(consider(plan, {}));
  }
  // Combined ones save latency and hold more memory at once.
  TRY(consider(*chosen, {.combines = false}));
  // Transfers that no order of these ops hides are taken apart.
  for (std::string_view pass : {"split-batch", "quarter-batch", "window-dots"}) {
    if (best.excess <= machine.latency) break;
    TRY(consider(*chosen, {.decompose = pass}));
  }
  return std::move(best.plan);
}

Result<std::unique_ptr<hlo::Module>> ScheduleOps(std::unique_ptr<hlo::Module> module,
                                                 const Machine& machine, const Profile* profile,
                                                 const SchedulerOptions& options) {
  const bool may_keep_loops =
      options.memory_limit > 0 && options.unroll > 0 && HasLoopsWithCollectives(*module);
  std::unique_ptr<hlo::Module> kept = may_keep_loops ? hlo::CloneModule(*module) : nullptr;
  TRY(ScheduleModule(*module, machine, profile, options));
  if (kept == nullptr) return module;
  const Certificate unrolled = TRY(Certify(*module, machine, profile));
  if (unrolled.peak <= options.memory_limit) return module;
  SchedulerOptions how = options;
  how.unroll = 0;
  TRY(ScheduleModule(*kept, machine, profile, how));
  const Certificate made = TRY(Certify(*kept, machine, profile));
  VLOG("schedule", 1) << "loops unrolled take " << unrolled.peak << " bytes of "
                      << options.memory_limit << ", kept " << made.peak;
  return made.peak < unrolled.peak ? std::move(kept) : std::move(module);
}

}  // namespace weft::compiler::schedule
