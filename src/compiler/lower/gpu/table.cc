// How GPUs lower: the rows in the order in which they are tried.
#include "compiler/lower/rows.h"

namespace weft::compiler {

extern const LoweringRow kBlockReduce;        // block_reduce.cc
extern const LoweringRow kBlockRows;          // rows.cc
extern const LoweringRow kPrefixScan;         // scan.cc
extern const LoweringRow kParallelScatter;    // scatter.cc
extern const LoweringRow kSelectThenCollect;  // select_and_scatter.cc
extern const LoweringRow kSharedTiles;        // transpose.cc
extern const LoweringRow kScatterByColumns;   // ../scatter.cc

LoweringTable GpuTable() {
  static constexpr const LoweringRow* kKernels[] = {
      &kEmpty,
      &kBlockRows,
      &kRows,
      &kBlockReduce,
      &kParallelScatter,
      &kScatterByColumns,
      &kUpdate,
      &kConcatenate,
      &kSharedTiles,
      &kTiles,
      &kLoop,
  };
  static constexpr const LoweringRow* kOps[] = {&kPrefixScan, &kSelectThenCollect};
  return {kOps, kKernels};
}

}  // namespace weft::compiler
