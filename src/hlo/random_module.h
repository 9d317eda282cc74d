// Random modules that verify, evaluate quickly and say how exactly their results can be compared.
// The same seed gives the same module everywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/module.h"

namespace weft::hlo {

// How far a correct implementation may be from the evaluator, which rounds after every op: by
// `error`, or by `ulps` of the result's format. Both 0: not at all.
struct ResultTolerance {
  double error = 0, ulps = 0;
};

// What the elements of a parameter are drawn from.
struct ArgumentRange {
  enum class Kind : uint8_t { kWhole, kUnit, kEdges } kind = Kind::kWhole;
  double low = -4, high = 4;  // of kWhole: integers
};

struct RandomModule {
  std::unique_ptr<Module> module;
  std::vector<ResultTolerance> results;  // by leaf
  std::vector<ArgumentRange> arguments;  // by leaf of the parameters
};

Result<RandomModule> MakeRandomModule(uint64_t seed);

// Arguments of the module; another set for each `round`.
Result<std::vector<Literal>> MakeArguments(const RandomModule& made, uint64_t seed, uint64_t round);

}  // namespace weft::hlo
