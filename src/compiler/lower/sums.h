// Loops that sum f32 numbers, cut in runs: however many terms there are, a sum of equal ones is
// within 1e-6 of exact.
//
// An accumulator that n equal terms are added to one by one is off by up to n * 2^-26 of the sum:
// half of the terms meet its last binade, where each is rounded by half a unit of 2^-23. So no f32
// accumulator takes more than kSumRun terms (5e-7), their sums go to another one, up to kSumRuns of
// them (2e-7), and the sums of those to one of f64, which adds nothing to that. Cuts depend on
// shapes and lanes alone.
#pragma once

#include <functional>
#include <vector>

#include "base/error.h"
#include "hlo/computation.h"
#include "program/builder.h"

namespace weft::compiler {

inline constexpr int64_t kSumRun = 32, kSumRuns = 16;  // terms, and sums of them: see above
// Vectors or rows that are added by pairs before one is added to an accumulator.
inline constexpr int64_t kAddedByPairs = 4;

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
