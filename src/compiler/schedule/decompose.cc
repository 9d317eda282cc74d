// The pass decompose-collectives: whether taking collectives apart pays is asked of the model.
#include "base/log.h"
#include "compiler/analysis/collectives.h"
#include "compiler/passes.h"
#include "compiler/pipeline.h"
#include "compiler/schedule/overlap.h"
#include "compiler/schedule/prepare.h"
#include "compiler/schedule/scheduler.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace schedule {
namespace {

// A few list schedules: enough to tell ways apart.
constexpr SearchOptions kEstimate = {
    .work = 160'000, .moves = 0, .blocks = 0, .pairs = 0, .states = 0, .window_states = 0};

// Seconds of the entry's order on the machine, once it is fused.
Result<double> Estimate(const hlo::Module& from, const PassContext& context,
                        const Machine& machine) {
  std::unique_ptr<hlo::Module> module = hlo::CloneModule(from);
  CompileOptions options = context.options;
  options.collectives.async = false;  // nothing is ordered yet
  options.dump = {};
  TRY(RunPasses(*module, TRY(NativePipeline()), options, {}, context.target));
  TRY(SplitTuples(*module));
  TRY(MakeAsync(*module, {}));
  Costs costs(*module, machine);
  Lengths lengths;
  for (hlo::Computation* c : RunOrder(*module)) {
    const Problem problem = MakeProblem(*c, costs, lengths);
    SearchOptions search = kEstimate;
    search.memory_limit = MemoryLimit(problem);
    lengths[c] = FindOrder(problem, search).value.length;
  }
  return lengths[module->entry()];
}

struct Way {
  std::string_view name;
  Result<bool> (*run)(hlo::Module&, const PassContext&);
};
constexpr Way kWays[] = {
    {"split-batch", SplitBatch}, {"quarter-batch", QuarterBatch}, {"window-dots", WindowDots}};

}  // namespace
}  // namespace schedule

Result<bool> DecomposeCollectives(hlo::Module& module, const PassContext& context) {
  using namespace schedule;
  const CollectiveOptions& options = context.options.collectives;
  const int64_t devices = DeviceCount(module);
  if (!options.async || options.link <= 0 || module.config().is_scheduled) return false;
  if (devices < 2 || !context.target.RunsOnHost()) return false;
  const Machine machine = MachineOf(context.target, options, devices);
  double best = TRY(Estimate(module, context, machine));
  VLOG("schedule", 1) << "collectives as they are: about " << best * 1e3 << " ms";
  const Way* chosen = nullptr;
  for (const Way& way : kWays) {
    std::unique_ptr<hlo::Module> other = hlo::CloneModule(module);
    if (!TRY(way.run(*other, context))) continue;
    const double seconds = TRY(Estimate(*other, context, machine));
    VLOG("schedule", 1) << way.name << ": about " << seconds * 1e3 << " ms";
    if (seconds >= best) continue;
    best = seconds;
    chosen = &way;
  }
  return chosen != nullptr && TRY(chosen->run(module, context));
}

}  // namespace weft::compiler
