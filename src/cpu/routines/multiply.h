// Matrix products of operands that come in packed panels: what gemm and convolution share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "base/cancel_flag.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cpu/routines/scratch.h"
#include "program/sum_order.h"
#include "program/target_facts.h"

namespace weft::cpu {

// One side of a product: vectors (rows of a, columns of b) of k elements each.
template <class T>
class PanelSource {
 public:
  virtual ~PanelSource() = default;
  // out[p * width + i] = element k0 + p of vector first + i, for p < kn and i < count; zero for
  // the i from count to width.
  virtual void Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                    T* out) const = 0;
  // Any count, as panels that are `panel` elements apart: sources that are read along rows can go
  // across all of them.
  virtual void PackMany(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                        int64_t panel, T* out) const {
    for (int64_t at = 0; at < count; at += width, out += panel) {
      Pack(first + at, std::min(width, count - at), k0, kn, width, out);
    }
  }
};

// Products whose sums of f32 may be added up one by one, some hundreds at a time: a longer
// contraction is cut in parts, which are added in f64, so that equal products add up to within 1e-6
// of exact.
inline constexpr int64_t kLongSum = 16 * program::SumOrder::kBlock;

// Told of every row of a result once, when it is complete; from several threads. Empty: nobody
// asks.
using RowsDone = std::function<void(int64_t begin, int64_t end)>;

// c of m x n is a of m x k times b of k x n.
struct ProductSizes {
  int64_t m, n, k;
  bool reads_once = false;  // b comes from memory for a few rows: tasks take long runs of it
  bool b_along = false;     // elements of a column of b are consecutive
};

// Where results go, and what they are there; rows are so many elements apart.
struct ResultMatrix {
  DType dtype;
  std::byte* data;
  int64_t row;
};

// Elements of a micro-kernel's tile.
inline constexpr int64_t kMostTile =
    program::TargetFacts::kTileRows * program::TargetFacts::kTileRowBytes;

// What a micro-kernel asks of packed operands.
struct PanelForm {
  int64_t rows, cols;      // of a tile of the result: vectors in a panel
  int64_t step;            // panels have a multiple of so many elements of each vector
  int64_t element;         // bytes of a packed element
  int64_t a_head, b_head;  // bytes before the elements
  int64_t sum;             // bytes of an accumulator
  double speed;            // multiplications a nanosecond, about
  bool exact = false;      // sums of integers, as long as they may be

  int64_t PanelBytes(bool is_left, int64_t k) const {
    int64_t bytes = (k + step - 1) / step * step * (is_left ? rows : cols) * element;
    return (bytes + (is_left ? a_head : b_head) + 63) / 64 * 64;
  }
};

// A product as its micro-kernel sees it: how panels are packed, and how a tile is made of them.
template <class T>
class PackedProduct {
 public:
  virtual ~PackedProduct() = default;
  virtual PanelForm form() const = 0;
  // Elements k0 to k0 + kn of vectors first to first + count, as panels that are `panel` bytes
  // apart; zeroes for vectors that the last one has beyond.
  virtual void Pack(bool is_left, int64_t first, int64_t count, int64_t k0, int64_t kn,
                    int64_t panel, std::byte* out) const = 0;
  // A tile of c = alpha * sum + beta * c; c is not read when beta is 0.
  virtual void Run(int64_t k, const std::byte* a, const std::byte* b, T* c, int64_t ldc, T alpha,
                   T beta) const = 0;
  // A thread that is about to run tiles, and when it is done with them.
  virtual void Enter() const {}
  virtual void Leave() const {}
};

// c = alpha * a b + beta * c; c is not read when beta is 0. T: float, double, uint32_t, uint64_t,
// what sums are kept in. The order of sums depends on the sizes alone.
template <class T>
Status MultiplyPacked(const Means& means, const ProductSizes& sizes,
                      const PackedProduct<T>& product, const ResultMatrix& result, T alpha, T beta,
                      const RowsDone& done = {});
template <class T>
Status Multiply(const Means& means, const ProductSizes& sizes, const PanelSource<T>& a,
                const PanelSource<T>& b, const ResultMatrix& result, T alpha, T beta,
                const RowsDone& done = {});
// The same for results of T, rows ldc apart.
template <class T>
Status Multiply(const Means& means, int64_t m, int64_t n, int64_t k, const PanelSource<T>& a,
                const PanelSource<T>& b, T* c, int64_t ldc, T alpha, T beta,
                const RowsDone& done = {});

// Bytes of scratch that these take, on so many threads; 1 without a pool.
template <class T>
int64_t PackedScratch(const PanelForm& form, const ProductSizes& sizes, int64_t threads);
template <class T>
int64_t MultiplyScratch(const ProductSizes& sizes, int64_t threads);
template <class T>
int64_t MultiplyScratch(int64_t m, int64_t n, int64_t k, int64_t threads) {
  return MultiplyScratch<T>({m, n, k}, threads);
}

// Of the tile for packed operands that takes least time over n columns.
template <class T>
PanelForm TileForm(int64_t n);
template <class T>
struct TileKernel;
template <class T>
PanelForm TileForm(const TileKernel<T>& kernel);

// Elements in memory: element p of vector i is at i * vector_stride + p * k_stride, converted to T.
template <class T>
class StridedPanels : public PanelSource<T> {
 public:
  StridedPanels(DType dtype, const std::byte* data, int64_t vector_stride, int64_t k_stride)
      : dtype_(dtype), data_(data), vector_stride_(vector_stride), k_stride_(k_stride) {}
  void Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
            T* out) const override;
  void PackMany(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width, int64_t panel,
                T* out) const override;

 private:
  DType dtype_;
  const std::byte* data_;
  int64_t vector_stride_, k_stride_;
};

// Complex elements as a product of real matrices: a row of a is its real and imaginary parts in
// turn; each element x + iy of b is the square (x, y; -y, x), so that c comes out interleaved.
template <class T>
class ComplexPanels : public PanelSource<T> {
 public:
  // `square`: the right side. Strides in complex elements.
  ComplexPanels(const T* data, int64_t vector_stride, int64_t k_stride, bool square)
      : data_(data), vector_stride_(vector_stride), k_stride_(k_stride), square_(square) {}
  void Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
            T* out) const override;

 private:
  void PackSquares(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                   T* out) const;

  const T* data_;
  int64_t vector_stride_, k_stride_;
  bool square_;
};

// n elements, as often as not those of a row of a tile: copied in vectors, a call takes longer.
template <class T>
[[gnu::always_inline]] inline void CopyRow(const void* from, int64_t n, T* to) {
  constexpr int64_t kVector = program::TargetFacts::kNarrowLanes * int64_t{sizeof(float)};
  switch (n * int64_t{sizeof(T)}) {
    case kVector: std::memcpy(to, from, kVector); return;
    case 2 * kVector: std::memcpy(to, from, 2 * kVector); return;
    case 3 * kVector: std::memcpy(to, from, 3 * kVector); return;
    case 4 * kVector: std::memcpy(to, from, 4 * kVector); return;
    case 6 * kVector: std::memcpy(to, from, 6 * kVector); return;
    case 8 * kVector: std::memcpy(to, from, 8 * kVector); return;
    case 12 * kVector: std::memcpy(to, from, 12 * kVector); return;
    default: std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T)); return;
  }
}

// n consecutive elements to T, and back.
template <class T>
void LoadRun(DType from, const std::byte* src, int64_t n, T* dst);
template <class T>
void StoreRun(DType to, const T* src, int64_t n, std::byte* dst);

// The type that products into `result` are summed in: float, double, uint32_t or uint64_t. Calls
// fn.operator()<T>(). Complex types: of their parts.
template <class Fn>
auto WithSumType(DType result, const Fn& fn) {
  if (RealType(result) == DType::kF64) return fn.template operator()<double>();
  if (IsFloat(result) || IsComplex(result)) return fn.template operator()<float>();
  if (BitWidth(result) <= 32) return fn.template operator()<uint32_t>();
  return fn.template operator()<uint64_t>();
}

// Whether memory of that dtype is an array of T.
template <class T>
bool IsStoredAs(DType dtype) {
  if constexpr (std::is_same_v<T, float>) return RealType(dtype) == DType::kF32;
  if constexpr (std::is_same_v<T, double>) return RealType(dtype) == DType::kF64;
  return IsInteger(dtype) && BitWidth(dtype) == 8 * int{sizeof(T)};
}

// fn(begin, end) over pieces of [0, n), on the pool when there is one and the whole is worth it.
// Once the run is cancelled the pieces that are left are left out: who takes what they would have
// made for more than numbers (for positions, say) looks at CancelFlag::IsSet() first.
template <class Fn>
void ForPieces(ThreadPool* pool, int64_t n, double nanoseconds_each, const Fn& fn) {
  constexpr double kWorthIt = 2.5 * program::TargetFacts::kPieceNanoseconds,
                   kPiece = program::TargetFacts::kPieceNanoseconds, kLongest = 1000 * kPiece;
  if (n <= 0) return;
  const double each = nanoseconds_each > 1e-3 ? nanoseconds_each : 1e-3;
  // Long pieces are cut, so that somebody looks in between.
  const auto most = static_cast<int64_t>(std::clamp(kLongest / each, 1.0, 1e18));
  auto run = [&](int64_t begin, int64_t end) {
    for (int64_t next; begin < end && !CancelFlag::IsSet(); begin = next) {
      next = end - begin <= most ? end : begin + most;
      fn(begin, next);
    }
  };
  if (pool == nullptr || n == 1 || static_cast<double>(n) * nanoseconds_each < kWorthIt) {
    return run(int64_t{0}, n);
  }
  double grain = kPiece / each;
  pool->ParallelFor(n, grain < 1 ? 1 : static_cast<int64_t>(grain), run);
}

// The same with a fn that may fail: the error of the piece that comes first.
template <class Fn>
Status TryPieces(ThreadPool* pool, int64_t n, double nanoseconds_each, const Fn& fn) {
  Status result;
  int64_t first = n;
  Mutex mutex;
  ForPieces(pool, n, nanoseconds_each, [&](int64_t begin, int64_t end) {
    Status status = fn(begin, end);
    if (status) return;
    MutexLock lock(mutex);
    if (begin >= first) return;
    first = begin;
    result = std::move(status);
  });
  return result;
}

}  // namespace weft::cpu
