// Critical paths of recurrences: the depth of a value is the latency, in cycles, from what the
// iteration before left to the value. What is off the critical path may take its time.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "program/target.h"

namespace weft::program {

// By value of the kernel. `memories`: depths of what they hold before, and then after it.
std::vector<int64_t> ValueDepths(const Kernel& kernel, std::vector<int64_t>& memories,
                                 const OpLatency& latency);

// Notes in the launches of native regions how deep what they use is (Use::depth), in the innermost
// loop around each.
void NoteRecurrenceDepths(Program& program, const OpLatency& latency);

}  // namespace weft::program
