// gemm: packed and tiled; small, skinny and matrix-vector products work on the operands as they
// lie in memory.
#include <algorithm>

#include "cpu/routines/epilogue.h"
#include "cpu/routines/machine.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/narrow_product.h"
#include "cpu/routines/narrow_rows.h"
#include "cpu/routines/prepare.h"
#include "cpu/routines/tiles.h"
#include "program/sum_order.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

constexpr int64_t kSmallWork = 72 * 72 * 72;  // multiplications that are done without packing b
constexpr int64_t kSmallDepth = program::SumOrder::kBlock,
                  kMostRows = program::TargetFacts::kVectorRegisters / 2;
constexpr int64_t kFewTiles =
    program::CodeBounds::kCopies / 2;  // side by side in one task: their part of b stays in L2
constexpr int64_t kDotRows = program::TargetFacts::kVectorRegisters / 2;  // dot products at once
// Squares of dot products, one below the other.
constexpr int64_t kMostSquares = kDotRows / kDotSquare;
// Rows of a that one reading of b serves.
constexpr int64_t kStreamRows = program::TargetFacts::kVectorRegisters / 2;
constexpr int64_t kNarrowStreamRows = kStreamRows / 4;
// Of b at once: sums stay in L1.
constexpr int64_t kStreamCols =
    program::TargetFacts::kFirstLevelBytes / kStreamRows / sizeof(float);
// Rows of b, four of which are one addition to a sum.
constexpr int64_t kStreamRun = program::SumOrder::kPairs * program::SumOrder::kRun;

int64_t CeilDivide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

struct GemmShape {
  int64_t m, n, k, batch;
  bool trans_a, trans_b;
  double alpha, beta;
  DType a, b, c;
};

// Elements from one row of op(x) to the next, and from one column to the next.
struct OperandStrides {
  int64_t row, col;
};

// One matrix product, whatever its place in the batch.
struct OneProduct {
  int64_t m, n, k;
  const std::byte *a, *b;
  std::byte* c;  // rows n apart
  OperandStrides as, bs;
  DType a_type, b_type, c_type;
  double alpha, beta;
  bool more = false;  // operands of another one follow in memory
};

template <class T>
T FactorOf(double x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<int64_t>(x));
  return static_cast<T>(x);
}

// A vector times rows of k elements: one row, b transposed.
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

// Few rows by a matrix whose columns are consecutive: squares of dot products, some columns at a
// time, so that rows of a come from L1 and columns from memory once.
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

// Whether the sums of f32 are added up elsewhere from time to time (kLongSum in multiply.h).
template <class T>
bool CutsStream(const OneProduct& s) {
  return std::is_same_v<T, float> && s.k > kStreamRun;
}

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

// Some columns of the result, from all rows of the right side.
template <class T>
class StreamBlock {
 public:
  // `sums`: of the block where the result is of another type. `so_far`: what was summed before,
  // where sums are cut.
  StreamBlock(const OneProduct& s, const T* left, int64_t j, T* sums, double* so_far)
      : s_(s), left_(left), j_(j), n_(std::min(kStreamCols, s.n - j)), so_far_(so_far) {
    bool as_is = IsStoredAs<T>(s.c_type);
    c_ = as_is ? reinterpret_cast<T*>(s.c) + j : sums;
    ldc_ = as_is ? s.n : kStreamCols;
  }

  void Run(const TileKernel<T>& kernel) {
    Begin();
    T wide[4 * kStreamCols];
    for (int64_t p = 0; p < s_.k; p += 4) {
      if (CutsStream<T>(s_) && p > 0 && p % kStreamRun == 0) {
        MoveSums(p == kStreamRun);
        for (int64_t i = 0; i < s_.m; ++i) Start(i, T(0));
      }
      const T* rows[4];
      for (int64_t q = 0; q < 4; ++q) rows[q] = Row(p + q, wide + q * kStreamCols);
      for (int64_t i = 0; i < s_.m; i += 4) {
        kernel.grow(std::min<int64_t>(4, s_.m - i), n_, left_ + p * s_.m + 4 * i, rows,
                    c_ + i * ldc_, ldc_);
      }
    }
    End();
  }

 private:
  void Start(int64_t i, T factor) {
    T* row = c_ + i * ldc_;
    for (int64_t x = 0; x < n_; ++x) row[x] = factor != 0 ? static_cast<T>(factor * row[x]) : T(0);
  }

  std::byte* Result(int64_t i) const { return s_.c + (i * s_.n + j_) * ByteWidth(s_.c_type); }

  void Begin() {
    T beta = FactorOf<T>(s_.beta);
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
      double* to = so_far_ + i * n_;
      for (int64_t x = 0; x < n_; ++x) {
        to[x] = static_cast<double>(row[x]) + (is_first ? 0.0 : to[x]);
      }
    }
  }

  void End() {
    if (CutsStream<T>(s_)) {
      MoveSums(false);
      for (int64_t i = 0; i < s_.m; ++i) {
        for (int64_t x = 0; x < n_; ++x) c_[i * ldc_ + x] = static_cast<T>(so_far_[i * n_ + x]);
      }
    }
    if (IsStoredAs<T>(s_.c_type)) return;
    for (int64_t i = 0; i < s_.m; ++i) StoreRun<T>(s_.c_type, c_ + i * ldc_, n_, Result(i));
  }

  const OneProduct& s_;
  const T* left_;
  int64_t j_, n_;  // columns [j, j + n)
  double* so_far_;
  T* c_;
  int64_t ldc_;
};

// A few rows times a matrix that is read once, row by row.
template <class T>
Status MultiplyStream(const Means& means, const OneProduct& s) {
  auto left = TRY(Scratch<T>::New(means, s.m * (s.k + 4)));
  PackStreamLeft(s, left.data());
  const TileKernel<T>& kernel = *FindTileKernel<T>(INT64_MAX);
  int64_t blocks = CeilDivide(s.n, kStreamCols);
  bool as_is = IsStoredAs<T>(s.c_type), cut = CutsStream<T>(s);
  auto sums = TRY(Scratch<T>::New(means, as_is ? 0 : s.m * blocks * kStreamCols));
  auto totals = TRY(Scratch<double>::New(means, cut ? s.m * s.n : 0));
  ForPieces(means.pool, blocks, static_cast<double>(s.k * kStreamCols * s.m) / 8,
            [&](int64_t begin, int64_t end) {
              for (int64_t block = begin; block < end; ++block) {
                int64_t j = block * kStreamCols;
                StreamBlock<T>(s, left.data(), j, as_is ? nullptr : sums.data() + s.m * j,
                               totals.data() + (cut ? s.m * j : 0))
                    .Run(kernel);
              }
            });
  return {};
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

// A small product: only a is packed, a few rows at a time.
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

// Few rows times a matrix: a is packed, b is read where it lies, some columns of it at a time.
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

// A matrix by a vector is the same as the vector by the matrix.
OneProduct VectorFirst(OneProduct s) {
  if (s.n != 1 || s.m <= 1) return s;
  std::swap(s.a, s.b);
  std::swap(s.a_type, s.b_type);
  std::swap(s.m, s.n);
  return {s.m,      s.n,      s.k,      s.a,     s.b,   s.c, {0, s.bs.row}, {s.as.col, s.as.row},
          s.a_type, s.b_type, s.c_type, s.alpha, s.beta};
}

enum class Way : uint8_t { kFewNarrow, kDots, kSquares, kStream, kSmall, kFew, kPacked };

// Packing b would take as long as the product. Rows of b that lie far apart meet in the same places
// of a cache, so that b had better be packed when it is read more often than twice.
bool IsOfFewRows(const OneProduct& s, int64_t rows_of_tile) {
  // What comes from memory is packed in long runs of its rows.
  if (s.k * s.n * ByteWidth(s.b_type) > HostCaches().l2) return false;
  bool near = s.n <= 256 || s.k <= 128;
  return s.m <= (near ? 4 : 2) * rows_of_tile;
}

// The micro-kernel that takes bf16 or int8 as they are; null: they are widened.
template <class T>
const NarrowKernel* NarrowKernelFor(const OneProduct& s) {
  constexpr bool kSums = std::is_same_v<T, float> || std::is_same_v<T, uint32_t>;
  bool plain = s.alpha == 1 && (s.beta == 0 || s.beta == 1);
  return kSums && plain ? FindNarrowKernel(s.a_type, s.b_type) : nullptr;
}

FewRowsProduct FewRowsOf(const OneProduct& s) {
  return {s.m,
          s.n,
          s.k,
          {s.a_type, s.a, s.as.row, s.as.col},
          {s.b_type, s.b, s.bs.col, s.bs.row},
          {s.c_type, s.c, s.n},
          s.beta != 0};
}

// Packing b would take longer than the product.
template <class T>
bool TakesSquares(const OneProduct& s) {
  return IsStoredAs<T>(s.b_type) && IsStoredAs<T>(s.c_type) && s.bs.row == 1 && s.k >= kDotRows &&
         s.m <= kMostSquares * kDotSquare && s.n % kDotSquare == 0 &&
         FindTileKernel<T>(INT64_MAX)->dots != nullptr;
}

template <class T>
Way WayOf(const OneProduct& s) {
  const NarrowKernel* narrow = NarrowKernelFor<T>(s);
  if (narrow != nullptr && TakesFewRows(*narrow, FewRowsOf(s))) return Way::kFewNarrow;
  if (s.m == 1 && s.bs.row == 1 && s.k >= 8) return Way::kDots;
  if (TakesSquares<T>(s)) return Way::kSquares;
  // One reading of a narrow b does for more rows where it need not be widened.
  int64_t stream_rows = narrow != nullptr ? kNarrowStreamRows : kStreamRows;
  if (s.m <= stream_rows && s.bs.col == 1 && s.n >= 16 && (s.m == 1 || s.k * s.n >= 1 << 16)) {
    return Way::kStream;
  }
  bool as_is = IsStoredAs<T>(s.b_type) && IsStoredAs<T>(s.c_type);
  if (!as_is || s.bs.col != 1 || FindTileKernel<T>(s.n) == nullptr) return Way::kPacked;
  if (s.m * s.n * s.k <= kSmallWork) return Way::kSmall;
  return IsOfFewRows(s, FindTileKernel<T>(s.n)->rows) ? Way::kFew : Way::kPacked;
}

// Whether the contraction is so long that MultiplyParts adds it up. Multiply sees to that itself,
// and so do sums in registers or beside the result.
template <class T>
bool ComesInParts(const OneProduct& s) {
  Way way = WayOf<T>(s);
  return std::is_same_v<T, float> && s.k > kLongSum && (way == Way::kSmall || way == Way::kFew);
}

ProductSizes PackedSizes(const OneProduct& s) {
  return {s.m, s.n, s.k, false, s.bs.row == 1};
}

// What MultiplyOne takes beside the operands.
template <class T>
int64_t ScratchOfOne(OneProduct s, int64_t threads) {
  s = VectorFirst(s);
  if (ComesInParts<T>(s)) {
    OneProduct part = s;
    part.k = kLongSum;
    return s.m * s.n * int64_t{sizeof(double) + sizeof(T)} + ScratchOfOne<T>(part, threads);
  }
  bool b_as_is = IsStoredAs<T>(s.b_type), c_as_is = IsStoredAs<T>(s.c_type);
  int64_t elements = 0;
  switch (WayOf<T>(s)) {
    case Way::kFewNarrow: return FewRowsScratch(*NarrowKernelFor<T>(s), FewRowsOf(s));
    case Way::kDots:
      elements = s.k;
      if (!b_as_is || !c_as_is) elements += CeilDivide(s.n, kDotRows) * kDotRows * s.k;
      break;
    case Way::kSquares: elements = CeilDivide(s.m, kDotSquare) * kDotSquare * s.k; break;
    case Way::kStream:
      elements = s.m * (s.k + 4);
      if (!c_as_is) elements += s.m * CeilDivide(s.n, kStreamCols) * kStreamCols;
      if (CutsStream<T>(s)) elements += s.m * s.n * int64_t{sizeof(double) / sizeof(T)};
      break;
    case Way::kSmall: break;
    case Way::kFew: {
      int64_t rows = FindTileKernel<T>(s.n)->rows;
      elements = CeilDivide(s.m, rows) * rows * s.k;
      break;
    }
    case Way::kPacked:
      if (const NarrowKernel* kernel = NarrowKernelFor<T>(s)) {
        return PackedScratch<T>(NarrowForm(*kernel), PackedSizes(s), threads);
      }
      return MultiplyScratch<T>(PackedSizes(s), threads);
  }
  return elements * int64_t{sizeof(T)};
}

template <class T>
Status MultiplyOne(const Means& means, OneProduct s, const RowsDone& done);

// A long contraction by parts, whose results are added in f64.
template <class T>
Status MultiplyParts(const Means& means, const OneProduct& s, const RowsDone& done) {
  int64_t size = s.m * s.n;
  auto sums = TRY(Scratch<double>::New(means, size));
  auto part = TRY(Scratch<T>::New(means, size));
  T* c = reinterpret_cast<T*>(s.c);
  for (int64_t i = 0; i < size; ++i) sums.data()[i] = s.beta != 0 ? s.beta * c[i] : 0;
  for (int64_t k0 = 0; k0 < s.k; k0 += kLongSum) {
    OneProduct one = s;
    one.k = std::min(kLongSum, s.k - k0);
    one.a += k0 * s.as.col * ByteWidth(s.a_type);
    one.b += k0 * s.bs.row * ByteWidth(s.b_type);
    one.c = reinterpret_cast<std::byte*>(part.data());
    one.alpha = 1;
    one.beta = 0;
    TRY(MultiplyOne<T>(means, one, {}));
    for (int64_t i = 0; i < size; ++i) sums.data()[i] += s.alpha * part.data()[i];
  }
  for (int64_t i = 0; i < size; ++i) c[i] = static_cast<T>(sums.data()[i]);
  if (done) done(0, s.m);
  return {};
}

template <class T>
Status MultiplyOne(const Means& means, OneProduct s, const RowsDone& done) {
  int64_t result_rows = s.m;
  s = VectorFirst(s);
  if (ComesInParts<T>(s)) return MultiplyParts<T>(means, s, done);
  T alpha = FactorOf<T>(s.alpha), beta = FactorOf<T>(s.beta);
  switch (WayOf<T>(s)) {
    case Way::kFewNarrow:
      if constexpr (sizeof(T) == 4) {
        TRY(MultiplyFewRows<T>(means, *NarrowKernelFor<T>(s), FewRowsOf(s)));
      }
      if (done) done(0, result_rows);
      return {};
    case Way::kSquares:
      TRY(MultiplySquares<T>(means, s));
      if (done) done(0, result_rows);
      return {};
    case Way::kDots:
    case Way::kStream:
      TRY(WayOf<T>(s) == Way::kDots ? MultiplyDots<T>(means, s) : MultiplyStream<T>(means, s));
      if (done) done(0, result_rows);
      return {};
    case Way::kSmall: MultiplySmall<T>(*FindTileKernel<T>(s.n), s, done); return {};
    case Way::kFew:
      TRY(MultiplyFew<T>(means, *FindTileKernel<T>(s.n), s));
      if (done) done(0, result_rows);
      return {};
    case Way::kPacked: break;
  }
  ResultMatrix result = {s.c_type, s.c, s.n};
  if constexpr (sizeof(T) == 4) {
    if (const NarrowKernel* kernel = NarrowKernelFor<T>(s)) {
      NarrowProduct<T> product(*kernel, {s.a_type, s.a, s.as.row, s.as.col},
                               {s.b_type, s.b, s.bs.col, s.bs.row});
      return MultiplyPacked<T>(means, PackedSizes(s), product, result, alpha, beta, done);
    }
  }
  StridedPanels<T> left(s.a_type, s.a, s.as.row, s.as.col);
  StridedPanels<T> right(s.b_type, s.b, s.bs.col, s.bs.row);
  return Multiply<T>(means, PackedSizes(s), left, right, result, alpha, beta, done);
}

// Few rows of complex elements: as a product of real matrices with twice as many rows, so that b
// stays as it lies. With b by rows, those are the real and the imaginary parts of a, and columns
// are the parts of b in turn: sums of x by (x, y) and of y by (x, y). With b transposed, they are
// (x, -y) and (y, x) by the (x, y) of b: the parts of the result.
template <class T>
OneProduct RealProduct(const OneProduct& s, T* left, T* sums) {
  DType real = RealType(s.c_type);
  bool by_rows = s.bs.col == 1;
  int64_t n = by_rows ? 2 * s.n : s.n, k = by_rows ? s.k : 2 * s.k;
  return {2 * s.m, n,
          k,       reinterpret_cast<const std::byte*>(left),
          s.b,     reinterpret_cast<std::byte*>(sums),
          {k, 1},  by_rows ? OperandStrides{2 * s.bs.row, 1} : OperandStrides{1, 2 * s.bs.col},
          real,    real,
          real,    1,
          0};
}

bool IsOfFewComplexRows(const OneProduct& s) {
  // Beyond, a second copy of b in panels does not count.
  constexpr int64_t kComplexRows = program::TargetFacts::kVectorRegisters;
  return s.m <= kComplexRows && (s.bs.col == 1 || s.bs.row == 1);
}

template <class T>
Status MultiplyComplexRows(const Means& means, const OneProduct& s) {
  bool by_rows = s.bs.col == 1;
  auto left = TRY(Scratch<T>::New(means, 2 * s.m * s.k * (by_rows ? 1 : 2)));
  auto sums = TRY(Scratch<T>::New(means, 2 * s.m * s.n * (by_rows ? 2 : 1)));
  OneProduct real = RealProduct<T>(s, left.data(), sums.data());
  for (int64_t i = 0; i < s.m; ++i) {
    T *x_row = left.data() + 2 * i * real.k, *y_row = x_row + real.k;
    const T* from = reinterpret_cast<const T*>(s.a) + 2 * i * s.as.row;
    for (int64_t p = 0; p < s.k; ++p, from += 2 * s.as.col) {
      T x = from[0], y = from[1];
      if (by_rows) {
        x_row[p] = x;
        y_row[p] = y;
      } else {
        x_row[2 * p] = x;
        x_row[2 * p + 1] = -y;
        y_row[2 * p] = y;
        y_row[2 * p + 1] = x;
      }
    }
  }
  TRY(MultiplyOne<T>(means, real, {}));
  T alpha = static_cast<T>(s.alpha), beta = static_cast<T>(s.beta);
  for (int64_t i = 0; i < s.m; ++i) {
    const T *x_sums = sums.data() + 2 * i * real.n, *y_sums = x_sums + real.n;
    T* to = reinterpret_cast<T*>(s.c) + 2 * i * s.n;
    for (int64_t j = 0; j < s.n; ++j, to += 2) {
      T x = by_rows ? x_sums[2 * j] - y_sums[2 * j + 1] : x_sums[j];
      T y = by_rows ? x_sums[2 * j + 1] + y_sums[2 * j] : y_sums[j];
      to[0] = alpha * x + (beta != 0 ? beta * to[0] : T(0));
      to[1] = alpha * y + (beta != 0 ? beta * to[1] : T(0));
    }
  }
  return {};
}

template <class T>
int64_t ComplexScratch(const OneProduct& product, int64_t threads) {
  OneProduct s = VectorFirst(product);
  if (!IsOfFewComplexRows(s)) return MultiplyScratch<T>(s.m, 2 * s.n, 2 * s.k, threads);
  OneProduct real = RealProduct<T>(s, nullptr, nullptr);
  return (real.m * real.k + real.m * real.n) * int64_t{sizeof(T)} + ScratchOfOne<T>(real, threads);
}

template <class T>
Status MultiplyComplex(const Means& means, const OneProduct& product, const RowsDone& done) {
  int64_t result_rows = product.m;
  OneProduct s = VectorFirst(product);
  if (IsOfFewComplexRows(s)) {
    TRY(MultiplyComplexRows<T>(means, s));
    if (done) done(0, result_rows);
    return {};
  }
  ComplexPanels<T> left(reinterpret_cast<const T*>(s.a), s.as.row, s.as.col, false);
  ComplexPanels<T> right(reinterpret_cast<const T*>(s.b), s.bs.col, s.bs.row, true);
  return Multiply<T>(means, s.m, 2 * s.n, 2 * s.k, left, right, reinterpret_cast<T*>(s.c), 2 * s.n,
                     static_cast<T>(s.alpha), static_cast<T>(s.beta), done);
}

class Gemm : public PreparedRoutine {
 public:
  Gemm(const GemmShape& shape, const Epilogue& epilogue) : shape_(shape), epilogue_(epilogue) {}

  Status Run(const RoutineContext& context) const override {
    const GemmShape& s = shape_;
    if (s.m == 0 || s.n == 0) return {};
    double cost = CostOfOne();
    bool whole = IsWhole();
    Means means = context.means();
    Means inner = whole ? means.Alone() : means;
    EpilogueRun epilogue(epilogue_, context);
    bool by_rows = epilogue.TakesRows(s.n);
    auto run = [&](int64_t begin, int64_t end) -> Status {
      for (int64_t i = begin; i < end; ++i) {
        RowsDone done = by_rows ? epilogue.OnRows(i * s.m * s.n, s.n) : RowsDone();
        TRY(One(inner, context, i, done));
      }
      return {};
    };
    TRY(whole ? TryPieces(&context.pool, s.batch, cost, run) : run(0, s.batch));
    if (!by_rows) epilogue.OnAll(&context.pool);
    return {};
  }

  int64_t ScratchBytes(int64_t threads) const override {
    const GemmShape& s = shape_;
    int64_t at_once = IsWhole() ? std::min(threads, s.batch) : 1;
    if (IsWhole()) threads = 1;
    if (IsComplex(s.c)) {
      OneProduct one = Product({}, {}, {});
      return at_once * (s.c == DType::kC64 ? ComplexScratch<float>(one, threads)
                                           : ComplexScratch<double>(one, threads));
    }
    return WithSumType(
        s.c, [&]<class T>() { return at_once * ScratchOfOne<T>(Product({}, {}, {}), threads); });
  }

 private:
  double CostOfOne() const {
    const GemmShape& s = shape_;
    return static_cast<double>(s.m * s.n) * static_cast<double>(s.k) / 20 + 100;
  }
  // Many small products are shared out whole, large ones are cut.
  bool IsWhole() const { return shape_.batch > 1 && (CostOfOne() < 200e3 || shape_.batch >= 32); }

  OneProduct Product(const std::byte* a, const std::byte* b, std::byte* c) const {
    const GemmShape& s = shape_;
    OperandStrides as = s.trans_a ? OperandStrides{1, s.m} : OperandStrides{s.k, 1};
    OperandStrides bs = s.trans_b ? OperandStrides{1, s.k} : OperandStrides{s.n, 1};
    return {s.m, s.n, s.k, a, b, c, as, bs, s.a, s.b, s.c, s.alpha, s.beta};
  }

  Status One(const Means& means, const RoutineContext& context, int64_t i,
             const RowsDone& done) const {
    const GemmShape& s = shape_;
    OneProduct one = Product(context.memory[0] + i * s.m * s.k * ByteWidth(s.a),
                             context.memory[1] + i * s.k * s.n * ByteWidth(s.b),
                             context.memory[2] + i * s.m * s.n * ByteWidth(s.c));
    one.more = i + 1 < s.batch;
    if (s.c == DType::kC64) return MultiplyComplex<float>(means, one, done);
    if (s.c == DType::kC128) return MultiplyComplex<double>(means, one, done);
    return WithSumType(s.c, [&]<class T>() { return MultiplyOne<T>(means, one, done); });
  }

  GemmShape shape_;
  Epilogue epilogue_;
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareGemm(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "gemm"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  GemmShape s = {program::IntAttr(call, "m", 0),
                 program::IntAttr(call, "n", 0),
                 program::IntAttr(call, "k", 0),
                 program::IntAttr(call, "batch", 1),
                 program::BoolAttr(call, "trans_a", false),
                 program::BoolAttr(call, "trans_b", false),
                 program::DoubleAttr(call, "alpha", 1.0),
                 program::DoubleAttr(call, "beta", 0.0),
                 UseDType(inputs, 0),
                 UseDType(inputs, 1),
                 UseDType(inputs, 2)};
  return std::make_unique<Gemm>(s, TRY(EpilogueOf(inputs)));
}

}  // namespace weft::cpu
