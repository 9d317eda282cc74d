#include "program/critical_path.h"

#include <algorithm>

#include "program/cost.h"

namespace weft::program {

std::vector<int64_t> ValueDepths(const Kernel& kernel, std::vector<int64_t>& memories,
                                 const OpLatency& latency) {
  memories.resize(kernel.memories.size());
  std::vector<int64_t> depth(kernel.values.size()), stored(kernel.memories.size(), -1);
  for (const Instr& instr : kernel.code) {
    if (instr.op == Op::kStore || instr.op == Op::kAtomic) {
      int64_t& most = stored[static_cast<size_t>(instr.memory)];
      most = std::max(most, depth[static_cast<size_t>(instr.args[1])]);
      continue;
    }
    if (instr.op == Op::kLoad) {
      depth[static_cast<size_t>(instr.results[0])] = memories[static_cast<size_t>(instr.memory)];
      continue;
    }
    // Of a loop: the counter, then what is carried, which begins as what the arguments are.
    bool loop = instr.op == Op::kLoop;
    for (size_t i = loop ? 1 : 0; i < instr.results.size(); ++i) {
      int64_t most = 0;
      if (loop || instr.op == Op::kEnd) {
        most = depth[static_cast<size_t>(instr.args[loop ? i + 2 : i])];
      } else {
        for (ValueId id : instr.args) most = std::max(most, depth[static_cast<size_t>(id)]);
        most += LatencyOf(kernel, instr, latency);
      }
      depth[static_cast<size_t>(instr.results[i])] = most;
    }
  }
  for (size_t m = 0; m < stored.size(); ++m) {
    if (stored[m] < 0) continue;
    bool updates = Reads(kernel.memories[m].access);
    memories[m] = updates ? std::max(memories[m], stored[m]) : stored[m];
  }
  return depth;
}

namespace {

// Of the launches in one loop, with what it carries.
void NoteDepthsIn(const Program& program, WhileStep& loop, const OpLatency& latency) {
  std::vector<int64_t> buffers(program.buffers.size());
  auto at = [&](const Use& use) -> int64_t& {
    return buffers[static_cast<size_t>(Resolve(program, use.slice).buffer)];
  };
  auto walk = [&](Step& step, bool note) {
    if (std::holds_alternative<CopyStep>(step.op)) at(step.uses[1]) = at(step.uses[0]);
    auto* launch = std::get_if<KernelStep>(&step.op);
    if (!launch) return;
    std::vector<int64_t> memories;
    for (Use& use : step.uses) {
      memories.push_back(at(use));
      if (note && Reads(use.access)) use.depth = at(use);
    }
    ValueDepths(program.kernels[launch->kernel], memories, latency);
    for (size_t i = 0; i < step.uses.size(); ++i) {
      if (Writes(step.uses[i].access)) at(step.uses[i]) = memories[i];
    }
  };
  // The second time what an iteration leaves is known.
  for (bool note : {false, true}) {
    ForEachStep(loop.condition, [&](Step& step) { walk(step, note); });
    ForEachStep(loop.body, [&](Step& step) { walk(step, note); });
  }
}

}  // namespace

void NoteRecurrenceDepths(Program& program, const OpLatency& latency) {
  auto note = [&](Step& step) {
    if (auto* loop = std::get_if<WhileStep>(&step.op)) NoteDepthsIn(program, *loop, latency);
  };
  ForEachStep(program.steps, [&](Step& step) {
    auto* loop = std::get_if<WhileStep>(&step.op);
    if (!loop || !loop->region) return;
    // Inner loops come after those that they are in.
    note(step);
    ForEachStep(loop->condition, note);
    ForEachStep(loop->body, note);
  });
}

}  // namespace weft::program
