// householder_qr and householder_product: reflectors applied row by row, in double precision.
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

// Columns [first, n) of c become (I - tau v v^H) c, with v = (1, below the diagonal) in column j of
// a. Both are m x n; `sums` has room for n.
template <class T>
void ReflectColumns(const T* a, int64_t m, int64_t n, int64_t j, T tau, T* c, int64_t first,
                    T* sums) {
  if (tau == T()) return;
  std::copy(c + j * n + first, c + (j + 1) * n, sums);
  for (int64_t i = j + 1; i < m; ++i) {
    AddTimes(Conjugated(a[i * n + j]), c + i * n + first, n - first, sums);
  }
  AddTimes(-tau, sums, n - first, c + j * n + first);
  for (int64_t i = j + 1; i < m; ++i) {
    AddTimes(-tau * a[i * n + j], sums, n - first, c + i * n + first);
  }
}

// The reflector that maps column j, from the diagonal down, to (beta, 0, ...); v takes the place of
// the zeroes.
template <class T>
T NewReflector(T* a, int64_t m, int64_t n, int64_t j) {
  T alpha = a[j * n + j];
  double below = 0;
  for (int64_t i = j + 1; i < m; ++i) below = std::hypot(below, std::abs(a[i * n + j]));
  if (below == 0 && std::imag(alpha) == 0) return T();
  double norm = std::hypot(std::abs(alpha), below);
  double beta = std::real(alpha) >= 0 ? -norm : norm;
  for (int64_t i = j + 1; i < m; ++i) a[i * n + j] /= alpha - beta;
  a[j * n + j] = beta;
  return (beta - alpha) / beta;
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
    int64_t elements = (product_ ? 2 : 1) * s.m * s.n + s.k + s.n;
    int64_t bytes = IsComplex(s.dtype) ? int64_t{sizeof(std::complex<double>)} : 8;
    return std::min(threads, s.batch) * elements * bytes;
  }

 private:
  template <class T>
  Status RunPiece(const RoutineContext& context, int64_t begin, int64_t end) const {
    const HouseholderShape& s = shape_;
    int64_t size = s.m * s.n, bytes = ByteWidth(s.dtype);
    auto a = TRY(Scratch<T>::New(context.means(), size)),
         q = TRY(Scratch<T>::New(context.means(), product_ ? size : 0));
    auto taus = TRY(Scratch<T>::New(context.means(), s.k)),
         sums = TRY(Scratch<T>::New(context.means(), s.n));
    for (int64_t i = begin; i < end; ++i) {
      LoadMatrix(s.dtype, context.memory[0] + i * size * bytes, size, a.data());
      if (product_) {
        LoadMatrix(s.dtype, context.memory[1] + i * s.k * bytes, s.k, taus.data());
        std::fill_n(q.data(), size, T());
        for (int64_t d = 0; d < std::min(s.m, s.n); ++d) q.data()[d * s.n + d] = T(1);
        for (int64_t j = s.k; j-- > 0 && !CancelFlag::IsSet();) {
          // Columns before j are still those of the identity, which the reflector leaves alone.
          ReflectColumns(a.data(), s.m, s.n, j, taus.data()[j], q.data(), j, sums.data());
        }
        StoreMatrix(s.dtype, q.data(), size, context.memory[2] + i * size * bytes);
        continue;
      }
      for (int64_t j = 0; j < s.k && !CancelFlag::IsSet(); ++j) {
        T tau = NewReflector(a.data(), s.m, s.n, j);
        taus.data()[j] = tau;
        ReflectColumns(a.data(), s.m, s.n, j, Conjugated(tau), a.data(), j + 1, sums.data());
      }
      StoreMatrix(s.dtype, a.data(), size, context.memory[1] + i * size * bytes);
      StoreMatrix(s.dtype, taus.data(), s.k, context.memory[2] + i * s.k * bytes);
    }
    return {};
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
