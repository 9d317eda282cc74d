// Products of two matrices that both lie across the contraction, as Gram matrices (x.T @ x) do: one
// step of it reads a row of each, where they lie. The result is small and the contraction is long,
// so that packing either side would take longer than the products.
#include <algorithm>
#include <cstring>

#include "cpu/routines/gemm_product.h"

namespace weft::cpu {
namespace {

constexpr int64_t kFirstLevel = program::TargetFacts::kFirstLevelBytes;
// Of a contraction that is shared out.
constexpr int64_t kPartDepth = 2 * program::SumOrder::kBlock,
                  kMostParts = program::TargetFacts::kJoinedArrays;

int64_t RoundToTile(int64_t n, int64_t tile) {
  return CeilDivide(n, tile) * tile;
}

// How such a product is cut: by shapes alone.
template <class T>
struct GramCut {
  const TileKernel<T>& kernel;
  int64_t rows, cols;    // of the sums of a part: whole tiles
  int64_t parts, depth;  // of the contraction
  int64_t at_once;       // steps that all tiles take from L1
  // Steps whose tiles would read beyond the ends of the operands: they are copied.
  int64_t copied;

  explicit GramCut(const OneProduct& s)
      : kernel(*LyingTileFor<T>(s.m, s.n)),
        rows(RoundToTile(s.m, kernel.rows)),
        cols(RoundToTile(s.n, kernel.cols)) {
    parts = s.k < 2 * kPartDepth ? 1 : std::min(kMostParts, s.k / kPartDepth);
    parts = std::max(parts, CeilDivide(s.k, kLongSum));
    depth = RoundToTile(CeilDivide(s.k, parts), kMostInRun);
    parts = CeilDivide(s.k, depth);
    int64_t step = (s.m + s.n) * int64_t{sizeof(T)};
    at_once = std::max(kMostInRun, kFirstLevel / 2 / step / kMostInRun * kMostInRun);
    copied = std::min(s.k, std::max(CeilDivide(rows - s.m, s.m), CeilDivide(cols - s.n, s.n)));
  }
  int64_t sums() const { return rows * cols; }
  int64_t copies() const { return copied * (rows + cols); }
};

// The last steps, in rows that are as long as the tiles read.
template <class T>
void CopyLast(const OneProduct& s, const GramCut<T>& cut, T* to) {
  auto copy = [&](const std::byte* data, int64_t n, int64_t padded) {
    const T* from = reinterpret_cast<const T*>(data) + (s.k - cut.copied) * n;
    for (int64_t p = 0; p < cut.copied; ++p, from += n, to += padded) {
      std::copy_n(from, n, to);
      std::fill(to + n, to + padded, T(0));
    }
  };
  copy(s.a, s.m, cut.rows);
  copy(s.b, s.n, cut.cols);
}

// kn steps of rows of a and b, which lie a_k and b_k apart, go to all tiles of `sums`.
template <class T>
void GrowTiles(const GramCut<T>& cut, int64_t kn, const T* a, int64_t a_k, const T* b, int64_t b_k,
               bool is_first, T* sums) {
  for (int64_t i = 0; i < cut.rows; i += cut.kernel.rows) {
    for (int64_t j = 0; j < cut.cols; j += cut.kernel.cols) {
      cut.kernel.lying(kn, a + i, a_k, b + j, b_k, sums + i * cut.cols + j, cut.cols,
                       T(is_first ? 0 : 1));
    }
  }
}

template <class T>
void RunPart(const OneProduct& s, const GramCut<T>& cut, int64_t part, const T* copies, T* sums) {
  int64_t begin = part * cut.depth, end = std::min(s.k, begin + cut.depth);
  int64_t as_they_lie = std::clamp(s.k - cut.copied, begin, end);
  const T *a = reinterpret_cast<const T*>(s.a), *b = reinterpret_cast<const T*>(s.b);
  for (int64_t p = begin; p < as_they_lie; p += cut.at_once) {
    int64_t kn = std::min(cut.at_once, as_they_lie - p);
    GrowTiles(cut, kn, a + p * s.m, s.m, b + p * s.n, s.n, p == begin, sums);
  }
  if (as_they_lie == end) return;
  int64_t skip = as_they_lie - (s.k - cut.copied);
  const T* b_copies = copies + cut.copied * cut.rows;
  GrowTiles(cut, end - as_they_lie, copies + skip * cut.rows, cut.rows, b_copies + skip * cut.cols,
            cut.cols, as_they_lie == begin, sums);
}

// Adds sums of parts in order; those of f32 in f64.
template <class T>
void AddGramParts(const OneProduct& s, const GramCut<T>& cut, const T* sums) {
  constexpr int64_t kAtOnce = program::TargetFacts::kLineBytes;
  T alpha = FactorOf<T>(s.alpha), beta = FactorOf<T>(s.beta);
  for (int64_t i = 0; i < s.m; ++i) {
    T* to = reinterpret_cast<T*>(s.c) + i * s.n;
    for (int64_t j = 0; j < s.n; j += kAtOnce) {
      int64_t n = std::min(kAtOnce, s.n - j);
      DotSum<T> all[kAtOnce] = {};
      for (int64_t part = 0; part < cut.parts; ++part) {
        const T* from = sums + part * cut.sums() + i * cut.cols + j;
        for (int64_t q = 0; q < n; ++q) all[q] += from[q];
      }
      for (int64_t q = 0; q < n; ++q) {
        T sum = static_cast<T>(alpha * all[q]);
        to[j + q] = beta == 0 ? sum : static_cast<T>(sum + beta * to[j + q]);
      }
    }
  }
}

}  // namespace

template <class T>
bool IsGram(const OneProduct& s) {
  bool lies = s.as.row == 1 && s.as.col == s.m && s.bs.col == 1 && s.bs.row == s.n;
  bool as_is = IsStoredAs<T>(s.a_type) && IsStoredAs<T>(s.b_type) && IsStoredAs<T>(s.c_type);
  if (!lies || !as_is || s.m < 2 || s.n < 2) return false;
  if (s.k < std::max({s.m, s.n, kMostInRun}) || s.m * s.n > kFirstLevel) return false;
  const TileKernel<T>* kernel = LyingTileFor<T>(s.m, s.n);
  if (kernel == nullptr) return false;
  int64_t sums = RoundToTile(s.m, kernel->rows) * RoundToTile(s.n, kernel->cols);
  return sums * int64_t{sizeof(T)} <= kFirstLevel;
}

template <class T>
int64_t GramScratch(const OneProduct& s) {
  GramCut<T> cut(s);
  return (cut.parts * cut.sums() + cut.copies()) * int64_t{sizeof(T)};
}

template <class T>
Status MultiplyGram(const Means& means, const OneProduct& s, const RowsDone& done) {
  GramCut<T> cut(s);
  auto room = TRY(Scratch<T>::New(means, cut.parts * cut.sums() + cut.copies()));
  T *copies = room.data(), *sums = copies + cut.copies();
  CopyLast(s, cut, copies);
  double cost = static_cast<double>(cut.sums() * cut.depth) / (4.0 * cut.kernel.lanes);
  ForPieces(means.pool, cut.parts, cost, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      RunPart(s, cut, part, copies, sums + part * cut.sums());
    }
  });
  AddGramParts(s, cut, sums);
  if (done) done(0, s.m);
  return {};
}

#define WEFT_INSTANTIATE(T)                           \
  template bool IsGram<T>(const OneProduct&);         \
  template int64_t GramScratch<T>(const OneProduct&); \
  template Status MultiplyGram<T>(const Means&, const OneProduct&, const RowsDone&);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
