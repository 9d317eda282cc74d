// The search for a small module that still fails.
#pragma once

#include <cstddef>
#include <functional>

#include "reduce_edits.h"

namespace weft::tools {

// Of n modules (null: none), which `make` makes when asked, the first that still fails; -1: none.
using FirstFailing = std::function<int(size_t n, const std::function<ModulePtr(size_t)>& make)>;

// The smallest module that was found; `now` fails. `smaller` is told of each on the way.
ModulePtr ReduceModule(ModulePtr now, const FirstFailing& first_failing,
                       const std::function<void(const hlo::Module&)>& smaller = {});

}  // namespace weft::tools
