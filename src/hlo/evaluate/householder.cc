// QR factors in LAPACK's form, and the orthogonal matrix of such a form. Both work in double
// precision, real or complex: H = I - tau v v^H with v = (1, below the diagonal), Q = H0 H1 ...
#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "base/thread_pool.h"
#include "hlo/evaluate/linalg.h"
#include "hlo/evaluate/matmul.h"

namespace weft::hlo {
namespace {

double ConjugateOf(double x) {
  return x;
}
std::complex<double> ConjugateOf(std::complex<double> x) {
  return std::conj(x);
}

// The reflector that maps column j of the m x n matrix, from the diagonal down, to (beta, 0, ...);
// v takes the place of the zeroes.
template <class T>
T MakeReflector(T* a, int64_t m, int64_t n, int64_t j) {
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

// Columns [first, n) of c (m x n) become (I - tau v v^H) c, with v in column j of a (m x width).
template <class T>
void ApplyReflector(const T* a, int64_t width, int64_t j, T tau, T* c, int64_t m, int64_t n,
                    int64_t first) {
  if (tau == T()) return;
  std::vector<T> sums(c + j * n, c + (j + 1) * n);  // v^H c
  for (int64_t i = j + 1; i < m; ++i) {
    T v = ConjugateOf(a[i * width + j]);
    for (int64_t k = first; k < n; ++k) sums[k] += v * c[i * n + k];
  }
  for (int64_t k = first; k < n; ++k) c[j * n + k] -= tau * sums[k];
  for (int64_t i = j + 1; i < m; ++i) {
    T v = tau * a[i * width + j];
    for (int64_t k = first; k < n; ++k) c[i * n + k] -= v * sums[k];
  }
}

template <class T>
void FactorMatrix(std::vector<T>& a, int64_t m, int64_t n, std::vector<T>& taus) {
  for (int64_t j = 0; j < std::min(m, n); ++j) {
    taus[j] = MakeReflector(a.data(), m, n, j);
    ApplyReflector(a.data(), n, j, ConjugateOf(taus[j]), a.data(), m, n, j + 1);
  }
}

template <class T>
void ProductMatrix(const std::vector<T>& a, int64_t m, int64_t n, const std::vector<T>& taus,
                   std::vector<T>& q) {
  std::fill(q.begin(), q.end(), T());
  for (int64_t i = 0; i < std::min(m, n); ++i) q[i * n + i] = T(1);
  for (int64_t j = static_cast<int64_t>(taus.size()); j-- > 0;) {
    ApplyReflector(a.data(), n, j, taus[j], q.data(), m, n, j);
  }
}

// Calls fn.operator()<T>() with double or complex<double>, when the type is a float or complex.
template <class Fn>
void WithReflectorType(DType dtype, Fn&& fn) {
  IsComplex(dtype) ? fn.template operator()<std::complex<double>>()
                   : fn.template operator()<double>();
}

bool IsMatrixType(DType dtype) {
  return IsFloat(dtype) || IsComplex(dtype);
}

}  // namespace

Result<std::optional<Literal>> QrFactors(const Literal& operand) {
  const Shape& shape = operand.shape();
  if (!shape.IsArray() || shape.rank() < 2 || !IsMatrixType(shape.dtype())) return std::nullopt;
  int64_t m = shape.dim(shape.rank() - 2), n = shape.dim(shape.rank() - 1), k = std::min(m, n);
  Shape taus_shape(shape.dtype(), std::span(shape.dims()).first(shape.dims().size() - 2));
  taus_shape.AppendDim(k);
  Literal factors = TRY(Literal::Allocate(Shape(shape.dtype(), shape.dims())));
  Literal taus = TRY(Literal::Allocate(taus_shape));
  std::byte *factor_data = factors.mutable_data(), *tau_data = taus.mutable_data();
  int64_t width = ByteWidth(shape.dtype()), count = m * n == 0 ? 0 : operand.size() / (m * n);
  WithReflectorType(shape.dtype(), [&]<class T>() {
    DefaultPool().ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> a(static_cast<size_t>(m * n)), tau(static_cast<size_t>(k));
      for (int64_t i = begin; i < end; ++i) {
        LoadElements<T>(shape.dtype(), operand.data() + i * m * n * width, m * n, a.data());
        FactorMatrix(a, m, n, tau);
        StoreElements<T>(shape.dtype(), a.data(), m * n, factor_data + i * m * n * width);
        StoreElements<T>(shape.dtype(), tau.data(), k, tau_data + i * k * width);
      }
    });
  });
  return Literal::Tuple({std::move(factors), std::move(taus)});
}

Result<std::optional<Literal>> HouseholderProduct(const Literal& factors, const Literal& taus) {
  const Shape& shape = factors.shape();
  if (!shape.IsArray() || shape.rank() < 2 || !IsMatrixType(shape.dtype()) ||
      taus.dtype() != shape.dtype() || taus.shape().rank() != shape.rank() - 1) {
    return std::nullopt;
  }
  int64_t m = shape.dim(shape.rank() - 2), n = shape.dim(shape.rank() - 1);
  int64_t k = taus.shape().dim(taus.shape().rank() - 1);
  int64_t count = m * n == 0 ? 0 : factors.size() / (m * n);
  if (k > std::min(m, n) || (m * n != 0 && taus.size() != count * k)) {
    return InvalidArgument("householder product: ", shape.ToStringWithoutLayout(), " with ",
                           taus.shape().ToStringWithoutLayout());
  }
  Literal out = TRY(Literal::Allocate(Shape(shape.dtype(), shape.dims())));
  std::byte* out_data = out.mutable_data();
  int64_t width = ByteWidth(shape.dtype());
  WithReflectorType(shape.dtype(), [&]<class T>() {
    DefaultPool().ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> a(static_cast<size_t>(m * n)), q(a.size()), tau(static_cast<size_t>(k));
      for (int64_t i = begin; i < end; ++i) {
        LoadElements<T>(shape.dtype(), factors.data() + i * m * n * width, m * n, a.data());
        LoadElements<T>(shape.dtype(), taus.data() + i * k * width, k, tau.data());
        ProductMatrix(a, m, n, tau, q);
        StoreElements<T>(shape.dtype(), q.data(), m * n, out_data + i * m * n * width);
      }
    });
  });
  return out;
}

}  // namespace weft::hlo
