// In which order sums of f32 are added, in generated code and in routines: the same on every
// machine and for any number of threads.
//
// An accumulator that n equal terms are added to one by one is off by up to n * 2^-26 of the sum:
// half of the terms meet its last binade, where each is rounded by half a unit of 2^-23. So no f32
// accumulator takes more than kRun terms (5e-7), their sums go to another one, up to kRuns of them
// (2e-7), and the sums of those to one of f64, which adds nothing to that: a sum of equal terms is
// within 1e-6 of exact, however many there are.
#pragma once

#include <cstdint>

namespace weft::program {

struct SumOrder {
  static constexpr int64_t kRun = 32;              // terms
  static constexpr int64_t kRuns = 16;             // sums of runs
  static constexpr int64_t kBlock = kRun * kRuns;  // terms that end in one f32
  // Terms that are added by pairs before one is added to a sum.
  static constexpr int64_t kPairs = 4;
};

}  // namespace weft::program
