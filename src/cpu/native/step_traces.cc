#include "cpu/native/step_traces.h"

#include "runtime/step_trace.h"

namespace weft::cpu {

StepTraces DescribeSteps(const program::Program& program, const Plan& plan,
                         const std::vector<std::vector<SequenceStep>>& sequences) {
  StepTraces traces;
  for (const std::vector<SequenceStep>& sequence : sequences) {
    std::vector<const trace::What*>& whats = traces.sequences.emplace_back();
    for (const SequenceStep& step : sequence) {
      whats.push_back(trace::Intern(runtime::DescribeStep(program, *step.step)));
    }
  }
  for (const Region& region : plan.regions) {
    traces.regions.push_back(trace::Intern(runtime::DescribeStep(program, *region.loop)));
  }
  return traces;
}

}  // namespace weft::cpu
