// What a timeline says of a step.
#pragma once

#include "base/trace.h"
#include "program/program.h"

namespace weft::runtime {

// Name, source line, scope, shapes and costs; of loops and conditionals the steps inside as well.
trace::What DescribeStep(const program::Program& program, const program::Step& step);

}  // namespace weft::runtime
