#include "hlo/evaluate/linalg.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "base/thread_pool.h"
#include "hlo/attrs.h"
#include "hlo/evaluate/matmul.h"
#include "hlo/evaluate/result.h"
#include "hlo/instruction.h"

namespace weft::hlo {
namespace {

// Both work in double precision, real or complex.
double Conjugate(double x) {
  return x;
}
std::complex<double> Conjugate(std::complex<double> x) {
  return std::conj(x);
}
double RealPart(double x) {
  return x;
}
double RealPart(std::complex<double> x) {
  return x.real();
}

template <class Fn>
void WithFieldType(DType dtype, Fn&& fn) {
  IsComplex(dtype) ? fn.template operator()<std::complex<double>>()
                   : fn.template operator()<double>();
}

// The lower factor of the n x n matrix in place; the upper triangle becomes 0. False: not positive
// definite.
template <class T>
bool CholeskyInPlace(T* a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = j; i < n; ++i) {
      T sum = a[i * n + j];
      for (int64_t k = 0; k < j; ++k) sum -= a[i * n + k] * Conjugate(a[j * n + k]);
      if (i == j) {
        double diagonal = RealPart(sum);
        if (!(diagonal > 0) || std::isinf(diagonal)) return false;
        a[j * n + j] = std::sqrt(diagonal);
      } else {
        a[i * n + j] = sum / RealPart(a[j * n + j]);
      }
    }
    for (int64_t i = 0; i < j; ++i) a[i * n + j] = T();
  }
  return true;
}

template <class T>
void CholeskyMatrix(DType dtype, const std::byte* from, int64_t n, bool lower, std::byte* to) {
  std::vector<T> a(static_cast<size_t>(n * n)), l(a.size());
  LoadElements<T>(dtype, from, n * n, a.data());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      l[i * n + j] = lower ? a[i * n + j] : Conjugate(a[j * n + i]);
    }
  }
  if (!CholeskyInPlace(l.data(), n)) {
    std::fill(l.begin(), l.end(), T(std::numeric_limits<double>::quiet_NaN()));
  } else if (!lower) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) a[i * n + j] = j > i ? Conjugate(l[j * n + i]) : T();
      a[i * n + i] = l[i * n + i];
    }
    l.swap(a);
  }
  StoreElements<T>(dtype, l.data(), n * n, to);
}

// Solves t x = b for a lower or upper triangular t (n x n) and m columns, in place of b.
template <class T>
void SolveInPlace(const std::vector<T>& t, int64_t n, int64_t m, bool lower, bool unit,
                  std::vector<T>& b) {
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = lower ? step : n - 1 - step;
    T* row = &b[static_cast<size_t>(i * m)];
    int64_t begin = lower ? 0 : i + 1, end = lower ? i : n;
    for (int64_t k = begin; k < end; ++k) {
      T factor = t[static_cast<size_t>(i * n + k)];
      const T* other = &b[static_cast<size_t>(k * m)];
      for (int64_t c = 0; c < m; ++c) row[c] -= factor * other[c];
    }
    if (unit) continue;
    T pivot = t[static_cast<size_t>(i * n + i)];
    for (int64_t c = 0; c < m; ++c) row[c] /= pivot;
  }
}

template <class T>
std::vector<T> Transposed(const std::vector<T>& a, int64_t rows, int64_t cols, bool conjugate) {
  std::vector<T> out(a.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      T x = a[static_cast<size_t>(i * cols + j)];
      out[static_cast<size_t>(j * rows + i)] = conjugate ? Conjugate(x) : x;
    }
  }
  return out;
}

// x op(a) = b is op(a)^T x^T = b^T.
template <class T>
void TriangularSolveMatrix(const TriangularSolveAttrs& attrs, DType dtype, const std::byte* a_from,
                           const std::byte* b_from, int64_t rows, int64_t cols, std::byte* to) {
  int64_t n = attrs.left_side ? rows : cols, m = attrs.left_side ? cols : rows;
  std::vector<T> a(static_cast<size_t>(n * n)), b(static_cast<size_t>(rows * cols));
  LoadElements<T>(dtype, a_from, n * n, a.data());
  LoadElements<T>(dtype, b_from, rows * cols, b.data());
  bool lower = attrs.lower;
  bool conjugate = attrs.transpose_a == TransposeA::kAdjoint;
  bool transpose = attrs.transpose_a == TransposeA::kTranspose || conjugate;
  if (transpose) a = Transposed(a, n, n, conjugate), lower = !lower;
  if (!attrs.left_side) {
    a = Transposed(a, n, n, false), lower = !lower;
    b = Transposed(b, rows, cols, false);
  }
  SolveInPlace(a, n, m, lower, attrs.unit_diagonal, b);
  if (!attrs.left_side) b = Transposed(b, cols, rows, false);
  StoreElements<T>(dtype, b.data(), rows * cols, to);
}

}  // namespace

Result<Literal> EvaluateCholesky(EvalContext& context, const Instruction& instruction,
                                 std::span<Literal> operands) {
  Literal a = TRY(ConvertedTo(std::move(operands[0]), instruction.shape().dtype()));
  Literal out = TRY(NewResult(context, instruction.shape()));
  if (out.size() == 0) return out;
  bool lower = instruction.attrs<CholeskyAttrs>().lower;
  int64_t n = out.shape().dims().back(), bytes = n * n * ByteWidth(out.dtype());
  std::byte* to = out.mutable_data();
  WithFieldType(out.dtype(), [&]<class T>() {
    DefaultPool().ParallelFor(
        out.size() / (n * n), 1 + 4096 / (n * n), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            CholeskyMatrix<T>(out.dtype(), a.data() + i * bytes, n, lower, to + i * bytes);
          }
        });
  });
  return out;
}

Result<Literal> EvaluateTriangularSolve(EvalContext& context, const Instruction& instruction,
                                        std::span<Literal> operands) {
  DType dtype = instruction.shape().dtype();
  Literal a = TRY(ConvertedTo(std::move(operands[0]), dtype));
  Literal b = TRY(ConvertedTo(std::move(operands[1]), dtype));
  Literal out = TRY(NewResult(context, instruction.shape()));
  if (out.size() == 0) return out;
  const TriangularSolveAttrs& attrs = instruction.attrs<TriangularSolveAttrs>();
  int64_t rank = out.shape().rank(), rows = out.shape().dim(rank - 2);
  int64_t cols = out.shape().dim(rank - 1), n = attrs.left_side ? rows : cols;
  int64_t width = ByteWidth(dtype);
  std::byte* to = out.mutable_data();
  WithFieldType(dtype, [&]<class T>() {
    DefaultPool().ParallelFor(
        out.size() / (rows * cols), 1 + 4096 / (rows * cols), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            TriangularSolveMatrix<T>(attrs, dtype, a.data() + i * n * n * width,
                                     b.data() + i * rows * cols * width, rows, cols,
                                     to + i * rows * cols * width);
          }
        });
  });
  return out;
}

}  // namespace weft::hlo
