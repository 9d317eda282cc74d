// Loops that sum f32 numbers, cut in runs: however many terms there are, a sum of equal ones is
// within 1e-6 of exact. Cuts depend on shapes and lanes alone (program/sum_order.h).
#pragma once

#include <functional>
#include <vector>

#include "base/error.h"
#include "hlo/computation.h"
#include "program/builder.h"
#include "program/sum_order.h"

namespace weft::compiler {

inline constexpr int64_t kSumRun = program::SumOrder::kRun, kSumRuns = program::SumOrder::kRuns;
// Vectors or rows that are added by pairs before one is added to an accumulator.
inline constexpr int64_t kAddedByPairs = program::SumOrder::kPairs;

// Whether leaf number `leaf` of what the computation returns is the sum of two parameters, in f32
// or in complex numbers of them.
bool SumsF32(const hlo::Computation& computation, DType dtype, int64_t leaf = 0);

// Rounds begin, begin + step, .. below end, `trips` of them at most.
struct SumRange {
  program::ValueId begin, end;
  int64_t step, trips;
};

// A serial loop over the range. `sums`: which of the carried values are sums of f32 that every
// round adds one term to; in the body they are what was added since some round. The others are
// carried as they are.
using SumBody = std::function<Result<program::KernelBuilder::Carry>(
    program::ValueId at, const program::KernelBuilder::Carry&)>;
Result<program::KernelBuilder::Carry> EmitSumLoop(program::KernelBuilder& b, const SumRange& range,
                                                  const program::KernelBuilder::Carry& init,
                                                  const std::vector<bool>& sums,
                                                  const SumBody& body);
// The same with every term added to an accumulator of f64: of terms that are long sums themselves.
Result<program::KernelBuilder::Carry> EmitWideSumLoop(program::KernelBuilder& b,
                                                      const SumRange& range,
                                                      const program::KernelBuilder::Carry& init,
                                                      const std::vector<bool>& sums,
                                                      const SumBody& body);
// All carried values are sums, in f32 or not, and the body does not fail.
program::KernelBuilder::Carry EmitSums(
    program::KernelBuilder& b, const SumRange& range, const program::KernelBuilder::Carry& init,
    const std::function<program::KernelBuilder::Carry(program::ValueId at,
                                                      const program::KernelBuilder::Carry&)>& body);

}  // namespace weft::compiler
