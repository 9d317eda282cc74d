// What the events of a program's steps say.
#pragma once

#include <vector>

#include "base/trace.h"
#include "cpu/native/sequence.h"
#include "cpu/plan.h"

namespace weft::cpu {

struct StepTraces {
  std::vector<std::vector<const trace::What*>> sequences;  // one for each step of each
  std::vector<const trace::What*> regions;
};
StepTraces DescribeSteps(const program::Program& program, const Plan& plan,
                         const std::vector<std::vector<SequenceStep>>& sequences);

}  // namespace weft::cpu
