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

// The left side of a product by a stream: [k / 4][m][4], times alpha.
template <class T>
void PackStreamLeft(const OneProduct& s, T* left) {
  T alpha = FactorOf<T>(s.alpha);
  for (int64_t p = 0; p < s.k; p += 4) {
    T quad[4 * kStreamRows] = {};
    int64_t kn = std::min<int64_t>(4, s.k - p);
    StridedPanels<T>(s.a_type, s.a, s.as.row, s.as.col).Pack(0, s.m, p, kn, s.m, quad);
    T* to = left + p * s.m;
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t q = 0; q < 4; ++q) to[4 * i + q] = q < kn ? alpha * quad[q * s.m + i] : T(0);
    }
  }
}

// How a product by a stream is cut: blocks of columns, and split-K where these are too few for many
// threads. By the sizes alone, as the order of sums is.
struct StreamCut {
  int64_t blocks, depth, parts;

  explicit StreamCut(const OneProduct& s) : blocks(CeilDivide(s.n, kStreamCols)) {
    constexpr int64_t kTasks = 4 * program::TargetFacts::kUsualThreads,
                      kPartBytes = program::TargetFacts::kSecondLevelBytes / 4;
    int64_t row = std::min(s.n, kStreamCols) * ByteWidth(s.b_type);
    int64_t least = CeilDivide(kPartBytes, row), wish = CeilDivide(s.k, CeilDivide(kTasks, blocks));
    depth = CeilDivide(std::max(least, wish), kStreamRun) * kStreamRun;
    parts = std::max<int64_t>(1, CeilDivide(s.k, depth));
  }
  // Whether sums of f32 are added up elsewhere from time to time (kLongSum in multiply.h).
  template <class T>
  bool IsLong(const OneProduct& s) const {
    return std::is_same_v<T, float> && std::min(s.k, depth) > kStreamRun;
  }
};

// What is summed up beside the result: every part of the contraction has sums of its own, and so
// has one whose result is of another type.
template <class T>
struct StreamSums {
  Scratch<T> sums;
  Scratch<double> so_far;
  T* first = nullptr;  // of the sums

  static int64_t SumCount(const OneProduct& s, const StreamCut& cut) {
    bool beside = cut.parts > 1 || !IsStoredAs<T>(s.c_type);
    return beside
               ? cut.parts * s.m * cut.blocks * kStreamCols + HostCaches().l1 / int64_t{sizeof(T)}
               : 0;
  }
  // Sums lie where rows of b, of which four come at once, leave places of the first cache: half of
  // a way of one that has four (64 KiB of arm64).
  void Place(const OneProduct& s) {
    if (sums.data() == nullptr) return;
    auto way = static_cast<uintptr_t>(HostCaches().l1) / 4;
    auto at = reinterpret_cast<uintptr_t>(sums.data());
    uintptr_t off = way > 0 ? (reinterpret_cast<uintptr_t>(s.b) + way / 2 - at) % way : 0;
    first = sums.data() +
            off / program::TargetFacts::kLineBytes * program::TargetFacts::kLineBytes / sizeof(T);
  }
  static int64_t LongCount(const OneProduct& s, const StreamCut& cut) {
    return cut.IsLong<T>(s) ? cut.parts * s.m * cut.blocks * kStreamCols : 0;
  }
};

// Some columns of the result, from some rows of the right side.
template <class T>
class StreamBlock {
 public:
  StreamBlock(const OneProduct& s, const StreamCut& cut, const T* left, StreamSums<T>& all,
              int64_t block, int64_t part)
      : s_(s),
        left_(left),
        j_(block * kStreamCols),
        n_(std::min(kStreamCols, s.n - j_)),
        k0_(part * cut.depth),
        k1_(std::min(s.k, k0_ + cut.depth)),
        is_long_(cut.IsLong<T>(s)),
        is_whole_(cut.parts == 1) {
    int64_t at = (part * cut.blocks + block) * s.m * kStreamCols;
    bool in_place = is_whole_ && IsStoredAs<T>(s.c_type);
    c_ = in_place ? reinterpret_cast<T*>(s.c) + j_ : all.first + at;
    ldc_ = in_place ? s.n : kStreamCols;
    so_far_ = is_long_ ? all.so_far.data() + at : nullptr;
  }

  void Run(const TileKernel<T>& kernel) {
    Begin();
    T wide[4 * kStreamCols];
    for (int64_t p = k0_; p < k1_; p += 4) {
      if (is_long_ && p > k0_ && (p - k0_) % kStreamRun == 0) {
        MoveSums(p == k0_ + kStreamRun);
        for (int64_t i = 0; i < s_.m; ++i) Start(i, T(0));
      }
      const T* rows[4];
      for (int64_t q = 0; q < 4; ++q) rows[q] = Row(p + q, wide + q * kStreamCols);
      for (int64_t i = 0; i < s_.m; i += 4) {
        kernel.grow(std::min<int64_t>(4, s_.m - i), n_, left_ + p * s_.m + 4 * i, rows,
                    c_ + i * ldc_, ldc_);
      }
    }
    if (is_long_) MoveSums(k1_ - k0_ <= kStreamRun);
    if (is_whole_) End();
  }

 private:
  void Start(int64_t i, T factor) {
    T* row = c_ + i * ldc_;
    for (int64_t x = 0; x < n_; ++x) row[x] = factor != 0 ? static_cast<T>(factor * row[x]) : T(0);
  }

  std::byte* Result(int64_t i) const { return s_.c + (i * s_.n + j_) * ByteWidth(s_.c_type); }

  void Begin() {
    T beta = is_whole_ ? FactorOf<T>(s_.beta) : T(0);
    for (int64_t i = 0; i < s_.m; ++i) {
      if (beta != 0) LoadRun<T>(s_.c_type, Result(i), n_, c_ + i * ldc_);
      Start(i, beta);
    }
  }

  // Rows past the end meet zeroes, which must not touch what is not a number.
  const T* Row(int64_t p, T* wide) const {
    if (p >= s_.k) {
      std::fill_n(wide, n_, T(0));
      return wide;
    }
    const std::byte* from = s_.b + (p * s_.bs.row + j_) * ByteWidth(s_.b_type);
    if (IsStoredAs<T>(s_.b_type)) return reinterpret_cast<const T*>(from);
    LoadRun<T>(s_.b_type, from, n_, wide);
    return wide;
  }

  void MoveSums(bool is_first) {
    for (int64_t i = 0; i < s_.m; ++i) {
      const T* row = c_ + i * ldc_;
      double* to = so_far_ + i * kStreamCols;
      for (int64_t x = 0; x < n_; ++x) {
        to[x] = static_cast<double>(row[x]) + (is_first ? 0.0 : to[x]);
      }
    }
  }

  void End() {
    for (int64_t i = 0; i < s_.m && is_long_; ++i) {
      const double* from = so_far_ + i * kStreamCols;
      for (int64_t x = 0; x < n_; ++x) c_[i * ldc_ + x] = static_cast<T>(from[x]);
    }
    if (IsStoredAs<T>(s_.c_type)) return;
    for (int64_t i = 0; i < s_.m; ++i) StoreRun<T>(s_.c_type, c_ + i * ldc_, n_, Result(i));
  }

  const OneProduct& s_;
  const T* left_;
  int64_t j_, n_;    // columns [j, j + n)
  int64_t k0_, k1_;  // of the contraction
  bool is_long_, is_whole_;
  double* so_far_;
  T* c_;
  int64_t ldc_;
};

// A row of a block of the result, from the sums of all parts.
template <class T>
void AddStreamParts(const OneProduct& s, const StreamCut& cut, const StreamSums<T>& all,
                    int64_t block, int64_t i) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  int64_t j = block * kStreamCols, n = std::min(kStreamCols, s.n - j);
  std::byte* result = s.c + (i * s.n + j) * ByteWidth(s.c_type);
  Sum sums[kStreamCols] = {};
  T row[kStreamCols] = {};
  if (s.beta != 0) {
    LoadRun<T>(s.c_type, result, n, row);
    T beta = FactorOf<T>(s.beta);
    for (int64_t x = 0; x < n; ++x) sums[x] = static_cast<Sum>(static_cast<T>(beta * row[x]));
  }
  auto add = [&](const auto* from) {
    for (int64_t x = 0; x < n; ++x) sums[x] += static_cast<Sum>(from[x]);
  };
  for (int64_t part = 0; part < cut.parts; ++part) {
    int64_t at = ((part * cut.blocks + block) * s.m + i) * kStreamCols;
    cut.IsLong<T>(s) ? add(all.so_far.data() + at) : add(all.first + at);
  }
  for (int64_t x = 0; x < n; ++x) row[x] = static_cast<T>(sums[x]);
  StoreRun<T>(s.c_type, row, n, result);
}

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
  const T* b = reinterpret_cast<const T*>(s.b);
  T* c = reinterpret_cast<T*>(s.c);
  T alpha = FactorOf<T>(s.alpha), beta = FactorOf<T>(s.beta);
  auto run = [&](int64_t j) {
    DotSum<T> sums[kMostSquares * kDotSquare * kDotSquare] = {};
    for (int64_t p = 0; p < s.k; p += kSmallDepth) {
      for (int64_t g = 0; g < groups; ++g) {
        dots(std::min(kSmallDepth, s.k - p), left.data() + g * kDotSquare * s.k + p, s.k,
             b + j * s.bs.col + p, s.bs.col, sums + g * kDotSquare * kDotSquare);
      }
    }
    for (int64_t q = 0; q < s.m * kDotSquare; ++q) {
      T& to = c[q / kDotSquare * s.n + j + q % kDotSquare];
      to = static_cast<T>(alpha * static_cast<T>(sums[q]) + (beta != 0 ? beta * to : T(0)));
    }
  };
  int64_t tasks = s.n / kDotSquare;
  double cost = static_cast<double>(s.k * kDotSquare * int64_t{sizeof(T)}) / kCoreReads;
  ForPieces(means.pool, tasks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) run(task * kDotSquare);
  });
  return {};
}

template <class T>
Status MultiplyStream(const Means& means, const OneProduct& s) {
  auto left = TRY(Scratch<T>::New(means, s.m * (s.k + 4)));
  PackStreamLeft(s, left.data());
  const TileKernel<T>& kernel = *FindTileKernel<T>(INT64_MAX);
  StreamCut cut(s);
  StreamSums<T> sums = {TRY(Scratch<T>::New(means, StreamSums<T>::SumCount(s, cut))),
                        TRY(Scratch<double>::New(means, StreamSums<T>::LongCount(s, cut)))};
  sums.Place(s);
  int64_t row = std::min(s.n, kStreamCols), rows = std::min(s.k, cut.depth);
  // Neighbours in memory are read at the same time.
  ForPieces(means.pool, cut.parts * cut.blocks, static_cast<double>(rows * row * s.m) / 8,
            [&](int64_t begin, int64_t end) {
              for (int64_t task = begin; task < end; ++task) {
                StreamBlock<T>(s, cut, left.data(), sums, task % cut.blocks, task / cut.blocks)
                    .Run(kernel);
              }
            });
  if (cut.parts == 1) return {};
  ForPieces(means.pool, cut.blocks * s.m, static_cast<double>(row * cut.parts) / 4,
            [&](int64_t begin, int64_t end) {
              for (int64_t at = begin; at < end; ++at) {
                AddStreamParts(s, cut, sums, at / s.m, at % s.m);
              }
            });
  return {};
}

template <class T>
int64_t StreamScratch(const OneProduct& s) {
  StreamCut cut(s);
  int64_t elements = s.m * (s.k + 4) + StreamSums<T>::SumCount(s, cut);
  return elements * int64_t{sizeof(T)} + StreamSums<T>::LongCount(s, cut) * int64_t{sizeof(double)};
}

template <class T>
void MultiplySmall(const TileKernel<T>& kernel, const OneProduct& s, const RowsDone& done) {
  alignas(64) T panel[kSmallDepth * kMostRows];
  StridedPanels<T> left(s.a_type, s.a, s.as.row, s.as.col);
  const T* b = reinterpret_cast<const T*>(s.b);
  T* c = reinterpret_cast<T*>(s.c);
  T alpha = FactorOf<T>(s.alpha), beta = FactorOf<T>(s.beta);
  for (int64_t i = 0; i < s.m; i += kernel.rows) {
    int64_t used = std::min<int64_t>(kernel.rows, s.m - i);
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

#define WEFT_INSTANTIATE(T)                                                                 \
  template Status MultiplyDots<T>(const Means&, const OneProduct&);                         \
  template Status MultiplySquares<T>(const Means&, const OneProduct&);                      \
  template Status MultiplyStream<T>(const Means&, const OneProduct&);                       \
  template int64_t StreamScratch<T>(const OneProduct&);                                     \
  template void MultiplySmall<T>(const TileKernel<T>&, const OneProduct&, const RowsDone&); \
  template Status MultiplyFew<T>(const Means&, const TileKernel<T>&, const OneProduct&);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
