// How threads share the updates of a scatter.
#pragma once

#include "compiler/lower/scatter_loops.h"

namespace weft::compiler {

// How threads share the updates. At most one of both cuts them.
struct ScatterShare {
  int64_t columns;             // of the windows that a thread takes, of `dims.minor()`
  int64_t dim = -1;            // of the operand, cut in
  int64_t ranges = 1, size{};  // so many ranges of so many places
};

// Elements that all windows have.
double WorkOf(const ScatterDims& dims);

// Of the minor window dimension: all of them where threads do not share by columns.
int64_t ColumnsOfThread(const LowerContext& cx, const hlo::Instruction& scatter,
                        const ScatterDims& dims);

ScatterShare ShareOf(const LowerContext& cx, const hlo::Instruction& scatter,
                     const ScatterDims& dims);

// All updates, in a parallel loop over the parts of the threads.
Status SharedUpdates(KernelBuilder& b, ScatterLoops& loops, const ScatterDims& dims,
                     const ScatterShare& share, ValueId first, ValueId last);

}  // namespace weft::compiler
