// gemm: packed and tiled; small, skinny and matrix-vector products work on the operands as they
// lie in memory.
#include <algorithm>

#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"
#include "cpu/routines/tiles.h"

namespace weft::cpu {
namespace {

constexpr int64_t kDirectDepth = 512;  // of products without packing: what is used again is in L2

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

// One product of f32 or f64 matrices without packing; false when that is not the way.
template <class T>
bool MultiplyInPlace(ThreadPool* pool, const GemmShape& s, const T* a, OperandStrides as,
                     const T* b, OperandStrides bs, T* c) {
  T alpha = static_cast<T>(s.alpha), beta = static_cast<T>(s.beta);
  double cost = static_cast<double>(s.k) / 8;
  if (s.n == 1 && as.col == 1 && bs.row == 1) {
    ForPieces(pool, s.m, cost, [&](int64_t begin, int64_t end) {
      FindTileKernel<T>(INT64_MAX)->rows_times_vector(end - begin, s.k, a + begin * as.row, as.row,
                                                      b, c + begin, 1, alpha, beta);
    });
    return true;
  }
  if (s.m == 1 && bs.row == 1 && as.col == 1) {
    ForPieces(pool, s.n, cost, [&](int64_t begin, int64_t end) {
      FindTileKernel<T>(INT64_MAX)->rows_times_vector(end - begin, s.k, b + begin * bs.col, bs.col,
                                                      a, c + begin, 1, alpha, beta);
    });
    return true;
  }
  const TileKernel<T>* kernel = FindTileKernel<T>(s.n);
  bool small = s.m * s.n * s.k <= int64_t{72} * 72 * 72 || s.m <= 8;
  if (kernel == nullptr || bs.col != 1 || !small) return false;
  // Columns are cut in pieces of whole vectors.
  int64_t strips = std::max<int64_t>(1, s.n / 64);
  ForPieces(pool, strips, cost * 64 * static_cast<double>(s.m) / 2,
            [&](int64_t begin, int64_t end) {
              int64_t j0 = begin * 64, j1 = end == strips ? s.n : end * 64;
              for (int64_t p = 0; p == 0 || p < s.k; p += kDirectDepth) {
                kernel->direct(s.m, j1 - j0, std::min(kDirectDepth, s.k - p), a + p * as.col,
                               as.row, as.col, b + p * bs.row + j0, bs.row, c + j0, s.n, alpha,
                               p == 0 ? beta : T(1));
              }
            });
  return true;
}

template <class T>
Status MultiplyOne(ThreadPool* pool, const GemmShape& s, const std::byte* a, const std::byte* b,
                   std::byte* c) {
  OperandStrides as = s.trans_a ? OperandStrides{1, s.m} : OperandStrides{s.k, 1};
  OperandStrides bs = s.trans_b ? OperandStrides{1, s.k} : OperandStrides{s.n, 1};
  T alpha = static_cast<T>(s.alpha), beta = static_cast<T>(s.beta);
  if constexpr (std::is_floating_point_v<T>) {
    if (IsComplex(s.c)) {
      ComplexPanels<T> left(reinterpret_cast<const T*>(a), as.row, as.col, false);
      ComplexPanels<T> right(reinterpret_cast<const T*>(b), bs.col, bs.row, true);
      return Multiply<T>(pool, s.m, 2 * s.n, 2 * s.k, left, right, reinterpret_cast<T*>(c), 2 * s.n,
                         alpha, beta);
    }
    if (IsStoredAs<T>(s.a) && IsStoredAs<T>(s.b) && IsStoredAs<T>(s.c) &&
        MultiplyInPlace(pool, s, reinterpret_cast<const T*>(a), as, reinterpret_cast<const T*>(b),
                        bs, reinterpret_cast<T*>(c))) {
      return {};
    }
  }
  StridedPanels<T> left(s.a, a, as.row, as.col), right(s.b, b, bs.col, bs.row);
  if (IsStoredAs<T>(s.c)) {
    return Multiply<T>(pool, s.m, s.n, s.k, left, right, reinterpret_cast<T*>(c), s.n, alpha, beta);
  }
  auto wide = TRY(Scratch<T>::New(s.m * s.n));
  if (s.beta != 0) LoadRun<T>(s.c, c, s.m * s.n, wide.data());
  TRY(Multiply<T>(pool, s.m, s.n, s.k, left, right, wide.data(), s.n, alpha, beta));
  ForPieces(pool, s.m, static_cast<double>(s.n), [&](int64_t begin, int64_t end) {
    StoreRun<T>(s.c, wide.data() + begin * s.n, (end - begin) * s.n,
                c + begin * s.n * ByteWidth(s.c));
  });
  return {};
}

class Gemm : public PreparedRoutine {
 public:
  explicit Gemm(const GemmShape& shape) : shape_(shape) {}

  Status Run(const RoutineContext& context) const override {
    const GemmShape& s = shape_;
    double cost = static_cast<double>(s.m * s.n) * static_cast<double>(s.k) / 20 + 100;
    // Many small products are shared out whole, large ones are cut.
    bool whole = s.batch > 1 && (cost < 200e3 || s.batch >= 32);
    ThreadPool* inner = whole ? nullptr : &context.pool;
    Status result;
    Mutex mutex;
    auto run = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Status status = One(inner, context, i);
        if (status) continue;
        MutexLock lock(mutex);
        result = status;
      }
    };
    if (whole) {
      ForPieces(&context.pool, s.batch, cost, run);
    } else {
      run(0, s.batch);
    }
    return result;
  }

 private:
  Status One(ThreadPool* pool, const RoutineContext& context, int64_t i) const {
    const GemmShape& s = shape_;
    return WithSumType(s.c, [&]<class T>() {
      return MultiplyOne<T>(pool, s, context.memory[0] + i * s.m * s.k * ByteWidth(s.a),
                            context.memory[1] + i * s.k * s.n * ByteWidth(s.b),
                            context.memory[2] + i * s.m * s.n * ByteWidth(s.c));
    });
  }

  GemmShape shape_;
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
  return std::make_unique<Gemm>(s);
}

}  // namespace weft::cpu
