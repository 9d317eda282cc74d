// Texts of sort and topk: kernels/sort.cu with the order of the step printed into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "gpu/routines/routine.h"
#include "program/kernel.h"

namespace weft::gpu {

// As in kernels/sort.cu.
inline constexpr int64_t kSortRun = 1024, kSortChunk = 2048, kSortThreads = 256;
// Chunks that one block scans sooner than two more launches are.
inline constexpr int64_t kScannedByABlock = 4;
struct SortRows {
  int64_t rows, n, inner;
};

struct SortPlan {
  SortRows size;
  size_t operands = 1;
  int64_t keys = 1, bits = 0;  // of keys that are not negative; 0: all of their type
  bool descending = false, zeros_equal = false, nans_equal = false;
  const program::Kernel* comparator = nullptr;
  bool is_topk = false;
  int64_t k = 0;  // of topk
};

int KeyBits(DType dtype);
std::string_view KeyType(DType dtype);
std::string StorageName(DType dtype);
// The order by one operand, whose keys fit a number.
std::string KeyOrderText(const SortPlan& plan, std::string_view name, DType dtype);
// The order of whole tuples: a key is where the tuple lies.
std::string TupleOrderText(const SortPlan& plan, const RoutineInputs& inputs);
// Parameters of a kernel: one pointer for each operand, then the results.
std::string PointersText(const RoutineInputs& inputs, size_t operands);
// The order of elements that are moved themselves.
std::string ElementOrderText(const SortPlan& plan, DType dtype);
// The kernels of one pass of a radix sort: count and distribute, with `suffix` behind their names.
std::string PassText(std::string_view suffix, std::string_view order, std::string_view value);
// What becomes of the permutation.
std::string ResultText(const SortPlan& plan);

inline constexpr std::string_view kPlacesText =
    "extern \"C\" __global__ void sum_chunks(const u32* counts, s64 length, u32* sums) {\n  "
    "SumChunks(counts, length, sums);\n}\nextern \"C\" __global__ void scan_sums(u32* sums, "
    "s64 chunks) {\n  ScanSums(sums, chunks);\n}\nextern \"C\" __global__ void "
    "scan_chunks(u32* counts, s64 length, const u32* sums) {\n  ScanChunks(counts, length, "
    "sums);\n}\nextern \"C\" __global__ void scan_row(u32* counts, s64 length) {\n  "
    "ScanRow(counts, length);\n}\n";

// topk of few elements of long rows, by selection: of each run of a row its first k stay, until
// they are one run.
bool SelectsTopK(const SortPlan& plan);
Result<PreparedPtr> PrepareTopKBySelection(const RoutineInputs& inputs, const SortPlan& plan);

}  // namespace weft::gpu
