// From a program with shardings to a schedule: partitioned, optimised for the target's devices, and
// of several ways to treat its loops the one that is shortest on the model.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "compiler/schedule/scheduler.h"
#include "hlo/module.h"

namespace weft::compiler::schedule {

// The module is of all devices: shardings say how they share it, and nothing has been made of them.
bool NeedsPartition(const hlo::Module& module);

struct PlanOptions {
  SchedulerOptions scheduler;
  double memory_ratio = 0;  // 0: scheduler.memory_limit holds; else times what the order of least
                            // memory takes, loops as they were
};

struct Plan {
  std::unique_ptr<hlo::Module> module;  // scheduled
  std::string_view loops;               // how they were treated: "unrolled", "pipelined", "kept"
  double length = 0;                    // seconds
  int64_t memory_limit = 0;             // bytes that were allowed; 0: any number
};

// Runs propagate-shardings and partition, then for each way of treating loops the passes of native
// code for the target's kind of device and the scheduler. The shortest schedule that keeps to the
// memory limit; where none does, the one with the least peak.
Result<Plan> MakePlan(std::unique_ptr<hlo::Module> module, const Machine& machine,
                      const Profile* profile, const PlanOptions& options);

// Schedules a module of one device, its loops unrolled; kept where they take more memory than the
// limit otherwise.
Result<std::unique_ptr<hlo::Module>> ScheduleOps(std::unique_ptr<hlo::Module> module,
                                                 const Machine& machine, const Profile* profile,
                                                 const SchedulerOptions& options);

}  // namespace weft::compiler::schedule
