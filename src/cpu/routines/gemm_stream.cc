// Few rows by a matrix that is read once, row by row, where it lies.
#include <algorithm>
#include <cstring>

#include "cpu/routines/blocking.h"
#include "cpu/routines/gemm_product.h"
#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_stream.h"
#include "cpu/routines/scaled_runs.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

// What takes rows of b as they are; null: they are widened.
template <class T>
const NarrowStream* NarrowStreamOf(const OneProduct& s, bool is_cut) {
  if (s.bs.col != 1 || s.scaled_b != nullptr) return nullptr;
  if (std::is_same_v<T, float>) {
    return s.b_type == DType::kBF16 ? FindNarrowStream(s.b_type) : nullptr;
  }
  bool bytes = s.b_type == DType::kS8 && (s.a_type == DType::kS8 || s.a_type == DType::kU8);
  bool plain = s.alpha == 1 && (s.beta == 0 || is_cut);  // sums are not in order on the way
  return std::is_same_v<T, uint32_t> && bytes && plain ? FindNarrowStream(s.b_type) : nullptr;
}

// The left side of a product by a stream: [k / 4][m][4], times alpha.
template <class T>
void PackStreamLeft(const Means& means, const OneProduct& s, T* left) {
  constexpr int64_t kAtOnce = kStreamRun;
  T alpha = FactorOf<T>(s.alpha);
  int64_t bytes = ByteWidth(s.a_type);
  auto pack = [&](int64_t begin, int64_t end) {
    for (int64_t p = begin * kAtOnce; p < std::min(s.k, end * kAtOnce); p += kAtOnce) {
      int64_t n = std::min(kAtOnce, s.k - p);
      for (int64_t i = 0; i < s.m; ++i) {
        T run[kAtOnce] = {};
        const std::byte* from = s.a + (i * s.as.row + p * s.as.col) * bytes;
        int64_t at_once = s.as.col == 1 ? n : 1;
        for (int64_t q = 0; q < n; q += at_once) {
          LoadRun<T>(s.a_type, from + q * s.as.col * bytes, at_once, run + q);
        }
        for (int64_t q = 0; q < n && alpha != 1; ++q) run[q] *= alpha;
        T* to = left + p * s.m + 4 * i;
        for (int64_t q = 0; q < n; q += 4, to += 4 * s.m) std::copy_n(run + q, 4, to);
      }
    }
  };
  double cost = static_cast<double>(s.m * kAtOnce) / 2;
  ForPieces(means.pool, CeilDivide(s.k, kAtOnce), cost, pack);
}

// Bytes without a sign, [k / 4][m + 1][4]: those with one are 128 more, which the last row is.
void PackStreamBytes(const OneProduct& s, std::byte* left) {
  uint32_t flip = s.a_type == DType::kS8 ? 0x80808080 : 0;
  for (int64_t i = 0; i <= s.m; ++i) {
    const std::byte* from = s.a + i * s.as.row;
    std::byte* to = left + 4 * i;
    for (int64_t p = 0; p < s.k; p += 4, to += 4 * (s.m + 1)) {
      uint32_t word = 0;
      if (i < s.m && s.as.col == 1 && p + 4 <= s.k) {
        std::memcpy(&word, from + p, sizeof(word));
      } else {
        for (int64_t q = 0; i < s.m && q < std::min<int64_t>(4, s.k - p); ++q) {
          word |= std::to_integer<uint32_t>(from[(p + q) * s.as.col]) << 8 * q;
        }
      }
      word ^= flip;
      std::memcpy(to, &word, sizeof(word));
    }
  }
}

// From one row of sums that are kept beside the result to the next: not at the same place of a
// cache.
constexpr int64_t kSumsRow = kStreamCols + program::TargetFacts::kLineBytes / 4;

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
    return std::is_same_v<T, float> && std::min(s.k, depth) > RunOf<T>(s);
  }
  // Rows of b that sums of f32 take: of runs as many as a block has, where rows come in runs.
  template <class T>
  int64_t RunOf(const OneProduct& s) const {
    const NarrowStream* narrow = NarrowStreamOf<T>(s, parts > 1);
    bool all = narrow != nullptr && s.n % narrow->unit == 0;
    return all ? program::SumOrder::kBlock : kStreamRun;
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
    return beside ? cut.parts * s.m * cut.blocks * kSumsRow + HostCaches().l1 / int64_t{sizeof(T)}
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
    return cut.IsLong<T>(s) ? cut.parts * s.m * cut.blocks * kSumsRow : 0;
  }
};

// Some columns of the result, from some rows of the right side.
template <class T>
class StreamBlock {
 public:
  StreamBlock(const OneProduct& s, const StreamCut& cut, const T* left, const std::byte* bytes,
              StreamSums<T>& all, int64_t block, int64_t part)
      : s_(s),
        left_(left),
        bytes_(bytes),
        narrow_(NarrowStreamOf<T>(s, cut.parts > 1)),
        j_(block * kStreamCols),
        n_(std::min(kStreamCols, s.n - j_)),
        k0_(part * cut.depth),
        k1_(std::min(s.k, k0_ + cut.depth)),
        run_(cut.RunOf<T>(s)),
        is_long_(cut.IsLong<T>(s)),
        is_whole_(cut.parts == 1) {
    int64_t at = (part * cut.blocks + block) * s.m * kSumsRow;
    bool in_place = is_whole_ && IsStoredAs<T>(s.c_type);
    c_ = in_place ? reinterpret_cast<T*>(s.c) + j_ : all.first + at;
    ldc_ = in_place ? s.n : kSumsRow;
    so_far_ = is_long_ ? all.so_far.data() + at : nullptr;
  }

  void Run(const TileKernel<T>& kernel) {
    Begin();
    int64_t whole = narrow_ != nullptr ? n_ / narrow_->unit * narrow_->unit : 0;
    for (int64_t p = k0_; p < k1_; p += run_) {
      if (is_long_ && p > k0_) {
        MoveSums(p == k0_ + run_);
        for (int64_t i = 0; i < s_.m; ++i) Start(i, T(0));
      }
      int64_t end = std::min(k1_, p + run_);
      if (whole > 0) GrowNarrow(whole, p, end);
      if (whole < n_) GrowWide(kernel, whole, p, end);
    }
    if (whole > 0 && narrow_->put_in_order != nullptr) {
      for (int64_t i = 0; i < s_.m; ++i) narrow_->put_in_order(whole, SumsOf(i), SumsOf(s_.m));
    }
    if (is_long_) MoveSums(k1_ - k0_ <= run_);
    if (is_whole_) End();
  }

 private:
  void GrowWide(const TileKernel<T>& kernel, int64_t first, int64_t begin, int64_t end) {
    T wide[4 * kStreamCols];
    for (int64_t p = begin; p < end; p += 4) {
      const T* rows[4];
      for (int64_t q = 0; q < 4; ++q) rows[q] = Row(p + q, first, wide + q * kStreamCols);
      for (int64_t i = 0; i < s_.m; i += 4) {
        kernel.grow(std::min<int64_t>(4, s_.m - i), n_ - first, left_ + p * s_.m + 4 * i, rows,
                    c_ + i * ldc_ + first, ldc_);
      }
    }
  }

  // The first `whole` columns.
  void GrowNarrow(int64_t whole, int64_t begin, int64_t end) {
    constexpr int64_t kMostRowsAtOnce = kStreamRun;
    const std::byte *now[kMostRowsAtOnce], *next[kMostRowsAtOnce];
    int64_t at_once = 4 * narrow_->quads,
            sums = s_.m + (sizeof(T) == 4 && bytes_ != nullptr ? 1 : 0);
    for (int64_t p = begin; p < end; p += at_once) {
      int64_t count = CeilDivide(std::min(at_once, end - p), 4) * 4;
      bool more = p + count + at_once <= k1_;
      for (int64_t q = 0; q < count; ++q) {
        now[q] = NarrowRow(p + q);
        if (more) next[q] = NarrowRow(p + count + q);
      }
      for (int64_t i = 0; i < sums; i += narrow_->sums) {
        int64_t used = std::min<int64_t>(narrow_->sums, sums - i);
        std::byte* to[kMostRowsAtOnce];
        for (int64_t x = 0; x < used; ++x) to[x] = SumsOf(i + x);
        const auto* a = bytes_ != nullptr
                            ? bytes_ + (p / 4 * sums + i) * 4
                            : reinterpret_cast<const std::byte*>(left_ + p * s_.m + 4 * i);
        int64_t a_quad = bytes_ != nullptr ? 4 * sums : 4 * s_.m * int64_t{sizeof(T)};
        narrow_->grow(used,
                      {whole, count / 4, now, more && i == 0 ? next : nullptr, a, a_quad, to});
      }
    }
  }

  const std::byte* NarrowRow(int64_t p) const {
    alignas(64) static constexpr std::byte kZeroes[2 * kStreamCols] = {};
    return p < s_.k ? s_.b + (p * s_.bs.row + j_) * ByteWidth(s_.b_type) : kZeroes;
  }
  // Of one row; those past the last one are what is too much in all others.
  std::byte* SumsOf(int64_t i) {
    return reinterpret_cast<std::byte*>(i < s_.m ? c_ + i * ldc_ : too_much_);
  }

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
  const T* Row(int64_t p, int64_t first, T* wide) const {
    if (p >= s_.k) {
      std::fill_n(wide, n_ - first, T(0));
      return wide;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (s_.scaled_b != nullptr) {
        ReadAcross<float>(*s_.scaled_b, j_ + first, n_ - first, p, 1, wide, 0);
        return wide;
      }
    }
    const std::byte* from = s_.b + (p * s_.bs.row + j_ + first) * ByteWidth(s_.b_type);
    if (IsStoredAs<T>(s_.b_type)) return reinterpret_cast<const T*>(from);
    LoadRun<T>(s_.b_type, from, n_ - first, wide);
    return wide;
  }

  void MoveSums(bool is_first) {
    for (int64_t i = 0; i < s_.m; ++i) {
      const T* row = c_ + i * ldc_;
      double* to = so_far_ + i * kSumsRow;
      for (int64_t x = 0; x < n_; ++x) {
        to[x] = static_cast<double>(row[x]) + (is_first ? 0.0 : to[x]);
      }
    }
  }

  void End() {
    for (int64_t i = 0; i < s_.m && is_long_; ++i) {
      const double* from = so_far_ + i * kSumsRow;
      for (int64_t x = 0; x < n_; ++x) c_[i * ldc_ + x] = static_cast<T>(from[x]);
    }
    if (IsStoredAs<T>(s_.c_type)) return;
    for (int64_t i = 0; i < s_.m; ++i) StoreRun<T>(s_.c_type, c_ + i * ldc_, n_, Result(i));
  }

  const OneProduct& s_;
  const T* left_;
  const std::byte* bytes_;  // the left side where rows of b are bytes
  const NarrowStream* narrow_;
  int64_t j_, n_;    // columns [j, j + n)
  int64_t k0_, k1_;  // of the contraction
  int64_t run_;
  bool is_long_, is_whole_;
  double* so_far_;
  T* c_;
  int64_t ldc_;
  T too_much_[kStreamCols] = {};
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
    int64_t at = ((part * cut.blocks + block) * s.m + i) * kSumsRow;
    cut.IsLong<T>(s) ? add(all.so_far.data() + at) : add(all.first + at);
  }
  for (int64_t x = 0; x < n; ++x) row[x] = static_cast<T>(sums[x]);
  StoreRun<T>(s.c_type, row, n, result);
}

// Of the left side as bytes, and elements of it as T.
template <class T>
int64_t BytesOfLeft(const OneProduct& s, const StreamCut& cut) {
  const NarrowStream* narrow = NarrowStreamOf<T>(s, cut.parts > 1);
  return narrow != nullptr && narrow->put_in_order != nullptr ? CeilDivide(s.k, 4) * 4 * (s.m + 1)
                                                              : 0;
}
template <class T>
int64_t WideLeft(const OneProduct& s, const StreamCut& cut) {
  const NarrowStream* narrow = NarrowStreamOf<T>(s, cut.parts > 1);
  bool none = BytesOfLeft<T>(s, cut) > 0 && s.n % narrow->unit == 0;
  return none ? 0 : s.m * (s.k + 4);
}

}  // namespace

template <class T>
Status MultiplyStream(const Means& means, const OneProduct& s) {
  const TileKernel<T>& kernel = *FindTileKernel<T>(INT64_MAX);
  StreamCut cut(s);
  auto left = TRY(Scratch<T>::New(means, WideLeft<T>(s, cut)));
  if (left.data() != nullptr) PackStreamLeft(means, s, left.data());
  StreamSums<T> sums = {TRY(Scratch<T>::New(means, StreamSums<T>::SumCount(s, cut))),
                        TRY(Scratch<double>::New(means, StreamSums<T>::LongCount(s, cut)))};
  sums.Place(s);
  auto bytes = TRY(Scratch<std::byte>::New(means, BytesOfLeft<T>(s, cut)));
  if (bytes.data() != nullptr) PackStreamBytes(s, bytes.data());
  int64_t row = std::min(s.n, kStreamCols), rows = std::min(s.k, cut.depth);
  // Neighbours in memory are read at the same time.
  ForPieces(means.pool, cut.parts * cut.blocks, static_cast<double>(rows * row * s.m) / 8,
            [&](int64_t begin, int64_t end) {
              for (int64_t task = begin; task < end; ++task) {
                StreamBlock<T>(s, cut, left.data(), bytes.data(), sums, task % cut.blocks,
                               task / cut.blocks)
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
bool TakesNarrowStream(const OneProduct& s) {
  return NarrowStreamOf<T>(s, StreamCut(s).parts > 1) != nullptr;
}

template <class T>
int64_t StreamScratch(const OneProduct& s) {
  StreamCut cut(s);
  int64_t elements = WideLeft<T>(s, cut) + StreamSums<T>::SumCount(s, cut);
  return BytesOfLeft<T>(s, cut) + elements * int64_t{sizeof(T)} +
         StreamSums<T>::LongCount(s, cut) * int64_t{sizeof(double)};
}

#define WEFT_INSTANTIATE(T)                                           \
  template Status MultiplyStream<T>(const Means&, const OneProduct&); \
  template int64_t StreamScratch<T>(const OneProduct&);               \
  template bool TakesNarrowStream<T>(const OneProduct&);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
