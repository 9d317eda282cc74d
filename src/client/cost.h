// What a program costs, by counting: operations and bytes as XLA's cost analysis counts them, and
// how much memory its values take.
#pragma once

#include "client/executable.h"
#include "hlo/module.h"

namespace weft::client {

// One trip through each loop body, the larger branch of each conditional.
CostAnalysis AnalyseCost(const hlo::Module& module);

// Roughly how long evaluating takes, in nanoseconds of a plain loop; loops count as very long.
double EstimateWork(const hlo::Module& module);

// The most bytes that values other than parameters, constants and the result take at one time.
int64_t TemporaryBytes(const hlo::Module& module);

}  // namespace weft::client
