// The rows that all targets share, by opcode. A target's own are tried before them.
#include "compiler/lower/rows.h"

namespace weft::compiler {

extern const LoweringRow kWhile, kConditional;  // while.cc
extern const LoweringRow kSort;
extern const LoweringRow kScan;
extern const LoweringRow kSelectAndScatter;  // indexed.cc
// linalg.cc
extern const LoweringRow kUnrolledCholesky, kLoopedCholesky, kLibraryCholesky;
extern const LoweringRow kUnrolledSolve, kLoopedSolve, kLibrarySolve;
extern const LoweringRow kUnrolledLu, kLoopedLu, kLibraryLu;
// routines.cc
extern const LoweringRow kFft, kTopK, kRng, kRngBitGenerator, kConvolution;
extern const LoweringRow kHouseholder, kCustomCall;
extern const LoweringRow kAttention;
// collectives.cc
extern const LoweringRow kDeviceId, kCollective, kCollectiveStart, kAsyncCall, kAsyncDone;
extern const LoweringRow kSend, kRecv, kRecvDone;

std::span<const LoweringRow* const> SharedOps() {
  static constexpr const LoweringRow* kRowsOfAll[] = {
      &kWhile, &kConditional, &kGemm,
      // In registers where they are inside of a loop that runs as one native function.
      &kSortingNetwork, &kSort, &kTopK, &kScan, &kSelectAndScatter,
      // By size: unrolled, loops, the library.
      &kUnrolledCholesky, &kLoopedCholesky, &kLibraryCholesky, &kUnrolledSolve, &kLoopedSolve,
      &kLibrarySolve, &kUnrolledLu, &kLoopedLu, &kLibraryLu, &kFft, &kRng, &kRngBitGenerator,
      &kConvolution, &kHouseholder, &kAttention, &kCustomCall, &kDeviceId, &kCollective,
      &kCollectiveStart, &kAsyncCall, &kAsyncDone, &kSend, &kRecv, &kRecvDone};
  return kRowsOfAll;
}

}  // namespace weft::compiler
