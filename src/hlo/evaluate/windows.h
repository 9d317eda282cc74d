// Windows sliding over arrays: which elements each placement covers, and reduction over them.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/inline_vec.h"
#include "base/literal.h"
#include "hlo/attr_types.h"
#include "hlo/computation.h"

namespace weft::hlo {

class EvalContext;

// The elements of one dimension (of `size`) that placement i of a window covers: those `j` in
// [first, last) for which Covers(j). Padding and holes of dilation are left out.
class WindowRange {
 public:
  WindowRange() = default;  // of nothing
  WindowRange(const WindowDim& window, int64_t size, int64_t i);
  int64_t first() const { return first_; }
  int64_t last() const { return last_; }
  bool Covers(int64_t j) const { return offset(j) % window_dilation_ == 0; }
  bool IsDense() const { return window_dilation_ == 1; }

 private:
  int64_t offset(int64_t j) const { return j * base_dilation_ - start_; }
  int64_t start_ = 0, base_dilation_ = 1, window_dilation_ = 1;
  int64_t first_ = 0, last_ = 0;
};

// Calls fn(place) for the row-major place of each element that a placement covers, in order.
template <class Fn>
void ForEachInWindow(std::span<const WindowDim> window, std::span<const int64_t> sizes,
                     std::span<const int64_t> strides, std::span<const int64_t> placement,
                     const Fn& fn) {
  size_t rank = sizes.size();
  InlineVec<int64_t, 6> at(rank, 0);
  InlineVec<WindowRange, 6> ranges;
  int64_t place = 0;
  for (size_t d = 0; d < rank; ++d) {
    ranges.push_back(WindowRange(window[d], sizes[d], placement[d]));
    if (ranges[d].first() >= ranges[d].last()) return;
    at[d] = ranges[d].first();
    place += at[d] * strides[d];
  }
  for (;;) {
    bool covered = true;
    for (size_t d = 0; d < rank; ++d) covered = covered && ranges[d].Covers(at[d]);
    if (covered) fn(place);
    size_t d = rank;
    for (;;) {
      if (d-- == 0) return;
      place += strides[d];
      if (++at[d] < ranges[d].last()) break;
      place -= (at[d] - ranges[d].first()) * strides[d];
      at[d] = ranges[d].first();
    }
  }
}

// out[k][o] = f(init[k], the elements of arrays[k] that placement o covers). sizes are the run-time
// sizes of the arrays' dimensions.
Status ReduceWindows(EvalContext& context, const Computation& function, const Window& window,
                     std::span<const Literal> arrays, std::span<const Literal> inits,
                     std::span<const int64_t> sizes, std::span<Literal> out);

}  // namespace weft::hlo
