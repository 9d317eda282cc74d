// One run of a program whose arguments are there: they are taken, checked against what memory there
// is, and the results have bytes of their own.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "base/metrics.h"
#include "client/executable.h"

namespace weft::client {

// Where an output of a device is to be.
using MemoryOfOutput = const std::function<Memory*(size_t device, size_t output)>&;

// `arrays`, consumed, and `donated` (empty: none) by device, then parameter; results as
// [device][output]. `client`: whose memory results and temporaries
// must fit into; null: nobody's.
Result<std::vector<std::vector<Literal>>> RunOnInputs(const Executable& executable,
                                                      const Client* client,
                                                      std::vector<ArrayRef>& arrays,
                                                      const std::vector<bool>& donated,
                                                      size_t devices, MemoryOfOutput memory_of,
                                                      const std::atomic<bool>* cancel);
// Results and temporaries must fit beside all that is in use, before anything runs.
Status CheckRunMemory(const Executable& executable, const Client& client, size_t devices);
void HintAtMemory(Error& error);

// Counts a run and takes its time.
class CountedRun {
 public:
  explicit CountedRun(const Executable& executable) : timer_(metrics::kExecuteSeconds) {
    bool native = executable.runner().program() != nullptr;
    metrics::Add(native ? metrics::kExecutions : metrics::kEvaluations);
  }
  template <class Results>
  Results Keep(Results results) {
    if (!results) metrics::Add(metrics::kExecutionErrors);
    return results;
  }

 private:
  metrics::Timer timer_;
};

}  // namespace weft::client
