// Products that read b where it lies: dot products, squares of them, streams, small ones.
#include <algorithm>

#include "cpu/routines/gemm_product.h"
#include "cpu/routines/machine.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

constexpr int64_t kSmallDepth = program::SumOrder::kBlock,
                  kMostRows = program::TargetFacts::kVectorRegisters / 2;
constexpr int64_t kFewTiles =
    program::CodeBounds::kCopies / 2;  // side by side in one task: their part of b stays in L2

// Operands of the next product of a batch, which would come from memory one line after the other:
// as much as belongs to rows [begin, end) of this one.
void AskForNext(const OneProduct& s, int64_t begin, int64_t end) {
  constexpr int64_t kLine = program::TargetFacts::kLineBytes;
  auto ask = [&](const std::byte* data, int64_t elements, DType type) {
    int64_t bytes = elements * ByteWidth(type);
    if (bytes <= program::TargetFacts::kLeastPageBytes) return;  // a prefetcher goes so far
    for (int64_t at = bytes * begin / s.m; at < bytes * end / s.m; at += kLine) {
      __builtin_prefetch(data + bytes + at, 0, 2);
    }
  };
  ask(s.a, s.m * s.k, s.a_type);
  ask(s.b, s.k * s.n, s.b_type);
}

}  // namespace

template <class T>
Status MultiplyDots(const Means& means, const OneProduct& s) {
  auto vector = TRY(Scratch<T>::New(means, s.k));
  StridedPanels<T>(s.a_type, s.a, 0, s.as.col).Pack(0, 1, 0, s.k, 1, vector.data());
  bool as_is = IsStoredAs<T>(s.b_type) && IsStoredAs<T>(s.c_type);
  auto rows = TRY(Scratch<T>::New(means, as_is ? 0 : CeilDivide(s.n, kDotRows) * kDotRows * s.k));
  const TileKernel<T>& kernel = *FindTileKernel<T>(INT64_MAX);
  T alpha = FactorOf<T>(s.alpha), beta = FactorOf<T>(s.beta);
  int64_t width = ByteWidth(s.b_type), c_width = ByteWidth(s.c_type);
  ForPieces(means.pool, CeilDivide(s.n, kDotRows), static_cast<double>(s.k * kDotRows) / 6,
            [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) {
                int64_t j = i * kDotRows, count = std::min(kDotRows, s.n - j);
                const std::byte* from = s.b + j * s.bs.col * width;
                if (as_is) {
                  kernel.rows_times_vector(count, s.k, reinterpret_cast<const T*>(from), s.bs.col,
                                           vector.data(), reinterpret_cast<T*>(s.c) + j, 1, alpha,
                                           beta);
                  continue;
                }
                T* wide = rows.data() + j * s.k;
                T out[kDotRows];
                for (int64_t r = 0; r < count; ++r) {
                  LoadRun<T>(s.b_type, from + r * s.bs.col * width, s.k, wide + r * s.k);
                }
                if (beta != 0) LoadRun<T>(s.c_type, s.c + j * c_width, count, out);
                kernel.rows_times_vector(count, s.k, wide, s.k, vector.data(), out, 1, alpha, beta);
                StoreRun<T>(s.c_type, out, count, s.c + j * c_width);
              }
            });
  return {};
}

template <class T>
Status MultiplySquares(const Means& means, const OneProduct& s) {
  int64_t groups = CeilDivide(s.m, kDotSquare);
  auto left = TRY(Scratch<T>::New(means, groups * kDotSquare * s.k));
  std::fill_n(left.data() + s.m * s.k, (groups * kDotSquare - s.m) * s.k, T(0));
  for (int64_t i = 0; i < s.m; ++i) {
    StridedPanels<T>(s.a_type, s.a + i * s.as.row * ByteWidth(s.a_type), 0, s.as.col)
        .Pack(0, 1, 0, s.k, 1, left.data() + i * s.k);
  }
  auto dots = FindTileKernel<T>(INT64_MAX)->dots;
  bool as_is = IsStoredAs<T>(s.b_type);
  T* c = reinterpret_cast<T*>(s.c);
  T alpha = FactorOf<T>(s.alpha), beta = FactorOf<T>(s.beta);
  // Columns from j on, of which the first `skip` are another square's.
  auto run = [&](int64_t j, int64_t skip) {
    alignas(64) T wide[kDotSquare * kSmallDepth];
    DotSum<T> sums[kMostDotRows * kDotSquare] = {};
    for (int64_t p = 0; p < s.k; p += kSmallDepth) {
      int64_t kn = std::min(kSmallDepth, s.k - p), width = ByteWidth(s.b_type);
      const std::byte* from = s.b + (j * s.bs.col + p) * width;
      for (int64_t q = 0; q < kDotSquare && !as_is; ++q) {
        LoadRun<T>(s.b_type, from + q * s.bs.col * width, kn, wide + q * kSmallDepth);
      }
      for (int64_t g = 0; g < groups; ++g) {
        dots(kn, left.data() + g * kDotSquare * s.k + p, s.k,
             as_is ? reinterpret_cast<const T*>(from) : wide, as_is ? s.bs.col : kSmallDepth,
             sums + g * kDotSquare * kDotSquare);
      }
    }
    for (int64_t q = 0; q < s.m * kDotSquare; ++q) {
      if (q % kDotSquare < skip) continue;
      T& to = c[q / kDotSquare * s.n + j + q % kDotSquare];
      to = static_cast<T>(alpha * static_cast<T>(sums[q]) + (beta != 0 ? beta * to : T(0)));
    }
  };
  int64_t tasks = CeilDivide(s.n, kDotSquare);
  double cost = static_cast<double>(s.k * kDotSquare * int64_t{sizeof(T)}) / kCoreReads;
  ForPieces(means.pool, tasks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t j = std::min(task * kDotSquare, s.n - kDotSquare);
      run(j, task * kDotSquare - j);
    }
  });
  return {};
}

template <class T>
void MultiplySmallRows(const TileKernel<T>& kernel, const OneProduct& s, int64_t first, int64_t end,
                       const RowsDone& done) {
  alignas(64) T panel[kSmallDepth * kMostRows];
  StridedPanels<T> left(s.a_type, s.a, s.as.row, s.as.col);
  const T* b = reinterpret_cast<const T*>(s.b);
  T* c = reinterpret_cast<T*>(s.c);
  T alpha = FactorOf<T>(s.alpha), beta = FactorOf<T>(s.beta);
  for (int64_t i = first; i < end; i += kernel.rows) {
    int64_t used = std::min<int64_t>(kernel.rows, end - i);
    if (s.more) AskForNext(s, i, i + used);
    for (int64_t p = 0; p == 0 || p < s.k; p += kSmallDepth) {
      int64_t kn = std::min(kSmallDepth, s.k - p);
      left.Pack(i, used, p, kn, kernel.rows, panel);
      kernel.direct(used, s.n, kn, panel, b + p * s.bs.row, s.bs.row, c + i * s.n, s.n, alpha,
                    p == 0 ? beta : T(1));
    }
    if (done) done(i, i + used);
  }
}

template <class T>
void MultiplySmall(const Means& means, const TileKernel<T>& kernel, const OneProduct& s,
                   const RowsDone& done) {
  double cost = static_cast<double>(kernel.rows * s.n * s.k * int64_t{sizeof(T)}) / 160;
  ForPieces(means.pool, CeilDivide(s.m, kernel.rows), cost, [&](int64_t begin, int64_t end) {
    MultiplySmallRows(kernel, s, begin * kernel.rows, std::min(s.m, end * kernel.rows), done);
  });
}

template <class T>
Status MultiplyFew(const Means& means, const TileKernel<T>& kernel, const OneProduct& s) {
  int64_t rows = CeilDivide(s.m, kernel.rows) * kernel.rows;
  auto panels = TRY(Scratch<T>::New(means, rows * s.k));
  StridedPanels<T> left(s.a_type, s.a, s.as.row, s.as.col);
  for (int64_t i = 0; i < s.m; i += kernel.rows) {
    left.Pack(i, std::min<int64_t>(kernel.rows, s.m - i), 0, s.k, kernel.rows,
              panels.data() + i * s.k);
  }
  const T* b = reinterpret_cast<const T*>(s.b);
  T* c = reinterpret_cast<T*>(s.c);
  T alpha = FactorOf<T>(s.alpha), beta = FactorOf<T>(s.beta);
  // The last task takes the columns that are left, so that none has fewer than a vector.
  int64_t width = kFewTiles * kernel.cols, tasks = std::max<int64_t>(1, s.n / width);
  double cost = static_cast<double>(s.m * s.k * width) / 40;
  ForPieces(means.pool, tasks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t j = task * width, n = task + 1 == tasks ? s.n - j : width;
      for (int64_t p = 0; p == 0 || p < s.k; p += kSmallDepth) {
        int64_t kn = std::min(kSmallDepth, s.k - p);
        for (int64_t i = 0; i < s.m; i += kernel.rows) {
          kernel.direct(std::min<int64_t>(kernel.rows, s.m - i), n, kn,
                        panels.data() + i * s.k + p * kernel.rows, b + p * s.bs.row + j, s.bs.row,
                        c + i * s.n + j, s.n, alpha, p == 0 ? beta : T(1));
        }
      }
    }
  });
  return {};
}

#define WEFT_INSTANTIATE(T)                                                             \
  template Status MultiplyDots<T>(const Means&, const OneProduct&);                     \
  template Status MultiplySquares<T>(const Means&, const OneProduct&);                  \
  template void MultiplySmall<T>(const Means&, const TileKernel<T>&, const OneProduct&, \
                                 const RowsDone&);                                      \
  template Status MultiplyFew<T>(const Means&, const TileKernel<T>&, const OneProduct&);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
