// Checks that an order of a computation's instructions is a schedule. Shares nothing with what
// makes schedules.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "compiler/schedule/resources.h"
#include "hlo/module.h"

namespace weft::compiler::schedule {

struct ScheduleRules {
  int64_t in_flight = 0;    // collectives between start and done at once; 0: any number
  ResourceLimits limits{};  // and of each kind, loops and branches included
};

// Every instruction exactly once; operands and control predecessors first; each async start has one
// done, which comes later; not more in flight than allowed; nothing overwrites a buffer that is
// read in flight or read later. O(V + E).
Status VerifySchedule(const hlo::Computation& computation,
                      std::span<const hlo::Instruction* const> order,
                      const ScheduleRules& rules = {});

// The lists of all computations that run as instructions do.
Status VerifySchedules(const hlo::Module& module, const ScheduleRules& rules = {});

}  // namespace weft::compiler::schedule
