// Matrix products for dot and convolution: C = A B for a batch of matrices, in blocks that depend
// on the sizes alone, so that results do not depend on the number of threads. Matrices come from
// sources that give blocks of elements in the type computed in, so that neither conversion nor the
// windows of a convolution need memory of their own.
//
// Types computed in: double (all real floats: products of two f32 are exact in it), uint32_t and
// uint64_t (integers, which wrap), std::complex<double>.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/literal.h"

namespace weft::hlo {

template <class T>
class MatrixSource {
 public:
  virtual ~MatrixSource() = default;
  // Writes the block of rows x cols elements at (row, col) of one matrix to `out`, row-major.
  virtual void Load(int64_t batch, int64_t row, int64_t rows, int64_t col, int64_t cols,
                    T* out) const = 0;
};

// n elements of any dtype to and from the type computed in.
template <class T>
void LoadElements(DType from, const std::byte* src, int64_t n, T* dst);
template <class T>
void StoreElements(DType to, const T* src, int64_t n, std::byte* dst);

// Matrices in an array: rows are contiguous, `row_stride` and `batch_stride` count elements.
struct DenseMatrices {
  DType dtype;
  int64_t row_stride, batch_stride;
  int64_t Offset(int64_t batch, int64_t row, int64_t col) const {
    return (batch * batch_stride + row * row_stride + col) * ByteWidth(dtype);
  }
};

template <class T>
class DenseSource : public MatrixSource<T> {
 public:
  DenseSource(DenseMatrices form, const std::byte* data) : form_(form), data_(data) {}
  void Load(int64_t batch, int64_t row, int64_t rows, int64_t col, int64_t cols,
            T* out) const override {
    for (int64_t r = 0; r < rows; ++r) {
      LoadElements<T>(form_.dtype, data_ + form_.Offset(batch, row + r, col), cols, out + r * cols);
    }
  }

 private:
  DenseMatrices form_;
  const std::byte* data_;
};

struct MatMulSizes {
  int64_t batch, m, n, k;
  bool exact = false;  // products of elements have no rounding error in the type computed in
};

// Whether products of floats of these types are exact in double.
inline bool HasExactProducts(DType a, DType b) {
  return IsFloat(a) && IsFloat(b) && a != DType::kF64 && b != DType::kF64;
}

// C(batch, m x n) = A(batch, m x k) B(batch, k x n).
template <class T>
void MatMul(const MatMulSizes& sizes, const MatrixSource<T>& a, const MatrixSource<T>& b,
            DenseMatrices c_form, std::byte* c);

// Calls fn.operator()<T>() with the type in which products of these operands are computed.
template <class Fn>
auto WithComputeType(DType a, DType b, DType result, Fn&& fn) {
  if (IsComplex(a) || IsComplex(b) || IsComplex(result)) {
    return fn.template operator()<std::complex<double>>();
  }
  if (IsFloat(a) || IsFloat(b) || IsFloat(result)) return fn.template operator()<double>();
  if (IsInteger(result) && BitWidth(result) <= 32) return fn.template operator()<uint32_t>();
  return fn.template operator()<uint64_t>();
}

}  // namespace weft::hlo
