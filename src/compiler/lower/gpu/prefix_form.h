// Scans as parallel prefixes: which ones may be, and how they are cut.
#pragma once

#include <optional>

#include "compiler/lower/lowering.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

constexpr int64_t kScanThreads = program::TargetFacts::kBlockThreads / 4;  // of a block
// Neighbouring elements that a thread takes.
constexpr int64_t kScanEach = program::CodeBounds::kWrittenOut / 2;
constexpr int64_t kScanTile = kScanThreads * kScanEach;
constexpr int64_t kShortScan = 2 * program::CodeBounds::kShortLoop;  // one thread walks along it

// Scans whose steps may be put together in any way: the next value is op(carry, x).
struct PrefixForm {
  program::Op op;
  DType carried;  // x is converted to it, the output from it
};

std::optional<PrefixForm> PrefixFormOf(const hlo::Instruction& scan);

// How a scan is cut.
struct ScanCuts {
  Dims slice;  // without the scanned dimension
  size_t dim = 0;
  int64_t length = 1, lines = 1, inside = 1;  // elements of the slice, and within the dimension
  bool by_columns = false;
  int64_t pieces = 1, piece = 0;
  // All pieces are whole tiles of elements that lie in the order of the scan: no ends to look for,
  // and so many are read and written at once.
  bool even = false;
  int lanes = 1;
};

ScanCuts CutScan(const hlo::Instruction& scan, const program::TargetInfo& target);

}  // namespace weft::compiler
