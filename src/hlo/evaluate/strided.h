// Copying N-dimensional blocks between arrays, whatever their element type. Strides count elements
// and may be 0 (repeat) or negative (reverse); elements are 1, 2, 4, 8 or 16 bytes wide.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/inline_vec.h"

namespace weft::hlo {

// Distance in elements between neighbours along each dimension of a dense row-major array.
Dims RowMajorStrides(const Dims& sizes);

// A copy prepared once and run for many blocks of the same form: dimensions of size 1 are dropped,
// dimensions that lie one after the other in both arrays are joined, and contiguous rows are moved
// with memcpy.
class StridedCopy {
 public:
  StridedCopy(const Dims& sizes, const Dims& from_strides, const Dims& to_strides, int64_t width);

  int64_t elements() const { return elements_; }
  // Copies one block whose first elements are *from and *to.
  void Run(const std::byte* from, std::byte* to) const;
  // The same, split over threads when it is large.
  void RunParallel(const std::byte* from, std::byte* to) const;

 private:
  struct Dim {
    int64_t size, from, to;
  };
  void RunRows(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const;

  InlineVec<Dim, 6> outer_;  // slowest first
  Dim tile_{1, 0, 0};        // of a transposition: the dimension along which `from` is contiguous
  Dim inner_{1, 1, 1};       // the fastest dimension of `to`
  int64_t width_, elements_ = 1, rows_ = 1;
};

// One copy, split over threads when it is large.
void CopyStrided(const Dims& sizes, const std::byte* from, const Dims& from_strides, std::byte* to,
                 const Dims& to_strides, int64_t width);

// n copies of one element.
void FillElements(std::byte* to, int64_t n, const std::byte* element, int64_t width);

}  // namespace weft::hlo
