// How GPUs lower: the rows in the order in which they are tried.
#include "compiler/lower/rows.h"

namespace weft::compiler {

extern const LoweringRow kBlockReduce;       // loops.cc
extern const LoweringRow kScatterByColumns;  // ../scatter.cc

LoweringTable GpuTable() {
  static constexpr const LoweringRow* kKernels[] = {
      &kEmpty, &kRows, &kBlockReduce, &kScatterByColumns, &kUpdate, &kConcatenate, &kTiles, &kLoop,
  };
  return {{}, kKernels};
}

}  // namespace weft::compiler
