#include "cpu/routines/narrow_rows.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "cpu/routines/blocking.h"
#include "cpu/routines/machine.h"
#include "program/sum_order.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

// Terms that sums of f32 take before they go to others, of f64.
constexpr int64_t kFewRowsRun = program::SumOrder::kBlock;
// Columns of a task, whose sums stay in L1.
constexpr int64_t kFewCols = program::TargetFacts::kFirstLevelBytes / 64;
// Elements of the contraction at once, at most, and columns.
constexpr int64_t kMostRowsAtOnce = program::TargetFacts::kVectorRegisters,
                  kMostCols = program::TargetFacts::kUsualLanes;

// Groups of as many rows as a panel has: what one has read of b comes from L1 for the next.
constexpr int64_t kMostGroups = program::CodeBounds::kCopies / 2;

int64_t GroupsOf(const NarrowKernel& kernel, const FewRowsProduct& s) {
  return CeilDiv(s.m, kernel.rows);
}
int64_t PaddedDepth(const NarrowRows& rows, int64_t k) {
  return RoundUp(k, rows.depth);
}
// Bytes of the panel of a group.
int64_t GroupBytes(const NarrowKernel& kernel, const FewRowsProduct& s) {
  const NarrowRows& rows = *FindNarrowRows(kernel, s.a.dtype, s.b.dtype);
  return kernel.rows * PaddedDepth(rows, s.k) * kernel.element_bytes();
}
// Of a task: sums of all groups stay in L1.
int64_t ColumnsOf(const NarrowKernel& kernel, const FewRowsProduct& s) {
  return kFewCols / GroupsOf(kernel, s);
}

// Sums of a task: of some columns, by every row.
template <class T>
class FewRowsTask {
 public:
  FewRowsTask(const NarrowKernel& kernel, const FewRowsProduct& s, const std::byte* panel,
              int64_t first, int64_t columns)
      : s_(s),
        rows_(*FindNarrowRows(kernel, s.a.dtype, s.b.dtype)),
        tile_rows_(kernel.rows),
        groups_(GroupsOf(kernel, s)),
        element_(kernel.element_bytes()),
        panel_(panel),
        panel_bytes_(GroupBytes(kernel, s)),
        first_(first),
        columns_(columns),
        padded_(RoundUp(columns, rows_.cols)) {
    CHECK(rows_.depth <= kMostRowsAtOnce && rows_.cols <= kMostCols);
    CHECK(groups_ * padded_ <= kFewCols && kernel.rows <= kMostCols);
    ClearSums();
  }

  void Run() {
    for (int64_t k0 = 0; k0 < s_.k; k0 += kFewRowsRun) {
      int64_t kn = std::min(kFewRowsRun, s_.k - k0);
      if (k0 > 0 && kSumsElsewhere) MoveSums(k0 == kFewRowsRun);
      if (s_.b.vector_stride == 1) {
        for (int64_t p = k0; p < k0 + kn; p += rows_.depth) GrowByRows(p);
      } else {
        for (int64_t j = 0; j < padded_; j += rows_.cols) GrowByColumns(j, k0, kn);
      }
    }
    if (s_.k > kFewRowsRun && kSumsElsewhere) MoveSums(false);
    for (int64_t i = 0; i < s_.m; ++i) StoreRow(i);
  }

 private:
  // Those of integers are exact.
  static constexpr bool kSumsElsewhere = std::is_same_v<T, float>;

  int64_t sum_count() const { return groups_ * tile_rows_ * padded_; }
  int64_t PairsOf(int64_t group) const {
    return CeilDiv(std::min(tile_rows_, s_.m - group * tile_rows_), 2);
  }
  std::byte* SumsAt(int64_t group, int64_t column) {
    int64_t at = group * tile_rows_ * padded_ + PairsOf(group) * 2 * column;
    return reinterpret_cast<std::byte*>(sums_ + at);
  }
  const std::byte* PanelAt(int64_t group, int64_t p) const {
    return panel_ + group * panel_bytes_ + p * tile_rows_ * element_;
  }
  const std::byte* At(int64_t column, int64_t p) const {
    return s_.b.data + ((first_ + column) * s_.b.vector_stride + p * s_.b.k_stride) * element_;
  }

  void ClearSums() { std::fill_n(sums_, sum_count(), T(0)); }
  void MoveSums(bool is_first) {
    for (int64_t i = 0; i < sum_count(); ++i) {
      totals_[i] = static_cast<double>(sums_[i]) + (is_first ? 0.0 : totals_[i]);
    }
    ClearSums();
  }

  // Rows past the end meet zeroes; so do columns of the last few, which are copied.
  void GrowByRows(int64_t p) {
    static constexpr std::byte kZeroes[kFewCols * 2] = {};
    const std::byte *rows[kMostRowsAtOnce], *last[kMostRowsAtOnce];
    std::byte copies[kMostRowsAtOnce][kMostCols * 2] = {};
    int64_t whole = columns_ / rows_.cols * rows_.cols, rest = columns_ - whole;
    for (int64_t q = 0; q < rows_.depth; ++q) {
      rows[q] = p + q < s_.k ? At(0, p + q) : kZeroes;
      last[q] = copies[q];
      std::memcpy(copies[q], rows[q] + whole * element_, static_cast<size_t>(rest * element_));
    }
    int64_t ahead = p + 2 * rows_.depth <= s_.k ? rows_.depth * s_.b.k_stride * element_ : 0;
    for (int64_t g = 0; g < groups_; ++g) {
      int64_t pairs = PairsOf(g);
      rows_.by_rows(pairs, whole, PanelAt(g, p), rows, g == 0 ? ahead : 0, SumsAt(g, 0));
      if (rest > 0) rows_.by_rows(pairs, rows_.cols, PanelAt(g, p), last, 0, SumsAt(g, whole));
    }
  }

  // Columns past the last one are that one again; elements past the end are zeroes.
  void GrowByColumns(int64_t j, int64_t k0, int64_t kn) {
    const std::byte *columns[kMostCols], *last[kMostCols];
    std::byte copies[kMostCols][kMostRowsAtOnce * 2] = {};
    int64_t whole = kn / rows_.depth * rows_.depth, rest = kn - whole;
    for (int64_t c = 0; c < rows_.cols; ++c) {
      columns[c] = At(std::min(j + c, columns_ - 1), k0);
      last[c] = copies[c];
      std::memcpy(copies[c], columns[c] + whole * element_, static_cast<size_t>(rest * element_));
    }
    for (int64_t g = 0; g < groups_; ++g) {
      int64_t pairs = PairsOf(g);
      rows_.by_columns(pairs, whole, PanelAt(g, k0), columns, SumsAt(g, j));
      if (rest == 0) continue;
      rows_.by_columns(pairs, rows_.depth, PanelAt(g, k0 + whole), last, SumsAt(g, j));
    }
  }

  void StoreRow(int64_t i) {
    bool elsewhere = s_.k > kFewRowsRun && kSumsElsewhere;
    int64_t bytes = ByteWidth(s_.result.dtype);
    std::byte* to = s_.result.data + (i * s_.result.row + first_) * bytes;
    T out[kFewCols], old[kFewCols];
    int64_t group = i / tile_rows_, row = i % tile_rows_, pairs = PairsOf(group);
    for (int64_t j = 0; j < columns_; ++j) {
      int64_t square = (j / rows_.cols * pairs + row / 2) * rows_.cols / 2 + j % rows_.cols / 2;
      int64_t at = 4 * square + (rows_.turned ? j % 2 * 2 + row % 2 : row % 2 * 2 + j % 2);
      at += group * tile_rows_ * padded_;
      out[j] = elsewhere ? static_cast<T>(totals_[at]) : sums_[at];
    }
    if (s_.adds) {
      LoadRun<T>(s_.result.dtype, to, columns_, old);
      for (int64_t j = 0; j < columns_; ++j) out[j] = static_cast<T>(out[j] + old[j]);
    }
    StoreRun<T>(s_.result.dtype, out, columns_, to);
  }

  const FewRowsProduct& s_;
  const NarrowRows& rows_;
  int64_t tile_rows_, groups_, element_;
  const std::byte* panel_;
  int64_t panel_bytes_, first_, columns_, padded_;
  alignas(64) T sums_[kFewCols * kMostCols];
  double totals_[kSumsElsewhere ? kFewCols * kMostCols : 1];
};

}  // namespace

bool TakesFewRows(const NarrowKernel& kernel, const FewRowsProduct& s) {
  bool by_rows = s.b.vector_stride == 1;
  return GroupsOf(kernel, s) <= (by_rows ? kMostGroups : 1) && s.n >= kMostCols &&
         (by_rows || s.b.k_stride == 1) && FindNarrowRows(kernel, s.a.dtype, s.b.dtype) != nullptr;
}

int64_t FewRowsScratch(const NarrowKernel& kernel, const FewRowsProduct& s) {
  return GroupsOf(kernel, s) * GroupBytes(kernel, s);
}

template <class T>
Status MultiplyFewRows(const Means& means, const NarrowKernel& kernel, const FewRowsProduct& s) {
  int64_t bytes = FewRowsScratch(kernel, s);
  auto panel = TRY(Scratch<std::byte>::New(means, bytes));
  std::fill_n(panel.data(), bytes, std::byte{0});
  int64_t group = GroupBytes(kernel, s);
  for (int64_t i = 0; i < s.m; i += kernel.rows) {
    PackNarrow(kernel, true, s.a, s.b.dtype, i, std::min<int64_t>(kernel.rows, s.m - i), 0, s.k,
               group, panel.data() + i / kernel.rows * group);
  }
  int64_t columns = ColumnsOf(kernel, s), tasks = CeilDiv(s.n, columns);
  double cost = static_cast<double>(s.k * columns * kernel.element_bytes()) / kCoreReads;
  ForPieces(means.pool, tasks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t first = task * columns;
      FewRowsTask<T>(kernel, s, panel.data(), first, std::min(columns, s.n - first)).Run();
    }
  });
  return {};
}

template Status MultiplyFewRows<float>(const Means&, const NarrowKernel&, const FewRowsProduct&);
template Status MultiplyFewRows<uint32_t>(const Means&, const NarrowKernel&, const FewRowsProduct&);

}  // namespace weft::cpu
