// Products of complex matrices as products of real ones.
#include "cpu/routines/gemm_product.h"

namespace weft::cpu {
namespace {

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

}  // namespace

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

#define WEFT_INSTANTIATE(T)                                       \
  template int64_t ComplexScratch<T>(const OneProduct&, int64_t); \
  template Status MultiplyComplex<T>(const Means&, const OneProduct&, const RowsDone&);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
