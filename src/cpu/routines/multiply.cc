// Which products are cut in which way: whole, by parts of a long contraction, or by parts that are
// shared out because the result is small.
#include "cpu/routines/multiply.h"

#include <algorithm>
#include <string>

#include "base/log.h"
#include "base/str.h"
#include "cpu/routines/blocked_product.h"
#include "cpu/routines/blocking.h"
#include "cpu/routines/machine.h"
#include "cpu/routines/tiles.h"
#include "program/sum_order.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

// Of a contraction that is shared out because the result is small.
constexpr int64_t kSplitDepth = 2 * program::SumOrder::kBlock,
                  kMostSplits = program::TargetFacts::kJoinedArrays,
                  kSplitTasks = program::TargetFacts::kUsualThreads;
// Of a product whose contraction is long, so much is summed elsewhere at once.
constexpr int64_t kLongRows = 2 * program::SumOrder::kBlock,
                  kLongCols = program::TargetFacts::kCachedNumbers;

// A part of a product: from some row, column and element of the contraction on.
template <class T>
class PartOfProduct : public PackedProduct<T> {
 public:
  PartOfProduct(const PackedProduct<T>& whole, int64_t i, int64_t j, int64_t k)
      : whole_(whole), i_(i), j_(j), k_(k) {}
  PanelForm form() const override { return whole_.form(); }
  void Pack(bool is_left, int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t panel,
            std::byte* out) const override {
    whole_.Pack(is_left, (is_left ? i_ : j_) + first, count, k_ + k0, kn, panel, out);
  }
  void Run(int64_t k, const std::byte* a, const std::byte* b, T* c, int64_t ldc, T alpha,
           T beta) const override {
    whole_.Run(k, a, b, c, ldc, alpha, beta);
  }
  void Enter() const override { whole_.Enter(); }
  void Leave() const override { whole_.Leave(); }

 private:
  const PackedProduct<T>& whole_;
  int64_t i_, j_, k_;
};

template <class T>
constexpr DType kStored = std::is_same_v<T, float>    ? DType::kF32
                          : std::is_same_v<T, double> ? DType::kF64
                          : sizeof(T) == 4            ? DType::kU32
                                                      : DType::kU64;

// What the results of parts are added up in.
template <class T>
using PartSum = std::conditional_t<std::is_same_v<T, float>, double, T>;

template <class T>
ResultMatrix PartMatrix(T* data, int64_t row) {
  return {kStored<T>, reinterpret_cast<std::byte*>(data), row};
}

// Adds beta times what is there and stores: n elements of a row.
template <class T>
void StoreSums(const ResultMatrix& result, int64_t i, int64_t j, int64_t n, const PartSum<T>* sums,
               T alpha, T beta) {
  constexpr int64_t kAtOnce = program::TargetFacts::kLeastPageBytes / 16;
  using Sum = PartSum<T>;
  for (int64_t x = 0; x < n; x += kAtOnce) {
    T row[kAtOnce];
    int64_t count = std::min(kAtOnce, n - x);
    std::byte* to = result.data + (i * result.row + j + x) * ByteWidth(result.dtype);
    if (beta != 0) LoadRun<T>(result.dtype, to, count, row);
    for (int64_t q = 0; q < count; ++q) {
      Sum sum = static_cast<Sum>(alpha) * sums[x + q];
      if (beta != 0) sum += static_cast<Sum>(beta) * static_cast<Sum>(row[q]);
      row[q] = static_cast<T>(sum);
    }
    StoreRun<T>(result.dtype, row, count, to);
  }
}

// Parts of a product that are shared out: of the contraction, whose results are added in order, and
// of the columns.
struct ProductParts {
  int64_t depths = 1, depth, col_parts = 1, cols;
  bool reads_once = false;

  bool are_one() const { return depths == 1 && col_parts == 1; }
  ProductSizes Largest(const ProductSizes& s) const { return {s.m, cols, depth, reads_once}; }
};

// Whether reading b takes longer than multiplying it: few rows by a matrix that no cache of a core
// holds. Columns that are consecutive are long runs as they are.
bool IsBoundByReading(const PanelForm& form, const ProductSizes& s) {
  // Panels of a are packed for every part, which is little then.
  constexpr int64_t kMostRows = 4 * program::TargetFacts::kTileRows;
  auto rows = static_cast<double>(RoundUp(s.m, form.rows));
  return !s.b_along && s.m <= kMostRows && s.n >= 8 * s.m &&
         s.n * s.k * form.element > HostCaches().l2 &&
         rows / form.speed < static_cast<double>(form.element) / kCoreReads;
}

// Rows of b are read in runs that a processor's prefetcher follows, so that parts are of columns
// and of the contraction; sums on the way stay an eighth of what b is, in bytes.
ProductParts PartsForReading(const PanelForm& form, const ProductSizes& s) {
  // Bytes of a row, parts for many threads whatever the machine has, elements of the contraction.
  constexpr int64_t kRun = program::TargetFacts::kLeastPageBytes / 2;
  constexpr int64_t kParts = program::TargetFacts::kJoinedPieces;
  constexpr int64_t kLeastDepth = program::SumOrder::kBlock / 2;
  int64_t by_run = CeilDiv(s.n, RoundUp(kRun / form.element, form.cols));
  int64_t by_sums = s.k * form.element / (8 * s.m * form.sum);
  int64_t most = std::max<int64_t>(1, std::min({kMostSplits, by_sums, s.k / kLeastDepth}));
  ProductParts parts;
  parts.reads_once = true;
  parts.depths = std::max(std::min(most, CeilDiv(kParts, by_run)), CeilDiv(s.k, kLongSum));
  parts.depth = RoundUp(CeilDiv(s.k, parts.depths), 64);
  parts.depths = CeilDiv(s.k, parts.depth);
  // Some for each thread of this machine: that changes no sum, as more parts of the contraction
  // would.
  parts.col_parts = std::max(by_run, CeilDiv(4 * TaskThreads(), parts.depths));
  parts.cols = RoundUp(CeilDiv(s.n, parts.col_parts), form.cols);
  parts.col_parts = CeilDiv(s.n, parts.cols);
  return parts;
}

ProductParts PartsOf(const PanelForm& form, const ProductSizes& s) {
  if (IsBoundByReading(form, s)) return PartsForReading(form, s);
  ProductParts parts;
  parts.depth = s.k;
  parts.cols = s.n;
  int64_t tasks = CeilDiv(s.m, 4 * form.rows) * CeilDiv(s.n, 2 * form.cols);
  if (s.k < 2 * kSplitDepth || tasks > kSplitTasks) return parts;
  int64_t depths = std::max(std::min(kMostSplits, s.k / kSplitDepth), CeilDiv(s.k, kLongSum));
  parts.depth = RoundUp(CeilDiv(s.k, depths), 64);
  parts.depths = CeilDiv(s.k, parts.depth);
  return parts;
}

// Adds the results of parts of the contraction, in order.
template <class T>
void AddParts(const Means& means, const ProductSizes& s, int64_t depths, const T* parts,
              const ResultMatrix& result, T alpha, T beta) {
  constexpr int64_t kAtOnce = program::TargetFacts::kLeastPageBytes / 16;
  int64_t runs = CeilDiv(s.n, kAtOnce);
  double cost = static_cast<double>(kAtOnce * depths);
  ForPieces(means.pool, s.m * runs, cost, [&](int64_t begin, int64_t end) {
    PartSum<T> sums[kAtOnce];
    for (int64_t item = begin; item < end; ++item) {
      int64_t i = item / runs, j = item % runs * kAtOnce, n = std::min(kAtOnce, s.n - j);
      std::fill_n(sums, n, PartSum<T>(0));
      for (int64_t part = 0; part < depths; ++part) {
        const T* from = parts + (part * s.m + i) * s.n + j;
        for (int64_t x = 0; x < n; ++x) sums[x] += static_cast<PartSum<T>>(from[x]);
      }
      StoreSums<T>(result, i, j, n, sums, alpha, beta);
    }
  });
}

// Split-K: the result is small, or b is large and few rows are multiplied by it.
template <class T>
Status MultiplySplit(const Means& means, const ProductSizes& s, const ProductParts& cut,
                     const PackedProduct<T>& product, const ResultMatrix& result, T alpha, T beta) {
  int64_t size = s.m * s.n;
  auto parts = TRY(Scratch<T>::New(means, cut.depths * size));
  double cost = static_cast<double>(s.m * cut.cols) * static_cast<double>(cut.depth) / 40;
  int64_t count = cut.depths * cut.col_parts;
  TRY(TryPieces(means.pool, count, cost, [&](int64_t begin, int64_t end) -> Status {
    for (int64_t part = begin; part < end; ++part) {
      int64_t k = part / cut.col_parts * cut.depth, j = part % cut.col_parts * cut.cols;
      ProductSizes sizes = {s.m, std::min(cut.cols, s.n - j), std::min(cut.depth, s.k - k),
                            cut.reads_once};
      PartOfProduct<T> one(product, 0, j, k);
      T* to = parts.data() + part / cut.col_parts * size + j;
      TRY(BlockedProduct<T>(means.Alone(), sizes, one, PartMatrix(to, s.n), T(1), T(0), {}).Run());
    }
    return {};
  }));
  AddParts<T>(means, s, cut.depths, parts.data(), result, alpha, beta);
  return {};
}

// A long contraction by parts, one after the other; f32 is added in f64.
template <class T>
Status MultiplyLong(const Means& means, const ProductSizes& s, const PackedProduct<T>& product,
                    const ResultMatrix& result, T alpha, T beta) {
  using Sum = PartSum<T>;
  int64_t rows = std::min(s.m, kLongRows), cols = std::min(s.n, kLongCols);
  auto sums = TRY(Scratch<Sum>::New(means, rows * cols));
  auto part = TRY(Scratch<T>::New(means, rows * cols));
  for (int64_t i = 0; i < s.m; i += rows) {
    for (int64_t j = 0; j < s.n; j += cols) {
      ProductSizes sizes = {std::min(rows, s.m - i), std::min(cols, s.n - j), 0};
      int64_t size = sizes.m * sizes.n;
      for (int64_t p = 0; p < s.k; p += kLongSum) {
        sizes.k = std::min(kLongSum, s.k - p);
        PartOfProduct<T> one(product, i, j, p);
        TRY(BlockedProduct<T>(means, sizes, one, PartMatrix(part.data(), sizes.n), T(1), T(0), {})
                .Run());
        ForPieces(means.pool, size, 1.0, [&](int64_t begin, int64_t end) {
          for (int64_t x = begin; x < end; ++x) {
            sums.data()[x] = (p == 0 ? Sum(0) : sums.data()[x]) + static_cast<Sum>(part.data()[x]);
          }
        });
      }
      ForPieces(means.pool, sizes.m, static_cast<double>(sizes.n), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          StoreSums<T>(result, i + r, j, sizes.n, sums.data() + r * sizes.n, alpha, beta);
        }
      });
    }
  }
  return {};
}

template <class T>
int64_t BlockedScratch(const PanelForm& form, const ProductSizes& s, int64_t threads) {
  Blocking cut = BlockingOf(form, s, nullptr);
  int64_t shared = 0, own = KeptSums(form, cut) * int64_t{sizeof(T)};
  (cut.a_in_tasks ? own : shared) +=
      cut.a_in_tasks ? OwnBytes(form, cut, true) : SharedBytes(form, cut, true, cut.outer_rows);
  (cut.b_in_tasks ? own : shared) +=
      cut.b_in_tasks ? OwnBytes(form, cut, false) : SharedBytes(form, cut, false, cut.outer_cols);
  int64_t tasks = CeilDiv(s.m, cut.task_rows) * CeilDiv(s.n, cut.task_cols);
  return shared + own * std::min(threads, tasks);
}

std::string TextOf(const Blocking& cut) {
  return StrCat("tasks of ", cut.task_rows, " x ", cut.task_cols, ", ", cut.panels,
                " panels of depth ", cut.depth, ", ", cut.outer_rows, " rows and ", cut.outer_cols,
                " columns packed at once");
}

// Tiles of elements that are packed as what they are summed in.
template <class T>
class TileProduct : public PackedProduct<T> {
 public:
  TileProduct(int64_t n, const PanelSource<T>& a, const PanelSource<T>& b)
      : kernel_(TileKernelFor<T>(n)), a_(a), b_(b) {}
  static PanelForm FormOf(const TileKernel<T>& kernel) {
    double speed = (std::is_floating_point_v<T> ? 5.0 : 2.0) * kernel.lanes;
    return {kernel.rows, kernel.cols, 1, sizeof(T), 0, 0, sizeof(T), speed};
  }
  PanelForm form() const override { return FormOf(kernel_); }
  void Pack(bool is_left, int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t panel,
            std::byte* out) const override {
    (is_left ? a_ : b_)
        .PackMany(first, count, k0, kn, is_left ? kernel_.rows : kernel_.cols,
                  panel / int64_t{sizeof(T)}, reinterpret_cast<T*>(out));
  }
  void Run(int64_t k, const std::byte* a, const std::byte* b, T* c, int64_t ldc, T alpha,
           T beta) const override {
    kernel_.packed(k, reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b), c, ldc, alpha,
                   beta);
  }

 private:
  const TileKernel<T>& kernel_;
  const PanelSource<T>&a_, &b_;
};

}  // namespace

template <class T>
Status MultiplyPacked(const Means& means, const ProductSizes& sizes,
                      const PackedProduct<T>& product, const ResultMatrix& result, T alpha, T beta,
                      const RowsDone& done) {
  if (sizes.m <= 0 || sizes.n <= 0) return {};
  ProductParts parts = PartsOf(product.form(), sizes);
  if (parts.are_one() && sizes.k <= kLongSum) {
    return BlockedProduct<T>(means, sizes, product, result, alpha, beta, done).Run();
  }
  TRY(parts.are_one() ? MultiplyLong<T>(means, sizes, product, result, alpha, beta)
                      : MultiplySplit<T>(means, sizes, parts, product, result, alpha, beta));
  if (done) ForPieces(means.pool, sizes.m, static_cast<double>(sizes.n), done);
  return {};
}

template <class T>
int64_t PackedScratch(const PanelForm& form, const ProductSizes& s, int64_t threads) {
  if (s.m <= 0 || s.n <= 0) return 0;
  ProductParts parts = PartsOf(form, s);
  const bool is_long = parts.are_one() && s.k > kLongSum;
  ProductSizes part = parts.Largest(s);
  if (is_long) part = {std::min(s.m, kLongRows), std::min(s.n, kLongCols), kLongSum};
  VLOG("cpu", 3) << "product of " << s.m << " x " << s.n << " x " << s.k << ": "
                 << (parts.reads_once ? "bound by reading its second operand, "
                                      : "bound by multiplying, ")
                 << parts.col_parts << " parts of columns, " << parts.depths
                 << " of the contraction; " << TextOf(BlockingOf(form, part, nullptr));
  if (!parts.are_one()) {
    return parts.depths * s.m * s.n * int64_t{sizeof(T)} +
           std::min(threads, parts.depths * parts.col_parts) * BlockedScratch<T>(form, part, 1);
  }
  int64_t sums = is_long ? part.m * part.n * int64_t{sizeof(PartSum<T>) + sizeof(T)} : 0;
  return sums + BlockedScratch<T>(form, part, threads);
}

template <class T>
Status Multiply(const Means& means, const ProductSizes& sizes, const PanelSource<T>& a,
                const PanelSource<T>& b, const ResultMatrix& result, T alpha, T beta,
                const RowsDone& done) {
  return MultiplyPacked<T>(means, sizes, TileProduct<T>(sizes.n, a, b), result, alpha, beta, done);
}

template <class T>
Status Multiply(const Means& means, int64_t m, int64_t n, int64_t k, const PanelSource<T>& a,
                const PanelSource<T>& b, T* c, int64_t ldc, T alpha, T beta, const RowsDone& done) {
  return Multiply<T>(means, {m, n, k}, a, b, PartMatrix(c, ldc), alpha, beta, done);
}

template <class T>
PanelForm TileForm(int64_t n) {
  return TileForm(TileKernelFor<T>(n));
}
template <class T>
PanelForm TileForm(const TileKernel<T>& kernel) {
  return TileProduct<T>::FormOf(kernel);
}

template <class T>
int64_t MultiplyScratch(const ProductSizes& s, int64_t threads) {
  if (s.m <= 0 || s.n <= 0) return 0;
  return PackedScratch<T>(TileForm<T>(s.n), s, threads);
}

#define WEFT_INSTANTIATE(T)                                                                       \
  template Status MultiplyPacked<T>(const Means&, const ProductSizes&, const PackedProduct<T>&,   \
                                    const ResultMatrix&, T, T, const RowsDone&);                  \
  template int64_t PackedScratch<T>(const PanelForm&, const ProductSizes&, int64_t);              \
  template Status Multiply<T>(const Means&, const ProductSizes&, const PanelSource<T>&,           \
                              const PanelSource<T>&, const ResultMatrix&, T, T, const RowsDone&); \
  template Status Multiply<T>(const Means&, int64_t, int64_t, int64_t, const PanelSource<T>&,     \
                              const PanelSource<T>&, T*, int64_t, T, T, const RowsDone&);         \
  template PanelForm TileForm<T>(int64_t);                                                        \
  template PanelForm TileForm<T>(const TileKernel<T>&);                                           \
  template int64_t MultiplyScratch<T>(const ProductSizes&, int64_t);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
