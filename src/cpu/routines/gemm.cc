// gemm: which way each product goes. Packed and tiled; small, skinny and matrix-vector products
// work on the operands as they lie in memory (gemm_unpacked.cc).
#include <algorithm>

#include "base/log.h"
#include "cpu/routines/epilogue.h"
#include "cpu/routines/gemm_product.h"
#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_product.h"
#include "cpu/routines/narrow_rows.h"
#include "cpu/routines/narrow_small.h"
#include "cpu/routines/prepare.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

constexpr int64_t kSmallWork = 72 * 72 * 72;  // multiplications that are done without packing b
constexpr int64_t kNarrowStreamRows = kStreamRows / 4;

struct GemmShape {
  int64_t m, n, k, batch;
  bool trans_a, trans_b;
  double alpha, beta;
  DType a, b, c;
};

enum class Way : uint8_t {
  kFewNarrow,
  kSmallNarrow,
  kDots,
  kSquares,
  kStream,
  kTall,
  kGram,
  kSmall,
  kFew,
  kPacked
};

// Packing b would take as long as the product. Rows of b that lie far apart meet in the same places
// of a cache, so that b had better be packed when it is read more often than twice.
bool IsOfFewRows(const OneProduct& s, int64_t rows_of_tile) {
  // What comes from memory is packed in long runs of its rows.
  if (s.k * s.n * ByteWidth(s.b_type) > HostCaches().l2) return false;
  bool near = s.n <= 256 || s.k <= 128;
  return s.m <= (near ? 4 : 2) * rows_of_tile;
}

// Whether b is read from L2 for every tile of rows: that costs no more than packed panels, which
// have to be made first. Of few columns packed panels are read by wider tiles.
bool StaysInSecondCache(const OneProduct& s, int64_t cols_of_tile) {
  return s.n >= 2 * cols_of_tile && s.k * s.n * ByteWidth(s.b_type) <= HostCaches().l2 / 4;
}

// The micro-kernel that takes bf16 or int8 as they are; null: they are widened.
template <class T>
const NarrowKernel* NarrowKernelFor(const OneProduct& s) {
  constexpr bool kSums = std::is_same_v<T, float> || std::is_same_v<T, uint32_t>;
  bool plain = s.alpha == 1 && (s.beta == 0 || s.beta == 1);
  return kSums && plain ? FindNarrowKernel(s.a_type, s.b_type, s.m) : nullptr;
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

// Packing b would take longer than the product. Elements of other types are widened on the way,
// which instructions for these need not: they get a square of rows at most.
template <class T>
bool TakesSquares(const OneProduct& s) {
  const TileKernel<T>& kernel = *FindTileKernel<T>(INT64_MAX);
  int64_t most = NarrowKernelFor<T>(s) != nullptr ? kDotSquare : kMostDotRows;
  return ByteWidth(s.b_type) <= int64_t{sizeof(T)} && IsStoredAs<T>(s.c_type) && s.bs.row == 1 &&
         s.k >= std::max<int64_t>(kDotRows, 2 * kernel.lanes) &&
         s.m <= std::min<int64_t>(kernel.dot_rows, most) && s.n >= kDotSquare;
}

// Rows of a that one reading of b serves by a stream: where there is a micro-kernel that takes b as
// it is, packing is worth it from few rows on.
template <class T>
int64_t StreamRows(const OneProduct& s) {
  bool narrow = NarrowKernelFor<T>(s) != nullptr;
  if (TakesNarrowStream<T>(s)) return narrow ? kStreamRows / 2 : 2 * kStreamRows;
  return narrow ? kNarrowStreamRows : kStreamRows;
}

template <class T>
Way WayOf(const OneProduct& s) {
  const NarrowKernel* narrow = NarrowKernelFor<T>(s);
  if (narrow != nullptr && TakesFewRows(*narrow, FewRowsOf(s))) return Way::kFewNarrow;
  bool streams = s.bs.col == 1 && s.n >= 16 && (s.m == 1 || s.k * s.n >= 1 << 16);
  if (narrow != nullptr && !(streams && s.m <= StreamRows<T>(s)) && s.m > kNarrowStreamRows &&
      TakesSmallNarrow(*narrow, FewRowsOf(s))) {
    return Way::kSmallNarrow;
  }
  if (s.m == 1 && s.bs.row == 1 && s.k >= 8) return Way::kDots;
  // Either side could be packed: the smaller one.
  bool is_tall = narrow == nullptr && IsTall<T>(s);
  if (is_tall && s.m > s.n) return Way::kTall;
  if (narrow == nullptr && IsGram<T>(s)) return Way::kGram;
  if (TakesSquares<T>(s)) return Way::kSquares;
  if (streams && s.m <= StreamRows<T>(s)) return Way::kStream;
  if (is_tall) return Way::kTall;
  bool as_is = IsStoredAs<T>(s.b_type) && IsStoredAs<T>(s.c_type);
  if (!as_is || s.bs.col != 1 || FindTileKernel<T>(s.n) == nullptr) return Way::kPacked;
  if (s.m * s.n * s.k <= kSmallWork) return Way::kSmall;
  const TileKernel<T>& kernel = *FindTileKernel<T>(s.n);
  if (IsOfFewRows(s, kernel.rows)) return Way::kFew;
  return StaysInSecondCache(s, kernel.cols) ? Way::kSmall : Way::kPacked;
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

class Gemm : public PreparedRoutine {
 public:
  Gemm(const GemmShape& shape, const Epilogue& epilogue) : shape_(shape), epilogue_(epilogue) {}

  Status Run(const RoutineContext& context) const override {
    const GemmShape& s = shape_;
    if (s.m == 0 || s.n == 0) return {};
    bool whole = IsWhole();
    Means means = context.means();
    EpilogueRun epilogue(epilogue_, context);
    bool by_rows = epilogue.TakesRows(s.n);
    int64_t own_bytes = whole ? ScratchOfEach(1) : 0;
    auto run = [&](int64_t begin, int64_t end) -> Status {
      // Threads that share out small products have a room each: taking parts of one for every
      // product they would wait for each other.
      auto own = TRY(Scratch<std::byte>::New(means, own_bytes));
      ScratchRoom room(own.span());
      Means inner = whole ? Means{nullptr, &room, means.trial} : means;
      for (int64_t i = begin; i < end; ++i) {
        RowsDone done = by_rows ? epilogue.OnRows(i * s.m * s.n, s.n) : RowsDone();
        TRY(One(inner, context, i, done));
      }
      return {};
    };
    TRY(whole ? TryPieces(&context.pool, s.batch, CostOfPiece(), run) : run(0, s.batch));
    if (!by_rows) epilogue.OnAll(&context.pool);
    return {};
  }

  int64_t ScratchBytes(int64_t threads) const override {
    return IsWhole() ? std::min(threads, shape_.batch) * ScratchOfEach(1) : ScratchOfEach(threads);
  }

 private:
  // One product's, on so many threads; parts of it are rounded up.
  int64_t ScratchOfEach(int64_t threads) const {
    OneProduct one = Product({}, {}, {});
    int64_t bytes =
        shape_.c == DType::kC64 ? ComplexScratch<float>(one, threads)
        : shape_.c == DType::kC128
            ? ComplexScratch<double>(one, threads)
            : WithSumType(shape_.c, [&]<class T>() { return ScratchOfOne<T>(one, threads); });
    return bytes > 0 ? bytes + program::CodeBounds::kCopies * int64_t{kStorageAlignment} : 0;
  }
  double CostOfOne() const {
    const GemmShape& s = shape_;
    return static_cast<double>(s.m * s.n) * static_cast<double>(s.k) / 20 + 100;
  }
  // By the micro-kernel that takes it: many that are soon done make one piece, or threads would
  // wait for each other's rooms.
  double CostOfPiece() const {
    OneProduct one = Product({}, {}, {});
    auto cost = [&]<class T>() {
      bool small = WayOf<T>(one) == Way::kSmallNarrow;
      return small ? SmallNarrowCost(*NarrowKernelFor<T>(one), FewRowsOf(one)) : CostOfOne();
    };
    return IsComplex(shape_.c) ? CostOfOne() : WithSumType(shape_.c, cost);
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

OneProduct VectorFirst(OneProduct s) {
  if (s.n != 1 || s.m <= 1) return s;
  std::swap(s.a, s.b);
  std::swap(s.a_type, s.b_type);
  std::swap(s.m, s.n);
  return {s.m,      s.n,      s.k,      s.a,     s.b,   s.c, {0, s.bs.row}, {s.as.col, s.as.row},
          s.a_type, s.b_type, s.c_type, s.alpha, s.beta};
}

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
    case Way::kSmallNarrow: return SmallNarrowScratch(*NarrowKernelFor<T>(s), FewRowsOf(s));
    case Way::kDots:
      elements = s.k;
      if (!b_as_is || !c_as_is) elements += CeilDivide(s.n, kDotRows) * kDotRows * s.k;
      break;
    case Way::kSquares: elements = CeilDivide(s.m, kDotSquare) * kDotSquare * s.k; break;
    case Way::kStream: return StreamScratch<T>(s);
    case Way::kTall:
      VLOG("cpu", 3) << "product of " << s.m << " x " << s.n << " x " << s.k
                     << ": rows are read where they lie, the few columns are packed";
      return TallScratch<T>(s);
    case Way::kGram:
      VLOG("cpu", 3) << "product of " << s.m << " x " << s.n << " x " << s.k
                     << ": both sides are read where they lie";
      return GramScratch<T>(s);
    case Way::kSmall:
      VLOG("cpu", 3) << "product of " << s.m << " x " << s.n << " x " << s.k
                     << ": the right side is small and read where it lies";
      break;
    case Way::kFew: {
      int64_t rows = FindTileKernel<T>(s.n)->rows;
      elements = CeilDivide(s.m, rows) * rows * s.k;
      break;
    }
    case Way::kPacked:
      if (const NarrowKernel* kernel = NarrowKernelFor<T>(s)) {
        VLOG("cpu", 3) << "product of " << s.m << " x " << s.n << " x " << s.k << ": micro-kernel "
                       << kernel->name;
        return PackedScratch<T>(NarrowForm(*kernel), PackedSizes(s), threads);
      }
      return MultiplyScratch<T>(PackedSizes(s), threads);
  }
  return elements * int64_t{sizeof(T)};
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
    case Way::kSmallNarrow:
      if constexpr (sizeof(T) == 4) {
        return MultiplySmallNarrow<T>(means, *NarrowKernelFor<T>(s), FewRowsOf(s), done);
      }
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
    case Way::kTall: return MultiplyTall<T>(means, s, done);
    case Way::kGram: return MultiplyGram<T>(means, s, done);
    case Way::kSmall: MultiplySmall<T>(means, *FindTileKernel<T>(s.n), s, done); return {};
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

#define WEFT_INSTANTIATE(T)                              \
  template int64_t ScratchOfOne<T>(OneProduct, int64_t); \
  template Status MultiplyOne<T>(const Means&, OneProduct, const RowsDone&);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE

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
