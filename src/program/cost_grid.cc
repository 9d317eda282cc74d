// The cost model of steps on a grid of threads.
#include <algorithm>

#include "program/cost.h"
#include "program/target_gpu.h"

namespace weft::program {

bool HasThreadLoops(const Kernel& kernel) {
  return std::any_of(kernel.code.begin(), kernel.code.end(), [](const Instr& i) {
    return i.op == Op::kLoop && i.loop == LoopKind::kThread;
  });
}

int64_t SharedArrayBytes(const Kernel& kernel) {
  if (!HasThreadLoops(kernel)) return 0;
  int64_t bytes = 0;
  std::vector<bool> open;  // blocks; whether they are inside a thread loop
  for (const Instr& instr : kernel.code) {
    bool inside = !open.empty() && open.back();
    if (instr.op == Op::kLoop) open.push_back(inside || instr.loop == LoopKind::kThread);
    if (instr.op == Op::kIf) open.push_back(inside);
    if (instr.op == Op::kEnd) open.pop_back();
    if (instr.op != Op::kArray || inside) continue;
    const Memory& m = kernel.memories[instr.memory];
    if (!m.per_thread) bytes += (m.count * ByteWidth(m.dtype) + 127) / 128 * 128;
  }
  return bytes;
}

namespace {

GridCost CostOnGrid(const Program& program, const std::vector<Step>& steps,
                    const TargetInfo& target);

}  // namespace

GridCost CostOnGrid(const Program& program, const Step& step, const TargetInfo& target) {
  double of_core = target.f32_flops / 2 / static_cast<double>(target.cores);
  double of_thread =
      GpuFigures::kBlockShare * of_core / static_cast<double>(GpuFigures::kLoopThreads);
  auto spread = [&](double work, double iterations, double most) {
    return work / (of_thread * std::clamp(iterations, 1.0, most));
  };
  double machine = static_cast<double>(target.cores * target.threads_per_core);
  GridCost cost;
  if (auto* launch = std::get_if<KernelStep>(&step.op)) {
    const Kernel& kernel = program.kernels[launch->kernel];
    double work = static_cast<double>(WorkOf(kernel));
    double threads = static_cast<double>(Extents(kernel).threads);
    double all = static_cast<double>(GridSize(kernel)) * threads;
    // Iterations of a grid with thread loops follow each other in one block.
    bool by_blocks = HasThreadLoops(kernel);
    cost.in_block =
        spread(work, by_blocks ? threads : all, static_cast<double>(GpuFigures::kLoopThreads));
    cost.launched = target.launch_seconds + spread(work, all, machine);
  } else if (auto* loop = std::get_if<WhileStep>(&step.op)) {
    double trips = static_cast<double>(loop->trip_count.value_or(16));  // as WorkOf has it
    GridCost condition = CostOnGrid(program, loop->condition, target);
    GridCost body = CostOnGrid(program, loop->body, target);
    cost.in_block = trips * (condition.in_block + body.in_block);
    cost.launched = trips * (condition.launched + body.launched +
                             GpuFigures::kHostTurns * target.launch_seconds);
  } else if (auto* branches = std::get_if<ConditionalStep>(&step.op)) {
    for (const auto& branch : branches->branches) {
      GridCost one = CostOnGrid(program, branch, target);
      cost.in_block = std::max(cost.in_block, one.in_block);
      cost.launched = std::max(cost.launched, one.launched);
    }
    cost.launched += GpuFigures::kHostTurns * target.launch_seconds;
  } else if (auto* list = std::get_if<ListStep>(&step.op)) {
    cost = CostOnGrid(program, list->steps, target);
  } else if (!step.uses.empty()) {
    double pieces = static_cast<double>(step.uses[0].slice.size) / GpuFigures::kBytesAtOnce;
    cost.in_block = spread(pieces, pieces, static_cast<double>(GpuFigures::kLoopThreads));
    cost.launched = target.launch_seconds + spread(pieces, pieces, machine);
  }
  return cost;
}

namespace {

GridCost CostOnGrid(const Program& program, const std::vector<Step>& steps,
                    const TargetInfo& target) {
  GridCost cost;
  for (const Step& step : steps) {
    GridCost one = CostOnGrid(program, step, target);
    cost.in_block += one.in_block;
    cost.launched += one.launched;
  }
  return cost;
}

}  // namespace

}  // namespace weft::program
