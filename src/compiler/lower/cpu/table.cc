// How CPUs lower: the rows in the order in which they are tried.
#include "compiler/lower/rows.h"

namespace weft::compiler {

extern const LoweringRow kInterchangedLoop;     // loop_interchange.cc
extern const LoweringRow kRunningSum;           // running_sum.cc
extern const LoweringRow kPartCopy;             // part_copy.cc
extern const LoweringRow kColumnScan;           // column_scan.cc
extern const LoweringRow kDotInLanes;           // lane_dot.cc
extern const LoweringRow kTallDot;              // long_dot.cc
extern const LoweringRow kDotAlongContraction;  // small_dot.cc
extern const LoweringRow kDotAlongColumns;      // row_dot.cc
extern const LoweringRow kScaledGemm;           // ../scaled_dot.cc
extern const LoweringRow kRowsInLanes, kPeriodic, kInterleaved,
    kInterleavedConcatenate;             // interleave.cc
extern const LoweringRow kColumnReduce;  // columns.cc
extern const LoweringRow kRowReduce, kSplitReduce;
extern const LoweringRow kScatterToOwnArrays;  // ../scatter_own_arrays.cc
extern const LoweringRow kUniqueScatter;       // unique_scatter.cc
extern const LoweringRow kScatter;             // ../scatter.cc
extern const LoweringRow kEpilogue;

LoweringTable CpuTable() {
  static constexpr const LoweringRow* kOps[] = {
      &kInterchangedLoop,
      &kRunningSum,
      &kColumnScan,
      &kPartCopy,
      // Products too small for the library's packing.
      &kDotInLanes,
      &kTallDot,
      &kDotAlongContraction,
      &kDotAlongColumns,
      &kScaledGemm,
  };
  static constexpr const LoweringRow* kKernels[] = {
      &kEmpty,
      // Fusions of reductions with what is made of them, before single reductions.
      &kRowsInLanes,
      &kRows,
      &kColumnReduce,
      &kRowReduce,
      &kSplitReduce,
      &kUniqueScatter,
      &kScatterToOwnArrays,
      &kScatter,
      &kUpdate,
      &kInterleavedConcatenate,
      &kConcatenate,
      &kTiles,
      // Short minor dimensions would leave lanes empty.
      &kPeriodic,
      &kInterleaved,
      &kEpilogue,
      &kLoop,
  };
  return {kOps, kKernels};
}

}  // namespace weft::compiler
