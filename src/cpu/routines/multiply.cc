#include "cpu/routines/multiply.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <vector>

#include "base/elements.h"
#include "cpu/routines/tiles.h"

namespace weft::cpu {
namespace {

constexpr int64_t kDepthBytes = 2048;  // of a vector in a packed panel: panels of b stay in L1
constexpr int64_t kOuter = 4096;       // vectors packed at once, of both sides
constexpr int64_t kTaskRows = 128;     // of c in one task: its part of a stays in L2
constexpr int64_t kTaskCols = 256;
constexpr int64_t kTasks = 16;
constexpr int64_t kMostWidth = 64;  // of a panel

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Panels of `width` vectors of a source, one after the other.
template <class T>
void PackPanels(ThreadPool* pool, const PanelSource<T>& source, int64_t first, int64_t count,
                int64_t k0, int64_t kn, int64_t width, T* out) {
  double cost = static_cast<double>(width * kn) * 0.4;
  ForPieces(pool, CeilDiv(count, width), cost, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      int64_t at = panel * width;
      source.Pack(first + at, std::min(width, count - at), k0, kn, width, out + at * kn);
    }
  });
}

template <class T>
void EdgeTile(const TileKernel<T>& kernel, int64_t rows, int64_t cols, int64_t k, const T* a,
              const T* b, T* c, int64_t ldc, T alpha, T beta) {
  alignas(64) T tile[1024];
  kernel.packed(k, a, b, tile, kernel.cols, alpha, T(0));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      T& to = c[i * ldc + j];
      T value = tile[i * kernel.cols + j];
      to = beta != 0 ? static_cast<T>(value + beta * to) : value;
    }
  }
}

// What one call of MultiplyBlock works on: m x n of c, and k of the depth.
template <class T>
struct Block {
  int64_t m, n, k;
  T* c;
  int64_t ldc;
  T alpha, beta;
};

// Rows [i0, i1) and columns [j0, j1) from panels of a that start at row i0.
template <class T>
void MultiplyTask(const TileKernel<T>& kernel, const Block<T>& s, int64_t i0, int64_t i1,
                  int64_t j0, int64_t j1, const T* a, const T* b) {
  for (int64_t j = j0; j < j1; j += kernel.cols) {
    for (int64_t i = i0; i < i1; i += kernel.rows) {
      T* to = s.c + i * s.ldc + j;
      const T *left = a + (i - i0) * s.k, *right = b + j * s.k;
      if (i + kernel.rows <= s.m && j + kernel.cols <= s.n) {
        kernel.packed(s.k, left, right, to, s.ldc, s.alpha, s.beta);
      } else {
        EdgeTile<T>(kernel, std::min<int64_t>(kernel.rows, s.m - i),
                    std::min<int64_t>(kernel.cols, s.n - j), s.k, left, right, to, s.ldc, s.alpha,
                    s.beta);
      }
    }
  }
}

// From packed panels, cut in tasks. `a_source`: panels of a are not there yet; each task packs its
// own, which pays when no other task needs them. `done`: not null when this completes rows, which
// are numbered from `first`; the last task of some rows tells.
template <class T>
Status MultiplyBlock(const Means& means, const TileKernel<T>& kernel, const Block<T>& s, const T* a,
                     const PanelSource<T>* a_source, int64_t first, int64_t k0, const T* b,
                     const RowsDone* done) {
  int64_t task_rows = CeilDiv(kTaskRows, kernel.rows) * kernel.rows;
  int64_t task_cols = CeilDiv(kTaskCols, kernel.cols) * kernel.cols;
  if (a_source != nullptr) task_cols = CeilDiv(s.n, kernel.cols) * kernel.cols;
  // Enough tasks for many threads, as long as each is worth one.
  while (a_source == nullptr && CeilDiv(s.m, task_rows) * CeilDiv(s.n, task_cols) < kTasks &&
         std::min(s.n, task_cols) > 4 * kernel.cols) {
    task_cols = CeilDiv(CeilDiv(std::min(s.n, task_cols), 2), kernel.cols) * kernel.cols;
  }
  while (a_source != nullptr && CeilDiv(s.m, task_rows) < kTasks && task_rows > 2 * kernel.rows) {
    task_rows = CeilDiv(CeilDiv(task_rows, 2), kernel.rows) * kernel.rows;
  }
  int64_t row_tasks = CeilDiv(s.m, task_rows), col_tasks = CeilDiv(s.n, task_cols);
  double cost = static_cast<double>(std::min(s.m, task_rows) * std::min(s.n, task_cols)) *
                static_cast<double>(s.k) / 40;
  std::vector<std::atomic<int64_t>> finished(done != nullptr ? static_cast<size_t>(row_tasks) : 0);
  return TryPieces(
      means.pool, row_tasks * col_tasks, cost, [&](int64_t begin, int64_t end) -> Status {
        auto own = TRY(Scratch<T>::New(means, a_source != nullptr ? task_rows * s.k : 0));
        for (int64_t task = begin; task < end; ++task) {
          // Rows that somebody waits for are completed one after the other.
          int64_t row_task = done != nullptr ? task / col_tasks : task % row_tasks;
          int64_t col_task = done != nullptr ? task % col_tasks : task / row_tasks;
          int64_t i0 = row_task * task_rows, i1 = std::min(s.m, i0 + task_rows);
          int64_t j0 = col_task * task_cols, j1 = std::min(s.n, j0 + task_cols);
          const T* panels = a + i0 * s.k;
          if (a_source != nullptr) {
            PackPanels<T>(nullptr, *a_source, first + i0, i1 - i0, k0, s.k, kernel.rows,
                          own.data());
            panels = own.data();
          }
          MultiplyTask<T>(kernel, s, i0, i1, j0, j1, panels, b);
          if (done == nullptr) continue;
          auto& count = finished[static_cast<size_t>(row_task)];
          if (count.fetch_add(1, std::memory_order_acq_rel) + 1 == col_tasks) {
            (*done)(first + i0, first + i1);
          }
        }
        return {};
      });
}

template <class T>
void PackAcrossAny(const T* from, int64_t stride, int64_t count, int64_t kn, int64_t width,
                   T* out) {
  if (count == width && width <= kMostWidth) {
    const T* rows[kMostWidth];
    for (int64_t i = 0; i < width; ++i) rows[i] = from + i * stride;
    return PackAcross<T>(rows, kn, width, out);
  }
  for (int64_t p = 0; p < kn; ++p) {
    for (int64_t i = 0; i < count; ++i) out[p * width + i] = from[i * stride + p];
    for (int64_t i = count; i < width; ++i) out[p * width + i] = T(0);
  }
}

template <class T, class Storage>
void WidenRun(const std::byte* src, int64_t n, T* dst) {
  for (int64_t i = 0; i < n; ++i) {
    Storage x;
    std::memcpy(&x, src + i * int64_t{sizeof(x)}, sizeof(x));
    dst[i] = static_cast<T>(x);
  }
}

}  // namespace

namespace {

// How Multiply cuts a product.
struct MultiplyCuts {
  int64_t outer_rows, outer_cols, depth;
  bool pack_in_tasks;                   // a task has all columns, and packs its rows
  int64_t a_elements, b_elements, own;  // of packed panels: of all, and of a task
};

template <class T>
MultiplyCuts CutsOf(const TileKernel<T>& kernel, int64_t m, int64_t n, int64_t k) {
  auto whole_panels = [](int64_t count, int64_t width) { return CeilDiv(count, width) * width; };
  MultiplyCuts cuts;
  cuts.depth = kDepthBytes / int64_t{sizeof(T)};
  cuts.outer_rows = kOuter / kernel.rows * kernel.rows;
  cuts.outer_cols = kOuter / kernel.cols * kernel.cols;
  cuts.pack_in_tasks = n <= kTaskCols;
  int64_t kn_most = std::min(k, cuts.depth);
  int64_t rows = whole_panels(std::min(m, cuts.outer_rows), kernel.rows);
  cuts.a_elements = cuts.pack_in_tasks ? 0 : rows * kn_most;
  cuts.b_elements = whole_panels(std::min(n, cuts.outer_cols), kernel.cols) * kn_most;
  cuts.own = cuts.pack_in_tasks ? whole_panels(kTaskRows, kernel.rows) * kn_most : 0;
  if (cuts.pack_in_tasks) cuts.outer_rows = m;
  return cuts;
}

// A part of a source's vectors, from some element of them on.
template <class T>
class PartOfPanels : public PanelSource<T> {
 public:
  PartOfPanels(const PanelSource<T>& whole, int64_t first, int64_t k0)
      : whole_(whole), first_(first), k0_(k0) {}
  void Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
            T* out) const override {
    whole_.Pack(first_ + first, count, k0_ + k0, kn, width, out);
  }

 private:
  const PanelSource<T>& whole_;
  int64_t first_, k0_;
};

// Of a product whose contraction is long, so much is summed in f64 at once.
constexpr int64_t kLongRows = 1024, kLongCols = 4096;

template <class T>
bool IsLong(int64_t k) {
  return std::is_same_v<T, float> && k > kLongSum;
}

// A long contraction by parts, whose results are added in f64.
template <class T>
Status MultiplyLong(const Means& means, int64_t m, int64_t n, int64_t k, const PanelSource<T>& a,
                    const PanelSource<T>& b, T* c, int64_t ldc, T alpha, T beta) {
  int64_t rows = std::min(m, kLongRows), cols = std::min(n, kLongCols);
  auto sums = TRY(Scratch<double>::New(means, rows * cols));
  auto part = TRY(Scratch<T>::New(means, rows * cols));
  for (int64_t i = 0; i < m; i += rows) {
    for (int64_t j = 0; j < n; j += cols) {
      int64_t mi = std::min(rows, m - i), nj = std::min(cols, n - j);
      // fn(place in sums, its element of c).
      auto each = [&](const auto& fn) {
        ForPieces(means.pool, mi, static_cast<double>(nj), [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            for (int64_t x = 0; x < nj; ++x) fn(r * nj + x, c[(i + r) * ldc + j + x]);
          }
        });
      };
      each([&](int64_t at, T& old) {
        sums.data()[at] = beta != 0 ? static_cast<double>(beta) * static_cast<double>(old) : 0.0;
      });
      for (int64_t p = 0; p < k; p += kLongSum) {
        TRY(Multiply<T>(means, mi, nj, std::min(kLongSum, k - p), PartOfPanels<T>(a, i, p),
                        PartOfPanels<T>(b, j, p), part.data(), nj, T(1), T(0)));
        each([&](int64_t at, T&) {
          sums.data()[at] += static_cast<double>(alpha) * static_cast<double>(part.data()[at]);
        });
      }
      each([&](int64_t at, T& to) { to = static_cast<T>(sums.data()[at]); });
    }
  }
  return {};
}

}  // namespace

template <class T>
int64_t MultiplyScratch(int64_t m, int64_t n, int64_t k, int64_t threads) {
  if (m <= 0 || n <= 0) return 0;
  if (IsLong<T>(k)) {
    int64_t rows = std::min(m, kLongRows), cols = std::min(n, kLongCols);
    return rows * cols * int64_t{sizeof(double) + sizeof(T)} +
           MultiplyScratch<T>(rows, cols, kLongSum, threads);
  }
  MultiplyCuts cuts = CutsOf<T>(TileKernelFor<T>(n), m, n, k);
  return (cuts.a_elements + cuts.b_elements + cuts.own * threads) * int64_t{sizeof(T)};
}

template <class T>
Status Multiply(const Means& means, int64_t m, int64_t n, int64_t k, const PanelSource<T>& a,
                const PanelSource<T>& b, T* c, int64_t ldc, T alpha, T beta, const RowsDone& done) {
  if (m <= 0 || n <= 0) return {};
  if constexpr (std::is_same_v<T, float>) {
    if (IsLong<T>(k)) {
      TRY(MultiplyLong<T>(means, m, n, k, a, b, c, ldc, alpha, beta));
      if (done) ForPieces(means.pool, m, static_cast<double>(n), done);
      return {};
    }
  }
  const TileKernel<T>& kernel = TileKernelFor<T>(n);
  MultiplyCuts cuts = CutsOf<T>(kernel, m, n, k);
  int64_t depth = cuts.depth, outer_rows = cuts.outer_rows, outer_cols = cuts.outer_cols;
  bool pack_in_tasks = cuts.pack_in_tasks;
  auto a_panels = TRY(Scratch<T>::New(means, cuts.a_elements));
  auto b_panels = TRY(Scratch<T>::New(means, cuts.b_elements));
  bool in_blocks = done && n <= outer_cols;  // rows are complete before all is
  for (int64_t j = 0; j < n; j += outer_cols) {
    int64_t nj = std::min(outer_cols, n - j);
    // A sum of no elements still has to be stored.
    for (int64_t p = 0; p == 0 || p < k; p += depth) {
      int64_t kn = std::min(depth, k - p);
      PackPanels<T>(means.pool, b, j, nj, p, kn, kernel.cols, b_panels.data());
      for (int64_t i = 0; i < m; i += outer_rows) {
        int64_t mi = std::min(outer_rows, m - i);
        if (!pack_in_tasks)
          PackPanels<T>(means.pool, a, i, mi, p, kn, kernel.rows, a_panels.data());
        Block<T> block = {mi, nj, kn, c + i * ldc + j, ldc, alpha, p == 0 ? beta : T(1)};
        TRY(MultiplyBlock<T>(means, kernel, block, a_panels.data(), pack_in_tasks ? &a : nullptr, i,
                             p, b_panels.data(), in_blocks && p + kn >= k ? &done : nullptr));
      }
    }
  }
  if (done && !in_blocks) ForPieces(means.pool, m, static_cast<double>(n), done);
  return {};
}

template <class T>
void LoadRun(DType from, const std::byte* src, int64_t n, T* dst) {
  if (n <= 0) return;
  if (IsStoredAs<T>(from)) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (from != DType::kBF16) return LoadF32(from, src, n, dst);
    for (int64_t i = 0; i < n; ++i) {
      uint16_t half;
      std::memcpy(&half, src + 2 * i, sizeof(half));
      dst[i] = std::bit_cast<float>(uint32_t{half} << 16);
    }
  } else if constexpr (std::is_same_v<T, double>) {
    LoadF64(from, src, n, dst);
  } else if (from == DType::kS8) {
    WidenRun<T, int8_t>(src, n, dst);
  } else if (from == DType::kU8) {
    WidenRun<T, uint8_t>(src, n, dst);
  } else {
    int64_t wide[64];
    for (int64_t i = 0; i < n; i += 64) {
      int64_t part = std::min<int64_t>(64, n - i);
      LoadI64(from, src + i * ByteWidth(from), part, wide);
      for (int64_t j = 0; j < part; ++j) dst[i + j] = static_cast<T>(wide[j]);
    }
  }
}

template <class T>
void StoreRun(DType to, const T* src, int64_t n, std::byte* dst) {
  if (n <= 0) return;
  if (IsStoredAs<T>(to)) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    StoreF32(to, src, n, dst);
  } else if constexpr (std::is_same_v<T, double>) {
    StoreF64(to, src, n, dst);
  } else {
    int64_t wide[64];
    for (int64_t i = 0; i < n; i += 64) {
      int64_t part = std::min<int64_t>(64, n - i);
      for (int64_t j = 0; j < part; ++j) wide[j] = static_cast<int64_t>(src[i + j]);
      StoreI64(to, wide, part, dst + i * ByteWidth(to));
    }
  }
}

template <class T>
void StridedPanels<T>::Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                            T* out) const {
  int64_t bytes = ByteWidth(dtype_);
  const std::byte* from = data_ + (first * vector_stride_ + k0 * k_stride_) * bytes;
  bool as_is = IsStoredAs<T>(dtype_);
  if (k_stride_ == 1 && as_is) {
    return PackAcrossAny(reinterpret_cast<const T*>(from), vector_stride_, count, kn, width, out);
  }
  if (vector_stride_ == 1) {
    for (int64_t p = 0; p < kn; ++p) {
      LoadRun<T>(dtype_, from + p * k_stride_ * bytes, count, out + p * width);
      for (int64_t i = count; i < width; ++i) out[p * width + i] = T(0);
    }
    return;
  }
  constexpr int64_t kRun = 64;
  T rows[16 * kRun];
  for (int64_t p = 0; p < kn; p += kRun) {
    int64_t run = std::min(kRun, kn - p);
    for (int64_t i0 = 0; i0 < width; i0 += 16) {
      int64_t end = std::min<int64_t>(width, i0 + 16);
      for (int64_t i = i0; i < end; ++i) {
        T* row = rows + (i - i0) * kRun;
        if (i >= count) {
          std::fill_n(row, run, T(0));
        } else if (k_stride_ == 1) {
          LoadRun<T>(dtype_, from + (i * vector_stride_ + p) * bytes, run, row);
        } else {
          for (int64_t q = 0; q < run; ++q) {
            LoadRun<T>(dtype_, from + (i * vector_stride_ + (p + q) * k_stride_) * bytes, 1,
                       row + q);
          }
        }
      }
      for (int64_t q = 0; q < run; ++q) {
        for (int64_t i = i0; i < end; ++i) {
          out[(p + q) * width + i] = rows[(i - i0) * kRun + q];
        }
      }
    }
  }
}

template <class T>
void ComplexPanels<T>::Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                            T* out) const {
  for (int64_t p = 0; p < kn; ++p) {
    int64_t k = (k0 + p) / 2, k_part = (k0 + p) % 2;
    for (int64_t i = 0; i < count; ++i) {
      T& to = out[p * width + i];
      if (!square_) {
        to = data_[2 * ((first + i) * vector_stride_ + k * k_stride_) + k_part];
        continue;
      }
      int64_t part = (first + i) % 2;
      const T* x = data_ + 2 * ((first + i) / 2 * vector_stride_ + k * k_stride_);
      to = k_part == 0 ? x[part] : part == 0 ? -x[1] : x[0];
    }
    for (int64_t i = count; i < width; ++i) out[p * width + i] = T(0);
  }
}

#define WEFT_INSTANTIATE(T)                                                                   \
  template Status Multiply<T>(const Means&, int64_t, int64_t, int64_t, const PanelSource<T>&, \
                              const PanelSource<T>&, T*, int64_t, T, T, const RowsDone&);     \
  template int64_t MultiplyScratch<T>(int64_t, int64_t, int64_t, int64_t);                    \
  template void LoadRun<T>(DType, const std::byte*, int64_t, T*);                             \
  template void StoreRun<T>(DType, const T*, int64_t, std::byte*);                            \
  template class StridedPanels<T>;
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE
template class ComplexPanels<float>;
template class ComplexPanels<double>;

}  // namespace weft::cpu
