// Ways to make a module smaller that leave it a module, not that it computes the same. Each returns
// a module of its own, or null when no module comes of it; whether that is valid the verifier
// tells.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "hlo/module.h"

namespace weft::tools {

using ModulePtr = std::unique_ptr<hlo::Module>;
using Roots = std::vector<const hlo::Instruction*>;

// What the entry returns: the elements of its tuple, or its root.
Roots RootsOf(const hlo::Module& module);

// The entry with these roots (several: a tuple of them), with these instructions become parameters,
// and without what neither needs.
ModulePtr CutEntry(const hlo::Module& module, const Roots& roots,
                   const std::unordered_set<int64_t>& parameters);
// The first n instructions of the entry; results are those among them that nothing reads.
ModulePtr TakePrefix(const hlo::Module& module, size_t n);
// Of the entry's instructions from `begin` on, `count` become parameters.
ModulePtr CutRange(const hlo::Module& module, size_t begin, size_t count);

// Without metadata and its tables, configs, origins and control dependencies; `all`: also without
// shardings, frontend attributes and layouts.
ModulePtr StripFacts(const hlo::Module& module, bool all);
ModulePtr InlineCalls(const hlo::Module& module);
// The computation as the entry.
ModulePtr Promote(const hlo::Module& module, const hlo::Computation& computation);

// Instructions are numbered through all computations, in order.
// An operand of the same shape in the place of each of `count` instructions.
ModulePtr Bypass(const hlo::Module& module, size_t begin, size_t count);
// Zeros in the place of arrays, in other computations than the entry, which alone are numbered.
ModulePtr PutZeros(const hlo::Module& module, size_t begin, size_t count);

// A scalar parameter of the entry as a constant of 1.
ModulePtr MakeConstant(const hlo::Module& module, int64_t parameter);
// Every dimension of one size becomes smaller; `multiples`: those of a multiple too, as often as
// it.
ModulePtr Resize(const hlo::Module& module, int64_t size, int64_t smaller, bool multiples);
ModulePtr ForOneDevice(const hlo::Module& module);

}  // namespace weft::tools
