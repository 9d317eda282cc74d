// What a step has to do at least: arithmetic and memory traffic, counted from the Program.
#pragma once

#include <optional>

#include "program/program.h"

namespace weft::runtime {

struct StepCost {
  double flops = 0;  // floating-point operations; an fma is two
  double bytes = 0;  // read and written, every byte once
};
// nullopt where the Program does not say: loops whose end is not known, routines of others.
std::optional<StepCost> CostOf(const program::Program& program, const program::Step& step);

}  // namespace weft::runtime
