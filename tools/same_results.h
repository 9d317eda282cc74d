// Whether two modules compute the same, bit for bit: the check of passes that change values.
#pragma once

#include <string>

#include "hlo/module.h"

namespace weft::tools {

// Evaluates both on the same arguments (random ones, then the edge values of each type: zeros of
// both signs, infinities, NaN, the least and the greatest integers) and says what differs; empty:
// nothing. A NaN equals any other NaN. With a tolerance > 0, floats may differ by tolerance *
// max(1, |x|) and edge values are not tried. Arguments that `before` cannot be evaluated on (host
// transfers, endless loops, several devices, more than a few million elements) are left out.
std::string FindDifference(const hlo::Module& before, const hlo::Module& after, double tolerance);

}  // namespace weft::tools
