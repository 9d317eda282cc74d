// The cost model of kernels and steps: instructions, bytes and latencies, all of them estimates.
// What decides how a program runs (native regions, polling, critical paths) asks here, so that
// backends agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/kernel.h"
#include "program/program.h"
#include "program/target.h"

namespace weft::program {

// Instructions that one run of the kernel executes; loops of unknown trip count run 16 times.
int64_t WorkOf(const Kernel& kernel);
// Instructions of its code, of which those in an `if` count a fourth: cold code costs little but
// its place.
size_t HotCode(const Kernel& kernel);
// Of its arrays, a copy for each thread where they have one.
int64_t ArrayBytes(const Kernel& kernel);
int64_t GridSize(const Kernel& kernel);  // 1 without a parallel nest

bool HasThreadLoops(const Kernel& kernel);
int64_t SharedArrayBytes(const Kernel& kernel);  // that the threads of a block share

// Cycles from the operands to the result; the throughput of a unit plays no part.
int64_t LatencyOf(const Kernel& kernel, const Instr& instr, const OpLatency& latency);

// Loop interchange of a loop of rounds over arrays: all rounds of a few vectors, then the next.
// Their values stay in registers, but a round waits for the one before: what is computed at once
// has to hide the latency of the recurrence, and to fit the registers.
struct Rounds {
  double operations = 0;  // that a round takes for one vector
  double latency = 0;     // cycles from a round's values to those of the next
  int64_t kept = 0;       // vectors in registers: state, and what all rounds read
  int64_t touched = 0;    // loads and stores of vectors in a round, where rounds are outermost
  int64_t bytes = 0;      // of these arrays
  double pieces = 1;      // threads that have enough to do when all rounds are one piece of work
};
struct InterchangeCost {
  int64_t vectors = 1;               // at once
  double inside = 0, outermost = 0;  // cycles of a round of a vector: rounds innermost, outermost
};
InterchangeCost CostOfInterchange(const Rounds& rounds, const TargetInfo& target);

// Instructions of an iteration of kernels and small copies; other steps count `other` each.
size_t CodeOf(const Program& program, const WhileStep& loop, size_t other);
int LoopDepth(const std::vector<Step>& steps);  // loops within loops

// Seconds that a step takes on a grid of threads: in one block, and with a launch of its own by the
// whole machine (cost_grid.cc).
struct GridCost {
  double in_block = 0, launched = 0;
};
GridCost CostOnGrid(const Program& program, const Step& step, const TargetInfo& target);

// How often a loop polls whether the run is cancelled. Those known to end soon do not; others do
// after some 20 ms of work, and every 1024th iteration at least.
struct CancelPolling {
  static constexpr int64_t kMostIterations = 1024;             // some 20 ms of 20 us each
  static constexpr int64_t kShortLoop = 64 * kMostIterations;  // iterations
  double of_iteration = 1;  // instructions between polls of loops inside
  bool poll = true;
  int64_t every = kMostIterations;  // after how many iterations; a power of two
};
CancelPolling CancelPollingOf(const Program& program, const WhileStep& loop);

}  // namespace weft::program
