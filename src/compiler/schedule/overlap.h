// What programs that run here are ordered for.
#pragma once

#include "compiler/options.h"
#include "compiler/schedule/machine.h"
#include "compiler/schedule/problem.h"
#include "program/target.h"

namespace weft::compiler::schedule {

// One of the devices that share the cores and the memory of this machine.
Machine MachineOf(const program::TargetInfo& target, const CollectiveOptions& options,
                  int64_t devices);

// What an order may take: a quarter more than the list as it stands, and two transfers.
int64_t MemoryLimit(const Problem& problem);

}  // namespace weft::compiler::schedule
