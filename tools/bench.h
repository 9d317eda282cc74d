// Timed runs of a module: whole, then step by step.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "inspect/report.h"
#include "native.h"
#include "runtime/profile.h"

namespace weft::tools {

struct BenchTimes {
  std::vector<double> milliseconds;  // of whole runs, sorted
  runtime::StepTimes steps;          // refers to the module's program
  double median() const { return milliseconds[milliseconds.size() / 2]; }
};
Result<BenchTimes> TimeRuns(const NativeModule& native, const std::vector<Literal>& arguments,
                            int64_t runs);

// Where runs are enqueued: with arguments on the device, donated ones copied there for each run.
struct EnqueuedTimes {
  std::vector<double> milliseconds;  // of runs that the host waits for by an event, sorted
  double steady = 0;                 // of one among all, enqueued without waiting
  double median() const { return milliseconds[milliseconds.size() / 2]; }
};
Result<EnqueuedTimes> TimeEnqueued(const NativeModule& native,
                                   const std::vector<Literal>& arguments, int64_t runs);

// What a report says of this machine. Runs kernels: before anything is recorded.
Result<inspect::ReportMachine> DescribeForReport();
void AddTimes(const BenchTimes& times, const program::Program& program,
              inspect::ProgramRecord& record);

}  // namespace weft::tools
