// Many rows by a matrix of few columns: rows are read where they lie, since packing them would take
// as long as their products; the few columns are packed once.
#include <algorithm>
#include <cstring>

#include "cpu/routines/gemm_product.h"

namespace weft::cpu {
namespace {

// The table of TileKernel::from_rows: rows [first, first + used) by all of the contraction; rows
// beyond are the last one again.
template <class T>
int64_t FillRowTable(const OneProduct& s, int64_t first, int64_t used, int64_t rows,
                     const void** out) {
  int64_t runs = 0;
  const T* a = reinterpret_cast<const T*>(s.a);
  for (int64_t p = 0; p < s.k; p += kMostInRun, ++runs) {
    *out++ = reinterpret_cast<const void*>(static_cast<intptr_t>(std::min(kMostInRun, s.k - p)));
    for (int64_t i = 0; i < rows; ++i) *out++ = a + (first + std::min(i, used - 1)) * s.as.row + p;
  }
  return runs;
}

}  // namespace

template <class T>
bool IsTall(const OneProduct& s) {
  // Less is not worth packing the columns.
  constexpr int64_t kLeastDepth = program::TargetFacts::kUsualLanes;
  // One sum in a register takes the runs of all terms: more of f32 lose digits.
  const int64_t most = std::is_same_v<T, float> ? 2 * program::SumOrder::kBlock : kLongSum;
  const TileKernel<T>* kernel = RowTileFor<T>(s.n);
  if (kernel == nullptr || s.as.col != 1 || !IsStoredAs<T>(s.a_type) || !IsStoredAs<T>(s.c_type) ||
      s.k < kLeastDepth || s.k > most) {
    return false;
  }
  // Rows of b that are whole vectors could be read where they lie, too.
  bool by_rows = s.bs.col == 1 && IsStoredAs<T>(s.b_type) && s.n >= kernel->lanes;
  return s.m >= (by_rows ? 2 * kernel->rows : kernel->rows / 2);
}

template <class T>
int64_t TallScratch(const OneProduct& s) {
  return RowTileFor<T>(s.n)->cols * s.k * int64_t{sizeof(T)};
}

template <class T>
Status MultiplyTall(const Means& means, const OneProduct& s, const RowsDone& done) {
  constexpr int64_t kMostTable = kLongSum / kMostInRun * (1 + program::TargetFacts::kTileRows);
  const TileKernel<T>& kernel = *RowTileFor<T>(s.n);
  auto columns = TRY(Scratch<T>::New(means, kernel.cols * s.k));
  StridedPanels<T>(s.b_type, s.b, s.bs.col, s.bs.row)
      .Pack(0, s.n, 0, s.k, kernel.cols, columns.data());
  T* c = reinterpret_cast<T*>(s.c);
  T alpha = FactorOf<T>(s.alpha), beta = FactorOf<T>(s.beta);
  auto run = [&](int64_t first, int64_t used) {
    const void* table[kMostTable];
    int64_t runs = FillRowTable<T>(s, first, used, kernel.rows, table);
    T* to = c + first * s.n;
    if (used == kernel.rows && s.n == kernel.cols) {
      kernel.from_rows(runs, table, columns.data(), to, s.n, alpha, beta);
      return;
    }
    alignas(64) T tile[kMostTile] = {};
    auto bytes = static_cast<size_t>(s.n) * sizeof(T);
    for (int64_t i = 0; i < used && beta != 0; ++i) {
      std::memcpy(tile + i * kernel.cols, to + i * s.n, bytes);
    }
    kernel.from_rows(runs, table, columns.data(), tile, kernel.cols, alpha, beta);
    for (int64_t i = 0; i < used; ++i) {
      std::memcpy(to + i * s.n, tile + i * kernel.cols, bytes);
    }
  };
  double cost = static_cast<double>(kernel.rows * kernel.cols * s.k) / 20;
  ForPieces(means.pool, CeilDivide(s.m, kernel.rows), cost, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t first = task * kernel.rows, used = std::min<int64_t>(kernel.rows, s.m - first);
      run(first, used);
      if (done) done(first, first + used);
    }
  });
  return {};
}

#define WEFT_INSTANTIATE(T)                           \
  template bool IsTall<T>(const OneProduct&);         \
  template int64_t TallScratch<T>(const OneProduct&); \
  template Status MultiplyTall<T>(const Means&, const OneProduct&, const RowsDone&);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
