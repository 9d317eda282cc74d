#include "cpu/routines/narrow_small.h"

#include <algorithm>

#include "cpu/routines/blocking.h"
#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_product.h"
#include "program/sum_order.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

// Rows of a, from the first one on, that the micro-kernel reads where they lie.
int64_t RowsThatLie(const NarrowKernel& kernel, const FewRowsProduct& s) {
  bool can = kernel.run_rows != nullptr && s.a.k_stride == 1 &&
             (kernel.any_depth || s.k % kernel.step == 0) && !s.adds;
  if (kernel.corrects()) {
    // The last tile may begin among the rows of the one before.
    bool both = s.a.dtype == DType::kS8 && s.b.dtype == DType::kS8;
    return can && both && s.m >= kernel.rows ? s.m : 0;
  }
  return can ? s.m / kernel.rows * kernel.rows : 0;
}

double TileNanoseconds(const PanelForm& form, const FewRowsProduct& s) {
  auto work = static_cast<double>(RoundUp(s.m, form.rows) * RoundUp(s.n, form.cols)) *
              static_cast<double>(RoundUp(s.k, form.step));
  return work / form.speed;
}

struct SmallPanels {
  int64_t a_panel, b_panel, a_bytes, b_bytes;
};
SmallPanels PanelsOf(const PanelForm& form, const FewRowsProduct& s, int64_t lying) {
  int64_t a = form.PanelBytes(true, s.k), b = form.PanelBytes(false, s.k);
  return {a, b, CeilDiv(s.m - lying, form.rows) * a, CeilDiv(s.n, form.cols) * b};
}

// A tile that ends beyond the result, or is converted, or added.
template <class T>
void StoreSmallTile(const FewRowsProduct& s, const T* sums, int64_t sums_row, int64_t i, int64_t j,
                    int64_t rows, int64_t cols) {
  int64_t bytes = ByteWidth(s.result.dtype);
  if (!s.adds && IsStoredAs<T>(s.result.dtype)) {
    T* to = reinterpret_cast<T*>(s.result.data) + i * s.result.row + j;
    for (int64_t r = 0; r < rows; ++r) CopyRow(sums + r * sums_row, cols, to + r * s.result.row);
    return;
  }
  for (int64_t r = 0; r < rows; ++r, sums += sums_row) {
    std::byte* to = s.result.data + ((i + r) * s.result.row + j) * bytes;
    if (!s.adds) {
      StoreRun<T>(s.result.dtype, sums, cols, to);
      continue;
    }
    T old[kMostTile];
    LoadRun<T>(s.result.dtype, to, cols, old);
    for (int64_t c = 0; c < cols; ++c) old[c] = static_cast<T>(sums[c] + old[c]);
    StoreRun<T>(s.result.dtype, old, cols, to);
  }
}

// Rows [begin, end): whole tiles, or the last ones.
template <class T>
void RunSmallTiles(const NarrowKernel& kernel, const FewRowsProduct& s, const SmallPanels& panels,
                   int64_t lying, int64_t begin, int64_t end, const std::byte* a,
                   const std::byte* b) {
  int64_t a_row = s.a.vector_stride * ByteWidth(s.a.dtype);
  bool stored = IsStoredAs<T>(s.result.dtype) && !s.adds;
  alignas(64) T once[kMostTile];
  for (int64_t j = 0; j < s.n; j += kernel.cols, b += panels.b_panel) {
    for (int64_t i = begin; i < end; i += kernel.rows) {
      int64_t rows = std::min<int64_t>(kernel.rows, end - i);
      int64_t cols = std::min<int64_t>(kernel.cols, s.n - j);
      bool direct = stored && rows == kernel.rows && cols == kernel.cols;
      int64_t again = i < lying ? kernel.rows - rows : 0;  // rows that were done before
      T* to = direct ? reinterpret_cast<T*>(s.result.data) + i * s.result.row + j : once;
      int64_t ldc = direct ? s.result.row : kernel.cols;
      auto* c = reinterpret_cast<std::byte*>(to);
      if (i < lying) {
        kernel.run_rows(s.k, s.a.data + (i - again) * a_row, a_row, b, c, ldc);
      } else {
        kernel.run(s.k, a + (i - lying) / kernel.rows * panels.a_panel, b, c, ldc, false);
      }
      if (!direct) StoreSmallTile<T>(s, once + again * ldc, ldc, i, j, rows, cols);
    }
  }
}

}  // namespace

bool TakesSmallNarrow(const NarrowKernel& kernel, const FewRowsProduct& s) {
  PanelForm form = NarrowForm(kernel);
  // One sum of f32 takes all terms.
  if (!form.exact && s.k > program::SumOrder::kBlock) return false;
  if (std::max({s.m, s.n, s.k}) > HostCaches().l2) return false;
  int64_t lying = RowsThatLie(kernel, s), cache = std::max<int64_t>(HostCaches().l2, 256 << 10);
  SmallPanels panels = PanelsOf(form, s, lying);
  // Packing many rows by few columns, with their signs, would take as long as the product.
  if (kernel.corrects() && lying > 0 && s.n <= 2 * form.cols && panels.b_bytes <= cache / 4)
    return true;
  return PanelsOf(form, s, 0).a_bytes + panels.b_bytes <= cache / 2 &&
         TileNanoseconds(form, s) <= program::TargetFacts::kPieceNanoseconds;
}

double SmallNarrowCost(const NarrowKernel& kernel, const FewRowsProduct& s) {
  PanelForm form = NarrowForm(kernel);
  SmallPanels panels = PanelsOf(form, s, RowsThatLie(kernel, s));
  int64_t bytes = panels.a_bytes + panels.b_bytes + s.m * s.n * ByteWidth(s.result.dtype);
  return TileNanoseconds(form, s) + static_cast<double>(bytes) / kCoreReads;
}

int64_t SmallNarrowScratch(const NarrowKernel& kernel, const FewRowsProduct& s) {
  SmallPanels panels = PanelsOf(NarrowForm(kernel), s, RowsThatLie(kernel, s));
  return panels.a_bytes + panels.b_bytes;
}

template <class T>
Status MultiplySmallNarrow(const Means& means, const NarrowKernel& kernel, const FewRowsProduct& s,
                           const RowsDone& done) {
  int64_t lying = RowsThatLie(kernel, s);
  SmallPanels panels = PanelsOf(NarrowForm(kernel), s, lying);
  auto room = TRY(Scratch<std::byte>::New(means, panels.a_bytes + panels.b_bytes));
  std::byte *b = room.data(), *a = b + panels.b_bytes;
  PackNarrow(kernel, false, s.b, s.a.dtype, 0, s.n, 0, s.k, panels.b_panel, b);
  PackNarrow(kernel, true, s.a, s.b.dtype, lying, s.m - lying, 0, s.k, panels.a_panel, a);
  double cost = TileNanoseconds(NarrowForm(kernel), s) * kernel.rows / static_cast<double>(s.m);
  ForPieces(means.pool, CeilDiv(s.m, kernel.rows), cost, [&](int64_t begin, int64_t end) {
    if (kernel.enter != nullptr) kernel.enter();
    int64_t first = begin * kernel.rows, last = std::min(s.m, end * kernel.rows);
    RunSmallTiles<T>(kernel, s, panels, lying, first, last, a, b);
    if (kernel.leave != nullptr) kernel.leave();
    if (done) done(first, last);
  });
  return {};
}

template Status MultiplySmallNarrow<float>(const Means&, const NarrowKernel&, const FewRowsProduct&,
                                           const RowsDone&);
template Status MultiplySmallNarrow<uint32_t>(const Means&, const NarrowKernel&,
                                              const FewRowsProduct&, const RowsDone&);

}  // namespace weft::cpu
