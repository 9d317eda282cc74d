#include "program/cost.h"

#include <algorithm>
#include <bit>

#include "program/target.h"
#include "program/target_facts.h"

namespace weft::program {

int64_t WorkOf(const Kernel& kernel) {
  constexpr double kLimit = 0x1p50;
  double work = 0;
  std::vector<double> times = {1};
  for (const Instr& instr : kernel.code) {
    work += times.back();
    if (instr.op == Op::kEnd) times.pop_back();
    if (instr.op != Op::kLoop && instr.op != Op::kIf) continue;
    double trips = 1;
    if (instr.op == Op::kLoop) trips = static_cast<double>(TripCount(kernel, instr).value_or(16));
    times.push_back(times.back() * trips);
  }
  return static_cast<int64_t>(std::min(work, kLimit));
}

size_t HotCode(const Kernel& kernel) {
  size_t always = 0, sometimes = 0, ifs = 0;
  std::vector<bool> open;
  for (const Instr& instr : kernel.code) {
    if (instr.op == Op::kIf || instr.op == Op::kLoop) {
      open.push_back(instr.op == Op::kIf);
      ifs += open.back();
    } else if (instr.op == Op::kEnd) {
      ifs -= open.back();
      open.pop_back();
    }
    ++(ifs > 0 ? sometimes : always);
  }
  return always + sometimes / 4;
}

int64_t ArrayBytes(const Kernel& kernel) {
  int64_t bytes = 0, threads = Extents(kernel).threads;
  for (size_t i = static_cast<size_t>(kernel.num_params); i < kernel.memories.size(); ++i) {
    const Memory& m = kernel.memories[i];
    bytes += m.count * ByteWidth(m.dtype) * (m.per_thread ? threads : 1);
  }
  return bytes;
}

int64_t GridSize(const Kernel& kernel) {
  int64_t size = 1;
  for (int64_t n : Extents(kernel).grid) size *= n;
  return size;
}

int64_t LatencyOf(const Kernel& kernel, const Instr& instr, const OpLatency& latency) {
  if (instr.results.empty() || !IsFloat(kernel.type(instr.results[0]).dtype)) return 1;
  switch (instr.op) {
    case Op::kDiv:
    case Op::kSqrt: return latency.division;
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kFma: return latency.arithmetic;
    default: return latency.other;
  }
}

namespace {

// Vector operations in a cycle: 512 bits of them, but two at least.
double VectorUnits(const TargetInfo& target) {
  return static_cast<double>(std::clamp<int64_t>(512 / target.vector_bits, 2, 4));
}

// Cycles of a vector that is loaded or stored, by where it lies; two at once from the first level.
double CyclesOfAccess(int64_t bytes, const TargetInfo& target) {
  if (bytes <= target.l1_bytes) return 0.5;
  return bytes <= target.l2_bytes ? 1 : 4;
}

}  // namespace

InterchangeCost CostOfInterchange(const Rounds& rounds, const TargetInfo& target) {
  InterchangeCost cost;
  double computing = rounds.operations / VectorUnits(target);
  // An eighth of the registers is for what is computed on the way: one vector after the other.
  int64_t room =
      (target.vector_registers - target.vector_registers / 8) / std::max<int64_t>(rounds.kept, 1);
  int64_t most = std::clamp<int64_t>(room, 1, 2 * target.VectorsAtOnce());
  while (2 * cost.vectors <= most &&
         rounds.latency > computing * static_cast<double>(cost.vectors)) {
    cost.vectors *= 2;
  }
  cost.inside = std::max(computing, rounds.latency / static_cast<double>(cost.vectors));
  cost.inside /= std::clamp<double>(rounds.pieces, 1, static_cast<double>(target.cores));
  cost.outermost = std::max(
      computing, static_cast<double>(rounds.touched) * CyclesOfAccess(rounds.bytes, target));
  return cost;
}

size_t CodeOf(const Program& program, const WhileStep& loop, size_t other) {
  size_t code = 0;
  auto count = [&](const Step& step) {
    auto* launch = std::get_if<KernelStep>(&step.op);
    bool copy = std::holds_alternative<CopyStep>(step.op) && step.uses[0].slice.size <= 64;
    code += launch ? program.kernels[launch->kernel].code.size() : copy ? 1 : other;
  };
  ForEachStep(loop.condition, count);
  ForEachStep(loop.body, count);
  return code;
}

int LoopDepth(const std::vector<Step>& steps) {
  int most = 0;
  for (const Step& step : steps) {
    const int own = std::holds_alternative<WhileStep>(step.op) ? 1 : 0;
    ForEachList(step, [&](const auto& list) { most = std::max(most, own + LoopDepth(list)); });
  }
  return most;
}

namespace {

// Instructions of steps between two polls, at most.
double WorkBetweenPolls(const Program& program, const std::vector<Step>& steps) {
  constexpr double kBytesAtOnce = TargetInfo::kNarrowVectorBytes;  // of copies and fills
  double work = 0;
  for (const Step& step : steps) {
    if (auto* launch = std::get_if<KernelStep>(&step.op)) {
      work += static_cast<double>(WorkOf(program.kernels[launch->kernel]));
    } else if (auto* loop = std::get_if<WhileStep>(&step.op)) {
      CancelPolling inner = CancelPollingOf(program, *loop);
      int64_t trips = loop->trip_count.value_or(CancelPolling::kMostIterations);
      work += inner.of_iteration *
              static_cast<double>(inner.poll ? std::min(trips, inner.every) : trips);
    } else if (auto* branches = std::get_if<ConditionalStep>(&step.op)) {
      double most = 0;
      for (const auto& branch : branches->branches) {
        most = std::max(most, WorkBetweenPolls(program, branch));
      }
      work += most;
    } else if (auto* list = std::get_if<ListStep>(&step.op)) {
      work += WorkBetweenPolls(program, list->steps);
    } else if (!step.uses.empty()) {
      work += static_cast<double>(step.uses[0].slice.size) / kBytesAtOnce;
    }
  }
  return work;
}

}  // namespace

CancelPolling CancelPollingOf(const Program& program, const WhileStep& loop) {
  constexpr double kShortWork = TargetFacts::kWorkPerSecond / 60;  // instructions; some 20 ms
  CancelPolling polling;
  polling.of_iteration +=
      WorkBetweenPolls(program, loop.condition) + WorkBetweenPolls(program, loop.body);
  int64_t trips = loop.trip_count.value_or(CancelPolling::kShortLoop);
  polling.poll = trips >= CancelPolling::kShortLoop ||
                 static_cast<double>(trips) * polling.of_iteration > kShortWork;
  double most = static_cast<double>(CancelPolling::kMostIterations);
  double iterations = std::clamp<double>(kShortWork / polling.of_iteration, 1, most);
  polling.every = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(iterations)));
  return polling;
}

}  // namespace weft::program
