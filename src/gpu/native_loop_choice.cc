// Which loops are one kernel: those whose steps are sooner done in one block.
#include <algorithm>

#include "gpu/native_loop.h"
#include "program/cost.h"

namespace weft::gpu {
namespace {

using program::Kernel;
using program::Program;
using program::Step;

constexpr size_t kLoopCode = 3000;         // instructions of all kernels in a loop
constexpr int64_t kLoopArrayBytes = 8192;  // of one kernel
constexpr int64_t kLoopCopyBytes = 1 << 18;

// Seconds that steps take in one block, and with a launch each, by the whole machine.
struct LoopCost {
  double in_block = 0, launched = 0;
};

LoopCost CostOf(const Program& program, const std::vector<Step>& steps,
                const program::TargetInfo& target);

LoopCost CostOf(const Program& program, const Step& step, const program::TargetInfo& target) {
  // Of a core's instructions, what the few warps of one block get done; as much for each thread.
  constexpr double kBusy = 0.25;
  constexpr double kHostTurns =
      5;  // launches that reading a predicate on the host takes as long as
  constexpr double kBytesAtOnce = 16, kUnknownTrips = 16;
  double of_core = target.f32_flops / 2 / static_cast<double>(target.cores);
  double of_thread = kBusy * of_core / static_cast<double>(kLoopThreads);
  auto spread = [&](double work, double iterations, double most) {
    return work / (of_thread * std::clamp(iterations, 1.0, most));
  };
  double machine = static_cast<double>(target.cores * target.threads_per_core);
  LoopCost cost;
  if (auto* launch = std::get_if<program::KernelStep>(&step.op)) {
    const Kernel& kernel = program.kernels[launch->kernel];
    double work = static_cast<double>(WorkOf(kernel));
    double threads = static_cast<double>(Extents(kernel).threads);
    double all = static_cast<double>(GridSize(kernel)) * threads;
    // Iterations of a grid with thread loops follow each other in one block.
    bool by_blocks = HasThreadLoops(kernel);
    cost.in_block = spread(work, by_blocks ? threads : all, static_cast<double>(kLoopThreads));
    cost.launched = target.launch_seconds + spread(work, all, machine);
  } else if (auto* loop = std::get_if<program::WhileStep>(&step.op)) {
    double trips = loop->trip_count ? static_cast<double>(*loop->trip_count) : kUnknownTrips;
    LoopCost condition = CostOf(program, loop->condition, target);
    LoopCost body = CostOf(program, loop->body, target);
    cost.in_block = trips * (condition.in_block + body.in_block);
    cost.launched =
        trips * (condition.launched + body.launched + kHostTurns * target.launch_seconds);
  } else if (auto* branches = std::get_if<program::ConditionalStep>(&step.op)) {
    for (const auto& branch : branches->branches) {
      LoopCost one = CostOf(program, branch, target);
      cost.in_block = std::max(cost.in_block, one.in_block);
      cost.launched = std::max(cost.launched, one.launched);
    }
    cost.launched += kHostTurns * target.launch_seconds;
  } else if (!step.uses.empty()) {
    double pieces = static_cast<double>(step.uses[0].slice.size) / kBytesAtOnce;
    cost.in_block = spread(pieces, pieces, static_cast<double>(kLoopThreads));
    cost.launched = target.launch_seconds + spread(pieces, pieces, machine);
  }
  return cost;
}

LoopCost CostOf(const Program& program, const std::vector<Step>& steps,
                const program::TargetInfo& target) {
  LoopCost cost;
  for (const Step& step : steps) {
    LoopCost one = CostOf(program, step, target);
    cost.in_block += one.in_block;
    cost.launched += one.launched;
  }
  return cost;
}

}  // namespace

bool CanBeNativeLoop(const Program& program, const Step& loop, const program::TargetInfo& target) {
  const auto& op = std::get<program::WhileStep>(loop.op);
  size_t code = 0;
  bool fits = true;
  auto check = [&](const Step& step) {
    if (auto* launch = std::get_if<program::KernelStep>(&step.op)) {
      const Kernel& kernel = program.kernels[launch->kernel];
      code += kernel.code.size();
      fits = fits && SharedArrayBytes(kernel) <= kLoopArrayBytes;
      return;
    }
    if (std::holds_alternative<program::CopyStep>(step.op) ||
        std::holds_alternative<program::FillStep>(step.op)) {
      fits = fits && step.uses[0].slice.size <= kLoopCopyBytes;
      return;
    }
    fits = fits && (std::holds_alternative<program::WaitStep>(step.op) ||
                    std::holds_alternative<program::WhileStep>(step.op) ||
                    std::holds_alternative<program::ConditionalStep>(step.op));
  };
  ForEachStep(op.condition, check);
  ForEachStep(op.body, check);
  if (!fits || code > kLoopCode) return false;
  LoopCost cost = CostOf(program, loop, target);
  return cost.in_block <= cost.launched;
}

}  // namespace weft::gpu
