// Orders the instructions of a module so that collectives are hidden behind compute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "compiler/schedule/costs.h"
#include "compiler/schedule/groups.h"
#include "compiler/schedule/search.h"
#include "hlo/module.h"

namespace weft::compiler::schedule {

struct SchedulerOptions {
  Metric metric = Metric::kQueues;
  int64_t memory_limit = 0;            // bytes of the whole program; 0: none
  int64_t unroll = 20'000;             // instructions that unrolling may make of a module; 0: none
  std::vector<std::string> keep_sync;  // collectives that stay synchronous, or "all"
  GroupOptions groups;
  SearchOptions search;
};

struct ScheduledComputation {
  std::string name, rule;
  int64_t jobs = 0;
  double length = 0, bound = 0;
  bool is_optimal = false;
};

// Makes collectives async, splits tuples, unrolls loops, then orders every computation that runs,
// callees first, and marks the module scheduled. What comes out is verified.
Result<std::vector<ScheduledComputation>> ScheduleModule(hlo::Module& module,
                                                         const Machine& machine,
                                                         const Profile* profile,
                                                         const SchedulerOptions& options);

// Computations that run, callees before callers.
std::vector<hlo::Computation*> RunOrder(hlo::Module& module);
// Writes the order of jobs into the list of the computation.
void WriteOrder(hlo::Computation& computation, const Problem& problem, const Order& order);

}  // namespace weft::compiler::schedule
