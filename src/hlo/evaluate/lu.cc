// LU factors with partial pivoting, in double precision.
#include <cmath>
#include <complex>
#include <vector>

#include "hlo/evaluate/linalg.h"
#include "hlo/evaluate/matmul.h"

namespace weft::hlo {
namespace {

// What pivots are chosen by: LAPACK's measure for complex numbers is not their absolute value.
double PivotSize(double x) {
  return std::fabs(x);
}
double PivotSize(std::complex<double> x) {
  return std::fabs(x.real()) + std::fabs(x.imag());
}

// In place of the m x n matrix: U above, L without its diagonal of ones below. Row i was swapped
// with row pivots[i] - 1, in order. Returns the number of the first pivot that is 0, from 1; 0:
// none is.
template <class T>
int32_t LuInPlace(T* a, int64_t m, int64_t n, int32_t* pivots) {
  int32_t info = 0;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < m; ++i) {
      if (PivotSize(a[i * n + k]) > PivotSize(a[best * n + k])) best = i;
    }
    pivots[k] = static_cast<int32_t>(best + 1);
    if (best != k) std::swap_ranges(a + k * n, a + (k + 1) * n, a + best * n);
    T pivot = a[k * n + k];
    if (pivot == T()) {
      if (info == 0) info = static_cast<int32_t>(k + 1);
      continue;
    }
    for (int64_t i = k + 1; i < m; ++i) {
      T factor = a[i * n + k] / pivot;
      a[i * n + k] = factor;
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return info;
}

template <class T>
void LuOfEach(const Literal& operand, Literal& lu, Literal& pivots, Literal& info) {
  const Shape& shape = operand.shape();
  int64_t m = shape.dim(shape.rank() - 2), n = shape.dim(shape.rank() - 1);
  int64_t bytes = m * n * ByteWidth(shape.dtype()), steps = std::min(m, n);
  std::vector<T> a(static_cast<size_t>(m * n));
  std::byte* to = lu.mutable_data();
  int32_t* pivot = pivots.values<int32_t>().data();
  for (int64_t i = 0; i < info.size(); ++i) {
    LoadElements<T>(shape.dtype(), operand.data() + i * bytes, m * n, a.data());
    info.values<int32_t>()[static_cast<size_t>(i)] = LuInPlace(a.data(), m, n, pivot + i * steps);
    StoreElements<T>(shape.dtype(), a.data(), m * n, to + i * bytes);
  }
}

}  // namespace

Result<std::optional<Literal>> LuFactors(const Literal& operand) {
  const Shape& shape = operand.shape();
  if (!shape.IsArray() || shape.rank() < 2 ||
      (!IsFloat(shape.dtype()) && !IsComplex(shape.dtype()))) {
    return std::nullopt;
  }
  Shape batch(DType::kS32, std::span(shape.dims()).first(static_cast<size_t>(shape.rank() - 2)));
  Shape steps = batch;
  steps.AppendDim(std::min(shape.dim(shape.rank() - 2), shape.dim(shape.rank() - 1)));
  Literal lu = TRY(Literal::Allocate(Shape(shape.dtype(), shape.dims())));
  Literal pivots = TRY(Literal::Allocate(steps)), info = TRY(Literal::Allocate(batch));
  if (operand.size() > 0) {
    IsComplex(shape.dtype()) ? LuOfEach<std::complex<double>>(operand, lu, pivots, info)
                             : LuOfEach<double>(operand, lu, pivots, info);
  }
  return Literal::Tuple({std::move(lu), std::move(pivots), std::move(info)});
}

}  // namespace weft::hlo
