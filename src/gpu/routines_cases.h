// Programs of one library routine each, for the tests of routines.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/literal.h"

namespace weft::gpu {

struct RoutineCase {
  std::string name, text;
  double slack = 0;  // units in the last place of the largest result
  bool donates = false;
  std::function<void(Literal& argument, int64_t number)> prepare = nullptr;
};

// `few`: a small choice, where running takes long.
std::vector<RoutineCase> GemmCases(bool few);

}  // namespace weft::gpu
