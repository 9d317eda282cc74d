// Native regions on a grid of threads: which loops are one kernel, run by one block.
#include "program/cost.h"
#include "program/regions.h"
#include "program/target_gpu.h"

namespace weft::program {
namespace {

// Its steps can run in one block, which is sooner done than with a launch each by all cores.
bool IsBlockRegion(const Program& program, const Step& loop, const TargetInfo& target) {
  const auto& op = std::get<WhileStep>(loop.op);
  size_t code = 0;
  bool fits = true;
  auto check = [&](const Step& step) {
    if (auto* launch = std::get_if<KernelStep>(&step.op)) {
      const Kernel& kernel = program.kernels[launch->kernel];
      code += kernel.code.size();
      fits = fits && SharedArrayBytes(kernel) <= GpuFigures::kLoopArrayBytes;
    } else if (std::holds_alternative<CopyStep>(step.op) ||
               std::holds_alternative<FillStep>(step.op)) {
      fits = fits && step.uses[0].slice.size <= GpuFigures::kLoopCopyBytes;
    } else {
      fits = fits && RunsInRegion(step);
    }
  };
  ForEachStep(op.condition, check);
  ForEachStep(op.body, check);
  if (!fits || code > GpuFigures::kLoopCode) return false;
  GridCost cost = CostOnGrid(program, loop, target);
  return cost.in_block <= cost.launched;
}

void FindBlockRegions(const Program& program, std::vector<Step>& steps, const TargetInfo& target) {
  for (Step& step : steps) {
    if (auto* loop = std::get_if<WhileStep>(&step.op)) {
      loop->region.reset();
      if (IsBlockRegion(program, step, target)) {
        loop->region.emplace();
        continue;
      }
    }
    ForEachList(step, [&](auto& list) { FindBlockRegions(program, list, target); });
  }
}

}  // namespace

void ChooseRegions(Program& program, const TargetInfo& target) {
  if (target.RunsOnHost()) {
    return ChooseRegions(program, RegionLimits{.latency = target.latency});
  }
  FindBlockRegions(program, program.steps, target);
}

}  // namespace weft::program
