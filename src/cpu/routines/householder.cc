// householder_qr and householder_product: reflectors applied column by column, in double precision.
#include <algorithm>
#include <cmath>
#include <complex>

#include "cpu/routines/field.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"

namespace weft::cpu {
namespace {

struct HouseholderShape {
  int64_t m, n, k, batch;
  DType dtype;
};

// Matrices are kept column by column, so that vectors run along reflectors, whatever the width.

// Columns [first, end) of c become (I - tau v v^H) c, with v = (1, below the diagonal) in column j
// of a. Columns of both have m elements.
template <class T>
void ReflectColumns(const T* a, int64_t m, int64_t j, T tau, T* c, int64_t first, int64_t end) {
  if (tau == T()) return;
  int64_t below = j + 1, count = m - below;
  const T* v = a + j * m + below;
  for (T* column = c + first * m; first < end; ++first, column += m) {
    T factor = -Times(tau, column[j] + DotConjugate(column + below, v, count));
    column[j] += factor;
    AddTimes(factor, v, count, column + below);
  }
}

// The root of the sum of squares; of elements whose squares are too large or too small, step by
// step.
template <class T>
double NormOf(const T* x, int64_t n) {
  // Sums of squares that nothing overflowed into, and nothing that counts was too small for.
  constexpr double kLeast = 0x1p-830, kMost = 0x1p830;
  double sum = std::real(DotConjugate(x, x, n));
  if ((sum > kLeast && sum < kMost) || std::isnan(sum)) return std::sqrt(sum);
  double norm = 0;
  for (int64_t i = 0; i < n; ++i) norm = std::hypot(norm, std::abs(x[i]));
  return norm;
}

// The reflector that maps column j, from the diagonal down, to (beta, 0, ...); v takes the place of
// the zeroes.
template <class T>
T NewReflector(T* a, int64_t m, int64_t j) {
  T *diagonal = a + j * m + j, alpha = *diagonal;
  int64_t count = m - j - 1;
  double below = NormOf(diagonal + 1, count);
  if (below == 0 && std::imag(alpha) == 0) return T();
  double norm = std::hypot(std::abs(alpha), below);
  double beta = std::real(alpha) >= 0 ? -norm : norm;
  for (int64_t i = 1; i <= count; ++i) diagonal[i] /= alpha - beta;
  *diagonal = beta;
  return (beta - alpha) / beta;
}

// `rows` rows of `from` become columns.
template <class T>
void Turn(const T* from, int64_t rows, int64_t cols, T* to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) to[j * rows + i] = from[i * cols + j];
  }
}

class Householder : public PreparedRoutine {
 public:
  Householder(const HouseholderShape& shape, bool product) : shape_(shape), product_(product) {}

  Status Run(const RoutineContext& context) const override {
    const HouseholderShape& s = shape_;
    if (s.m * s.n == 0) return {};
    double cost = static_cast<double>(s.m * s.n) * static_cast<double>(s.k);
    return TryPieces(&context.pool, s.batch, cost, [&](int64_t begin, int64_t end) -> Status {
      return IsComplex(s.dtype) ? RunPiece<std::complex<double>>(context, begin, end)
                                : RunPiece<double>(context, begin, end);
    });
  }

  int64_t ScratchBytes(int64_t threads) const override {
    const HouseholderShape& s = shape_;
    int64_t elements = (product_ ? 3 : 2) * s.m * s.n + s.k;
    int64_t bytes = IsComplex(s.dtype) ? int64_t{sizeof(std::complex<double>)} : 8;
    return std::min(threads, s.batch) * elements * bytes;
  }

 private:
  template <class T>
  Status RunPiece(const RoutineContext& context, int64_t begin, int64_t end) const {
    const HouseholderShape& s = shape_;
    int64_t size = s.m * s.n, bytes = ByteWidth(s.dtype);
    auto rows = TRY(Scratch<T>::New(context.means(), size)),
         a = TRY(Scratch<T>::New(context.means(), size)),
         q = TRY(Scratch<T>::New(context.means(), product_ ? size : 0));
    auto taus = TRY(Scratch<T>::New(context.means(), s.k));
    for (int64_t i = begin; i < end; ++i) {
      LoadMatrix(s.dtype, context.memory[0] + i * size * bytes, size, rows.data());
      Turn(rows.data(), s.m, s.n, a.data());
      std::byte* to = context.memory[product_ ? 2 : 1] + i * size * bytes;
      std::byte* taus_at = context.memory[product_ ? 1 : 2] + i * s.k * bytes;
      if (product_) {
        LoadMatrix(s.dtype, taus_at, s.k, taus.data());
        Multiply(a.data(), taus.data(), q.data());
      } else {
        Factor(a.data(), taus.data());
        StoreMatrix(s.dtype, taus.data(), s.k, taus_at);
      }
      Turn(product_ ? q.data() : a.data(), s.n, s.m, rows.data());
      StoreMatrix(s.dtype, rows.data(), size, to);
    }
    return {};
  }

  template <class T>
  void Factor(T* a, T* taus) const {
    const HouseholderShape& s = shape_;
    for (int64_t j = 0; j < s.k && !CancelFlag::IsSet(); ++j) {
      taus[j] = NewReflector(a, s.m, j);
      ReflectColumns(a, s.m, j, Conjugated(taus[j]), a, j + 1, s.n);
    }
  }

  template <class T>
  void Multiply(const T* a, const T* taus, T* q) const {
    const HouseholderShape& s = shape_;
    std::fill_n(q, s.m * s.n, T());
    for (int64_t d = 0; d < std::min(s.m, s.n); ++d) q[d * s.m + d] = T(1);
    for (int64_t j = s.k; j-- > 0 && !CancelFlag::IsSet();) {
      // Columns before j are still those of the identity, which the reflector leaves alone.
      ReflectColumns(a, s.m, j, taus[j], q, j, s.n);
    }
  }

  HouseholderShape shape_;
  bool product_;
};

Result<std::unique_ptr<PreparedRoutine>> PrepareHouseholder(const RoutineInputs& inputs,
                                                            bool product) {
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  int64_t m = program::IntAttr(call, "m", 0), n = program::IntAttr(call, "n", 0);
  HouseholderShape shape = {m, n, program::IntAttr(call, "k", std::min(m, n)),
                            program::IntAttr(call, "batch", 1), UseDType(inputs, 0)};
  return std::make_unique<Householder>(shape, product);
}

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareHouseholderQr(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "householder_qr"));
  return PrepareHouseholder(inputs, false);
}
Result<std::unique_ptr<PreparedRoutine>> PrepareHouseholderProduct(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "householder_product"));
  return PrepareHouseholder(inputs, true);
}

}  // namespace weft::cpu
