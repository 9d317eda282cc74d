// Blocked matrix multiplication: panels of both operands are packed, tasks of some rows and columns
// of the result go through the whole depth, one panel of it at a time. How a product is cut depends
// on its sizes and on the caches, never on threads.
#include "cpu/routines/multiply.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "cpu/routines/machine.h"
#include "cpu/routines/tiles.h"

namespace weft::cpu {
namespace {

constexpr int64_t kTasks = 32;             // for many threads, as long as each is worth one
constexpr int64_t kTaskWork = 1 << 21;     // multiplications that are
constexpr int64_t kShallow = 64;           // depth below which writing the result takes longest
constexpr int64_t kShallowCols = 2048;     // of a task then
constexpr int64_t kMostPacked = 32 << 20;  // bytes of an operand that are packed at once
constexpr int64_t kPackedTogether = 8;     // panels
constexpr int64_t kMostDepth = 512;        // of a panel: f32 sums of so many are added elsewhere
// Of a contraction that is shared out because the result is small.
constexpr int64_t kSplitDepth = 1024, kMostSplits = 16, kSplitTasks = 8;
// Of a product whose contraction is long, so much is summed elsewhere at once.
constexpr int64_t kLongRows = 1024, kLongCols = 4096;

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
int64_t RoundUp(int64_t a, int64_t unit) {
  return CeilDiv(a, unit) * unit;
}

int64_t OrAtLeast(int64_t bytes, int64_t least) {
  return std::max(bytes, least);
}
int64_t FirstCache() {
  return OrAtLeast(HostCaches().l1, 32 << 10);
}
int64_t SecondCache() {
  return OrAtLeast(HostCaches().l2, 256 << 10);
}

struct Blocking {
  int64_t depth, panels;           // k of a panel, and how many make up the whole
  int64_t task_rows, task_cols;    // of the result
  int64_t outer_rows, outer_cols;  // whose panels are there at once
  bool a_in_tasks, b_in_tasks;     // panels that no other task needs are packed where they are used
  bool by_rows;                    // a task goes along rows of tiles
};

// Depth of panels: one of b stays in L1 beside what streams through. Even parts.
void CutDepth(const PanelForm& form, int64_t k, Blocking& cut) {
  int64_t fits = FirstCache() * 3 / 4 / (form.cols * form.element);
  int64_t unit = std::max<int64_t>(form.step, 16);
  int64_t most = std::clamp(fits / unit * unit, unit, std::max(kMostDepth, unit));
  cut.panels = std::max<int64_t>(1, CeilDiv(k, most));
  cut.depth = std::max(unit, RoundUp(CeilDiv(k, cut.panels), unit));
  cut.panels = std::max<int64_t>(1, CeilDiv(k, cut.depth));
}

// Tasks: their part of the result stays in L2.
void CutTasks(const PanelForm& form, int64_t m, int64_t n, int64_t k, Blocking& cut) {
  auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(SecondCache() / 4 / form.sum)));
  cut.by_rows = k <= kShallow;
  int64_t rows = std::min(m, cut.by_rows ? side / 4 : side);
  int64_t cols = std::min(n, cut.by_rows ? kShallowCols : side);
  auto even = [](int64_t all, int64_t part, int64_t unit) {
    return RoundUp(CeilDiv(all, CeilDiv(all, part)), unit);
  };
  rows = even(m, RoundUp(rows, form.rows), form.rows);
  cols = even(n, RoundUp(cols, form.cols), form.cols);
  while (CeilDiv(m, rows) * CeilDiv(n, cols) < kTasks && rows * cols * k > kTaskWork) {
    bool rows_go = rows > form.rows && rows >= cols;
    if (!rows_go && cols <= form.cols) {
      if (rows <= form.rows) break;
      rows_go = true;
    }
    int64_t& part = rows_go ? rows : cols;
    part = RoundUp(CeilDiv(part, 2), rows_go ? form.rows : form.cols);
  }
  cut.task_rows = rows;
  cut.task_cols = cols;
}

Blocking BlockingOf(const PanelForm& form, int64_t m, int64_t n, int64_t k) {
  Blocking cut;
  CutDepth(form, k, cut);
  CutTasks(form, m, n, k, cut);
  cut.a_in_tasks = n <= cut.task_cols;
  cut.b_in_tasks = m <= cut.task_rows;
  int64_t vectors = kMostPacked / (cut.depth * cut.panels * form.element);
  auto outer = [&](int64_t all, int64_t part, bool in_tasks) {
    return in_tasks ? all : std::min(all, std::max<int64_t>(1, vectors / part) * part);
  };
  cut.outer_rows = outer(m, cut.task_rows, cut.a_in_tasks);
  cut.outer_cols = outer(n, cut.task_cols, cut.b_in_tasks);
  return cut;
}

int64_t SharedBytes(const PanelForm& form, const Blocking& cut, bool is_left, int64_t vectors) {
  int64_t width = is_left ? form.rows : form.cols;
  return CeilDiv(vectors, width) * form.PanelBytes(is_left, cut.depth) * cut.panels;
}
int64_t OwnBytes(const PanelForm& form, const Blocking& cut, bool is_left) {
  int64_t vectors = is_left ? cut.task_rows : cut.task_cols,
          width = is_left ? form.rows : form.cols;
  return CeilDiv(vectors, width) * form.PanelBytes(is_left, cut.depth);
}

// One product, cut.
template <class T>
class BlockedProduct {
 public:
  BlockedProduct(const Means& means, const ProductSizes& sizes, const PackedProduct<T>& product,
                 const ResultMatrix& result, T alpha, T beta, const RowsDone& done)
      : means_(means),
        sizes_(sizes),
        product_(product),
        result_(result),
        alpha_(alpha),
        beta_(beta),
        done_(done),
        form_(product.form()),
        cut_(BlockingOf(form_, sizes.m, sizes.n, sizes.k)) {}

  Status Run() {
    auto [m, n, k] = sizes_;
    auto a = TRY(Scratch<std::byte>::New(
        means_, cut_.a_in_tasks ? 0 : SharedBytes(form_, cut_, true, cut_.outer_rows)));
    auto b = TRY(Scratch<std::byte>::New(
        means_, cut_.b_in_tasks ? 0 : SharedBytes(form_, cut_, false, cut_.outer_cols)));
    a_ = a.data();
    b_ = b.data();
    tells_ = done_ && n <= cut_.outer_cols;  // rows are complete before all is
    for (int64_t j = 0; j < n; j += cut_.outer_cols) {
      for (int64_t i = 0; i < m; i += cut_.outer_rows) {
        Outer outer = {i, std::min(cut_.outer_rows, m - i), j, std::min(cut_.outer_cols, n - j)};
        PackShared(outer, /*with_b=*/i == 0);
        TRY(RunTasks(outer));
      }
    }
    if (done_ && !tells_) ForPieces(means_.pool, m, static_cast<double>(n), done_);
    return {};
  }

 private:
  struct Outer {
    int64_t i, rows, j, cols;
  };
  struct Own {
    std::byte *a, *b;
    T* wide;
  };

  int64_t DepthOf(int64_t panel) const {
    return std::min(cut_.depth, sizes_.k - panel * cut_.depth);
  }
  std::byte* Shared(bool is_left, int64_t vectors, int64_t panel, int64_t at) const {
    int64_t width = is_left ? form_.rows : form_.cols;
    return (is_left ? a_ : b_) +
           (panel * CeilDiv(vectors, width) + at / width) * form_.PanelBytes(is_left, cut_.depth);
  }

  // Everything that tasks share, at once: some panels of one depth at a time, which are neighbours
  // in memory where operands lie across.
  void PackShared(const Outer& outer, bool with_b) const {
    int64_t a_unit = kPackedTogether * form_.rows, b_unit = kPackedTogether * form_.cols;
    int64_t a_count = cut_.a_in_tasks ? 0 : CeilDiv(outer.rows, a_unit);
    int64_t b_count = cut_.b_in_tasks || !with_b ? 0 : CeilDiv(outer.cols, b_unit);
    int64_t count = a_count + b_count;
    if (count == 0) return;
    double vectors = static_cast<double>(a_count * a_unit + b_count * b_unit);
    double cost = vectors / static_cast<double>(count) * static_cast<double>(cut_.depth) * 0.1 *
                  static_cast<double>(form_.element);
    ForPieces(means_.pool, count * cut_.panels, cost, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t panel = item / count, number = item % count;
        bool is_left = number < a_count;
        int64_t unit = is_left ? a_unit : b_unit, first = is_left ? outer.i : outer.j;
        int64_t all = is_left ? outer.rows : outer.cols;
        int64_t at = (is_left ? number : number - a_count) * unit;
        PackPanels(is_left, first + at, std::min(unit, all - at), panel,
                   Shared(is_left, all, panel, at));
      }
    });
  }

  void PackPanels(bool is_left, int64_t first, int64_t count, int64_t panel, std::byte* out) const {
    product_.Pack(is_left, first, count, panel * cut_.depth, DepthOf(panel),
                  form_.PanelBytes(is_left, cut_.depth), out);
  }

  Status RunTasks(const Outer& outer) const {
    int64_t row_tasks = CeilDiv(outer.rows, cut_.task_rows);
    int64_t col_tasks = CeilDiv(outer.cols, cut_.task_cols);
    double cost = static_cast<double>(cut_.task_rows * cut_.task_cols) *
                  static_cast<double>(sizes_.k * form_.element) / 160;
    std::vector<std::atomic<int64_t>> finished(tells_ ? static_cast<size_t>(row_tasks) : 0);
    auto run = [&](int64_t begin, int64_t end) -> Status {
      auto a =
          TRY(Scratch<std::byte>::New(means_, cut_.a_in_tasks ? OwnBytes(form_, cut_, true) : 0));
      auto b =
          TRY(Scratch<std::byte>::New(means_, cut_.b_in_tasks ? OwnBytes(form_, cut_, false) : 0));
      bool as_is = IsStoredAs<T>(result_.dtype);
      auto wide = TRY(Scratch<T>::New(means_, as_is ? 0 : cut_.task_rows * cut_.task_cols));
      product_.Enter();
      for (int64_t task = begin; task < end; ++task) {
        // Rows that somebody waits for are completed one after the other.
        bool along = tells_ || cut_.by_rows;
        int64_t row = along ? task / col_tasks : task % row_tasks;
        int64_t col = along ? task % col_tasks : task / row_tasks;
        int64_t i = row * cut_.task_rows, j = col * cut_.task_cols;
        RunTask(outer, i, std::min(outer.rows, i + cut_.task_rows), j,
                std::min(outer.cols, j + cut_.task_cols), {a.data(), b.data(), wide.data()});
        if (!tells_) continue;
        auto& count = finished[static_cast<size_t>(row)];
        if (count.fetch_add(1, std::memory_order_acq_rel) + 1 == col_tasks) {
          done_(outer.i + i, outer.i + std::min(outer.rows, i + cut_.task_rows));
        }
      }
      product_.Leave();
      return {};
    };
    return TryPieces(means_.pool, row_tasks * col_tasks, cost, run);
  }

  // Rows [i0, i1) and columns [j0, j1) of what is there at once.
  void RunTask(const Outer& outer, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
               const Own& own) const {
    bool as_is = IsStoredAs<T>(result_.dtype);
    int64_t width = ByteWidth(result_.dtype), cols = j1 - j0;
    std::byte* to = result_.data + ((outer.i + i0) * result_.row + outer.j + j0) * width;
    T* c = as_is ? reinterpret_cast<T*>(to) : own.wide;
    int64_t ldc = as_is ? result_.row : cols;
    for (int64_t i = 0; !as_is && beta_ != 0 && i < i1 - i0; ++i) {
      LoadRun<T>(result_.dtype, to + i * result_.row * width, cols, c + i * ldc);
    }
    for (int64_t panel = 0; panel < cut_.panels; ++panel) {
      const std::byte *a = own.a, *b = own.b;
      if (cut_.a_in_tasks) {
        PackPanels(true, outer.i + i0, i1 - i0, panel, own.a);
      } else {
        a = Shared(true, outer.rows, panel, i0);
      }
      if (cut_.b_in_tasks) {
        PackPanels(false, outer.j + j0, j1 - j0, panel, own.b);
      } else {
        b = Shared(false, outer.cols, panel, j0);
      }
      RunTiles(i1 - i0, cols, DepthOf(panel), a, b, c, ldc, panel == 0 ? beta_ : T(1));
    }
    for (int64_t i = 0; !as_is && i < i1 - i0; ++i) {
      StoreRun<T>(result_.dtype, c + i * ldc, cols, to + i * result_.row * width);
    }
  }

  void RunTiles(int64_t m, int64_t n, int64_t k, const std::byte* a, const std::byte* b, T* c,
                int64_t ldc, T beta) const {
    int64_t a_panel = form_.PanelBytes(true, cut_.depth), a_count = CeilDiv(m, form_.rows);
    int64_t b_panel = form_.PanelBytes(false, cut_.depth), b_count = CeilDiv(n, form_.cols);
    auto tile = [&](int64_t x, int64_t y) {
      int64_t i = x * form_.rows, j = y * form_.cols;
      T* to = c + i * ldc + j;
      if (i + form_.rows <= m && j + form_.cols <= n) {
        product_.Run(k, a + x * a_panel, b + y * b_panel, to, ldc, alpha_, beta);
      } else {
        EdgeTile(std::min(form_.rows, m - i), std::min(form_.cols, n - j), k, a + x * a_panel,
                 b + y * b_panel, to, ldc, beta);
      }
    };
    if (cut_.by_rows) {
      for (int64_t x = 0; x < a_count; ++x) {
        for (int64_t y = 0; y < b_count; ++y) tile(x, y);
      }
      return;
    }
    for (int64_t y = 0; y < b_count; ++y) {
      for (int64_t x = 0; x < a_count; ++x) tile(x, y);
    }
  }

  void EdgeTile(int64_t rows, int64_t cols, int64_t k, const std::byte* a, const std::byte* b, T* c,
                int64_t ldc, T beta) const {
    alignas(64) T tile[kMostTile];
    product_.Run(k, a, b, tile, form_.cols, alpha_, T(0));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        T& to = c[i * ldc + j];
        T value = tile[i * form_.cols + j];
        to = beta != 0 ? static_cast<T>(value + beta * to) : value;
      }
    }
  }

  const Means& means_;
  ProductSizes sizes_;
  const PackedProduct<T>& product_;
  ResultMatrix result_;
  T alpha_, beta_;
  const RowsDone& done_;
  PanelForm form_;
  Blocking cut_;
  bool tells_ = false;
  std::byte *a_ = nullptr, *b_ = nullptr;
};

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
  constexpr int64_t kAtOnce = 256;
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

// How many parts the contraction of a small result comes in; 1: it does not.
int64_t SplitsOf(const PanelForm& form, const ProductSizes& s) {
  if (s.k < 2 * kSplitDepth) return 1;
  int64_t tasks = CeilDiv(s.m, 4 * form.rows) * CeilDiv(s.n, 2 * form.cols);
  if (tasks > kSplitTasks) return 1;
  int64_t splits = std::min(kMostSplits, s.k / kSplitDepth);
  return std::max(splits, CeilDiv(s.k, kLongSum));
}

// A small result of a long contraction: parts of that are shared out, their results are added in
// order.
template <class T>
Status MultiplySplit(const Means& means, const ProductSizes& s, int64_t splits,
                     const PackedProduct<T>& product, const ResultMatrix& result, T alpha, T beta) {
  int64_t size = s.m * s.n, depth = RoundUp(CeilDiv(s.k, splits), 64);
  splits = CeilDiv(s.k, depth);
  auto parts = TRY(Scratch<T>::New(means, splits * size));
  double cost = static_cast<double>(size) * static_cast<double>(depth) / 40;
  TRY(TryPieces(means.pool, splits, cost, [&](int64_t begin, int64_t end) -> Status {
    for (int64_t part = begin; part < end; ++part) {
      int64_t k = part * depth;
      ProductSizes sizes = {s.m, s.n, std::min(depth, s.k - k)};
      PartOfProduct<T> one(product, 0, 0, k);
      TRY(BlockedProduct<T>(means.Alone(), sizes, one, PartMatrix(parts.data() + part * size, s.n),
                            T(1), T(0), {})
              .Run());
    }
    return {};
  }));
  ForPieces(means.pool, s.m, static_cast<double>(s.n * splits), [&](int64_t begin, int64_t end) {
    constexpr int64_t kAtOnce = 256;
    PartSum<T> sums[kAtOnce];
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < s.n; j += kAtOnce) {
        int64_t n = std::min(kAtOnce, s.n - j);
        std::fill_n(sums, n, PartSum<T>(0));
        for (int64_t part = 0; part < splits; ++part) {
          const T* from = parts.data() + part * size + i * s.n + j;
          for (int64_t x = 0; x < n; ++x) sums[x] += static_cast<PartSum<T>>(from[x]);
        }
        StoreSums<T>(result, i, j, n, sums, alpha, beta);
      }
    }
  });
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
int64_t BlockedScratch(const PanelForm& form, const ProductSizes& s, bool as_is, int64_t threads) {
  Blocking cut = BlockingOf(form, s.m, s.n, s.k);
  int64_t shared = 0, own = as_is ? 0 : cut.task_rows * cut.task_cols * int64_t{sizeof(T)};
  (cut.a_in_tasks ? own : shared) +=
      cut.a_in_tasks ? OwnBytes(form, cut, true) : SharedBytes(form, cut, true, cut.outer_rows);
  (cut.b_in_tasks ? own : shared) +=
      cut.b_in_tasks ? OwnBytes(form, cut, false) : SharedBytes(form, cut, false, cut.outer_cols);
  int64_t tasks = CeilDiv(s.m, cut.task_rows) * CeilDiv(s.n, cut.task_cols);
  return shared + own * std::min(threads, tasks);
}

// Tiles of elements that are packed as what they are summed in.
template <class T>
class TileProduct : public PackedProduct<T> {
 public:
  TileProduct(int64_t n, const PanelSource<T>& a, const PanelSource<T>& b)
      : kernel_(TileKernelFor<T>(n)), a_(a), b_(b) {}
  static PanelForm FormOf(int64_t n) {
    const TileKernel<T>& kernel = TileKernelFor<T>(n);
    return {kernel.rows, kernel.cols, 1, sizeof(T), 0, 0, sizeof(T)};
  }
  PanelForm form() const override {
    return {kernel_.rows, kernel_.cols, 1, sizeof(T), 0, 0, sizeof(T)};
  }
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
  int64_t splits = SplitsOf(product.form(), sizes);
  if (splits == 1 && sizes.k <= kLongSum) {
    return BlockedProduct<T>(means, sizes, product, result, alpha, beta, done).Run();
  }
  TRY(splits > 1 ? MultiplySplit<T>(means, sizes, splits, product, result, alpha, beta)
                 : MultiplyLong<T>(means, sizes, product, result, alpha, beta));
  if (done) ForPieces(means.pool, sizes.m, static_cast<double>(sizes.n), done);
  return {};
}

template <class T>
int64_t PackedScratch(const PanelForm& form, const ProductSizes& s, DType result, int64_t threads) {
  if (s.m <= 0 || s.n <= 0) return 0;
  int64_t splits = SplitsOf(form, s);
  if (splits > 1) {
    ProductSizes part = {s.m, s.n, RoundUp(CeilDiv(s.k, splits), 64)};
    return splits * s.m * s.n * int64_t{sizeof(T)} +
           std::min(threads, splits) * BlockedScratch<T>(form, part, true, 1);
  }
  if (s.k <= kLongSum) return BlockedScratch<T>(form, s, IsStoredAs<T>(result), threads);
  ProductSizes part = {std::min(s.m, kLongRows), std::min(s.n, kLongCols), kLongSum};
  return part.m * part.n * int64_t{sizeof(PartSum<T>) + sizeof(T)} +
         BlockedScratch<T>(form, part, true, threads);
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
int64_t MultiplyScratch(int64_t m, int64_t n, int64_t k, int64_t threads, DType result) {
  if (m <= 0 || n <= 0) return 0;
  DType stored = result == DType::kInvalid ? kStored<T> : result;
  return PackedScratch<T>(TileProduct<T>::FormOf(n), {m, n, k}, stored, threads);
}

#define WEFT_INSTANTIATE(T)                                                                       \
  template Status MultiplyPacked<T>(const Means&, const ProductSizes&, const PackedProduct<T>&,   \
                                    const ResultMatrix&, T, T, const RowsDone&);                  \
  template int64_t PackedScratch<T>(const PanelForm&, const ProductSizes&, DType, int64_t);       \
  template Status Multiply<T>(const Means&, const ProductSizes&, const PanelSource<T>&,           \
                              const PanelSource<T>&, const ResultMatrix&, T, T, const RowsDone&); \
  template Status Multiply<T>(const Means&, int64_t, int64_t, int64_t, const PanelSource<T>&,     \
                              const PanelSource<T>&, T*, int64_t, T, T, const RowsDone&);         \
  template int64_t MultiplyScratch<T>(int64_t, int64_t, int64_t, int64_t, DType);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
