#include "hlo/evaluate/windows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/elements.h"
#include "base/thread_pool.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/plain_op.h"
#include "hlo/evaluate/reduction.h"

namespace weft::hlo {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t CeilDivide(int64_t a, int64_t b) {
  return -FloorDivide(-a, b);
}

bool IsTrivial(const WindowDim& w) {
  return w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0 && w.base_dilation == 1;
}

enum class Cumulative : uint8_t { kNo, kForward, kBackward };

// A window that covers everything up to (or from) its place, as cumulative sums are written.
Cumulative CumulativeKind(const WindowDim& w, int64_t size) {
  if (w.stride != 1 || w.base_dilation != 1 || w.window_dilation != 1 || w.size < size ||
      w.size < 2) {
    return Cumulative::kNo;
  }
  if (w.pad_low == w.size - 1 && w.pad_high == 0) return Cumulative::kForward;
  if (w.pad_high == w.size - 1 && w.pad_low == 0) return Cumulative::kBackward;
  return Cumulative::kNo;
}

// An array seen as [outer, size, inner] along one dimension.
struct Axis {
  int64_t outer, size, inner;
};
Axis AxisOf(std::span<const int64_t> dims, size_t d) {
  Axis axis{1, dims[d], 1};
  for (size_t i = 0; i < d; ++i) axis.outer *= dims[i];
  for (size_t i = d + 1; i < dims.size(); ++i) axis.inner *= dims[i];
  return axis;
}

template <class W>
void ScanAxis(const PlainOp<W>& op, const Axis& axis, int64_t outputs, bool backward, const W* in,
              W* out) {
  DefaultPool().ParallelFor(axis.outer, 1, [&](int64_t begin, int64_t end) {
    std::vector<W> acc(static_cast<size_t>(axis.inner));
    for (int64_t o = begin; o < end; ++o) {
      const W* from = in + o * axis.size * axis.inner;
      W* to = out + o * outputs * axis.inner;
      std::fill(acc.begin(), acc.end(), op.identity);
      if (axis.inner == 1 && !backward) {
        op.scan(acc.data(), from, outputs, to);
        continue;
      }
      for (int64_t i = 0; i < outputs; ++i) {
        int64_t at = (backward ? outputs - 1 - i : i) * axis.inner;
        op.combine(acc.data(), from + at, axis.inner);
        std::copy(acc.begin(), acc.end(), to + at);
      }
    }
  });
}

// One dimension of a plain reduction: `in` is [outer, size, inner], `out` [outer, outputs, inner].
// `valid` elements of the dimension are there at run time.
template <class W>
void ReduceAxis(const PlainOp<W>& op, const WindowDim& window, const Axis& axis, int64_t valid,
                int64_t outputs, const W* in, W* out) {
  Cumulative kind = CumulativeKind(window, axis.size);
  if (kind != Cumulative::kNo && valid == axis.size && outputs == axis.size) {
    return ScanAxis(op, axis, outputs, kind == Cumulative::kBackward, in, out);
  }
  int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, axis.inner));
  DefaultPool().ParallelFor(axis.outer * outputs, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const W* from = in + row / outputs * axis.size * axis.inner;
      W* to = out + row * axis.inner;
      std::fill(to, to + axis.inner, op.identity);
      WindowRange range(window, valid, row % outputs);
      if (axis.inner == 1 && range.IsDense() && range.first() < range.last()) {
        *to = op.fold(from + range.first(), range.last() - range.first());
        continue;
      }
      for (int64_t j = range.first(); j < range.last(); ++j) {
        if (range.Covers(j)) op.combine(to, from + j * axis.inner, axis.inner);
      }
    }
  });
}

// Plain ops: one dimension after the other, those that shrink the array most first, so that nothing
// on the way is larger than both ends.
template <class W>
void ReduceWindowsPlain(const PlainOp<W>& op, const Window& window, const Literal& array, W init,
                        std::span<const int64_t> sizes, Literal& out) {
  std::vector<W> values(static_cast<size_t>(array.size()));
  LoadWide(array.dtype(), array.data(), array.size(), values.data());
  Dims dims = array.shape().dims();
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto growth = [&](size_t d) {
    return static_cast<double>(out.shape().dim(d)) / static_cast<double>(array.shape().dim(d));
  };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::pair(growth(a), a) < std::pair(growth(b), b); });
  for (size_t d : order) {
    if (IsTrivial(window.dims[d]) && sizes[d] == dims[d]) continue;
    Axis axis = AxisOf(dims, d);
    int64_t outputs = out.shape().dim(static_cast<int64_t>(d));
    std::vector<W> next(static_cast<size_t>(axis.outer * outputs * axis.inner));
    ReduceAxis(op, window.dims[d], axis, sizes[d], outputs, values.data(), next.data());
    values = std::move(next);
    dims[d] = outputs;
  }
  std::vector<W> start(values.size(), init);
  op.combine(start.data(), values.data(), static_cast<int64_t>(values.size()));
  StoreWide(out.dtype(), start.data(), out.size(), out.mutable_data());
}

bool TryReduceWindowsPlain(const ScalarFunction& f, const Window& window, const Literal& array,
                           const Literal& init, std::span<const int64_t> sizes, Literal& out) {
  return WithPlainOp(f.commutative_op(), f.parameter_type(0), init,
                     [&](const auto& op, auto start) {
                       ReduceWindowsPlain<decltype(start)>(op, window, array, start, sizes, out);
                     });
}

std::byte* At(Literal& literal, int64_t i) {
  return literal.mutable_data() + i * ByteWidth(literal.dtype());
}
const std::byte* At(const Literal& literal, int64_t i) {
  return literal.data() + i * ByteWidth(literal.dtype());
}

// Any function, when the window is cumulative along one dimension and trivial along the others:
// rows of `inner` elements are lanes.
Status ScanWindows(ElementFunction& function, const Axis& axis, bool backward,
                   std::span<const Literal> arrays, std::span<const Literal> inits,
                   std::span<Literal> out) {
  size_t n = arrays.size();
  std::vector<ScalarFunction::In> in(2 * n);
  std::vector<ScalarFunction::Out> to(n);
  for (int64_t o = 0; o < axis.outer; ++o) {
    for (int64_t i = 0; i < axis.size; ++i) {
      int64_t step = backward ? axis.size - 1 - i : i;
      int64_t place = (o * axis.size + step) * axis.inner;
      int64_t before = place + (backward ? axis.inner : -axis.inner);
      for (size_t k = 0; k < n; ++k) {
        // Backward, the element stands before what was accumulated.
        ScalarFunction::In element{arrays[k].dtype(), At(arrays[k], place)};
        ScalarFunction::In acc{out[k].dtype(), At(std::as_const(out[k]), before)};
        if (i == 0) acc = {inits[k].dtype(), inits[k].data(), true};
        in[k] = backward ? element : acc;
        in[n + k] = backward ? acc : element;
        to[k] = {out[k].dtype(), At(out[k], place)};
      }
      if (axis.inner == 1 && i > 0) {
        TRY(function.Call(in, to));
      } else {
        TRY(function.CallMany(in, to, axis.inner));
      }
    }
  }
  return {};
}

Status ReduceEachWindow(ElementFunction& function, const Window& window,
                        std::span<const Literal> arrays, std::span<const Literal> inits,
                        std::span<const int64_t> sizes, std::span<Literal> out) {
  size_t n = arrays.size(), rank = sizes.size();
  Dims strides(rank, 1), placement(rank, 0);
  const Shape& shape = arrays[0].shape();
  for (size_t d = rank; d-- > 1;) {
    strides[d - 1] = strides[d] * shape.dim(static_cast<int64_t>(d));
  }
  std::vector<ScalarFunction::In> in(2 * n);
  std::vector<ScalarFunction::Out> to(n);
  for (int64_t o = 0; o < out[0].size(); ++o) {
    for (size_t k = 0; k < n; ++k) {
      to[k] = {out[k].dtype(), At(out[k], o)};
      in[k] = {out[k].dtype(), to[k].data};
      ConvertElements(inits[k].dtype(), inits[k].data(), to[k].dtype, to[k].data, 1);
    }
    Status status;
    ForEachInWindow(window.dims, sizes, strides, placement, [&](int64_t place) {
      if (!status) return;
      for (size_t k = 0; k < n; ++k) in[n + k] = {arrays[k].dtype(), At(arrays[k], place)};
      status = function.Call(in, to);
    });
    TRY(std::move(status));
    for (size_t d = rank; d-- > 0;) {
      if (++placement[d] < out[0].shape().dim(static_cast<int64_t>(d))) break;
      placement[d] = 0;
    }
  }
  return {};
}

}  // namespace

WindowRange::WindowRange(const WindowDim& w, int64_t size, int64_t i)
    : start_(i * w.stride - w.pad_low),
      base_dilation_(w.base_dilation),
      window_dilation_(w.window_dilation) {
  if (size == 0) return;
  // Places start_ + k * window_dilation of the dilated dimension, k < size of the window.
  int64_t end = start_ + (w.size - 1) * w.window_dilation;
  first_ = std::max<int64_t>(0, CeilDivide(start_, base_dilation_));
  last_ = std::min(size, FloorDivide(end, base_dilation_) + 1);
}

Status ReduceWindows(EvalContext& context, const Computation& function, const Window& window,
                     std::span<const Literal> arrays, std::span<const Literal> inits,
                     std::span<const int64_t> sizes, std::span<Literal> out) {
  if (out[0].size() == 0) return {};
  ElementFunction element(context, function);
  const ScalarFunction* f = element.compiled();
  if (f != nullptr && arrays.size() == 1 && arrays[0].size() > 0 &&
      TryReduceWindowsPlain(*f, window, arrays[0], inits[0], sizes, out[0])) {
    return {};
  }
  const Dims& dims = arrays[0].shape().dims();
  size_t working = 0, axis = 0;  // dimensions along which the window is not trivial
  for (size_t d = 0; d < dims.size(); ++d) {
    if (IsTrivial(window.dims[d])) continue;
    ++working;
    axis = d;
  }
  if (working == 1 && sizes[axis] == dims[axis]) {
    Cumulative kind = CumulativeKind(window.dims[axis], dims[axis]);
    if (kind != Cumulative::kNo) {
      return ScanWindows(element, AxisOf(dims, axis), kind == Cumulative::kBackward, arrays, inits,
                         out);
    }
  }
  return ReduceEachWindow(element, window, arrays, inits, sizes, out);
}

}  // namespace weft::hlo
