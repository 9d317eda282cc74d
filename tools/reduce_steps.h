// Ways to make a module smaller that leave it a module, not that it computes the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "hlo/module.h"

namespace weft::tools {

// Tells whether a smaller module still fails.
using StillFails = std::function<bool(const hlo::Module&)>;

// The smallest module that was found; `now` fails.
std::unique_ptr<hlo::Module> ReduceModule(std::unique_ptr<hlo::Module> now,
                                          const StillFails& still_fails);

// The entry with these roots (several: a tuple of them), with these instructions become parameters,
// and without what neither needs. Null when no module comes of it.
std::unique_ptr<hlo::Module> CutEntry(const hlo::Module& module,
                                      const std::vector<const hlo::Instruction*>& roots,
                                      const std::unordered_set<int64_t>& parameters);

}  // namespace weft::tools
