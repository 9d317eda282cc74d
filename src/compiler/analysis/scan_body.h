// Which scans are walked element by element.
#pragma once

#include "hlo/computation.h"

namespace weft::compiler {

// The body of a scan whose slices have these dimensions computes each of their elements from those
// of the same index.
bool IsElementwiseScanBody(const hlo::Computation& body, const Dims& dims);
// So does the scan, which lowering then makes one kernel of.
bool IsElementwiseScan(const hlo::Instruction& scan);

}  // namespace weft::compiler
