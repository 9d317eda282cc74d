#include "hlo/ops/array_rules.h"

#include <tuple>

#include "base/float_formats.h"
#include "hlo/computation.h"

namespace weft::hlo {
namespace {

// Range first, then precision.
std::tuple<int, int, int> PrecisionRank(DType t) {
  FloatFormat f = FormatOf(RealType(t));
  int top = f.bits == 0 ? 0 : (1 << f.exponent_bits) - f.bias;
  return {top, f.mantissa_bits, static_cast<int>(t)};
}

Result<int64_t> DilatedSize(Op op, int64_t size, int64_t dilation) {
  if (size <= 0) return 0;
  int64_t product = 0;
  if (__builtin_mul_overflow(size - 1, dilation, &product) ||
      product == std::numeric_limits<int64_t>::max()) {
    return InvalidArgument(Mnemonic(op), ": dimension of ", size, " dilated by ", dilation,
                           " is too large");
  }
  return product + 1;
}

}  // namespace

Status ExpectArray(Op op, std::string_view what, const Shape& shape) {
  if (shape.IsArray()) return {};
  return InvalidArgument(Mnemonic(op), ": ", what, " must be an array, got ",
                         shape.ToStringWithoutLayout());
}

Shape WithType(const Shape& shape, DType dtype) {
  Shape result(dtype, shape.dims());
  for (int64_t i = 0; i < shape.rank(); ++i) result.set_dynamic(i, shape.is_dynamic(i));
  return result;
}

bool SameTypeUpToPrecision(DType a, DType b) {
  return a == b || (IsFloat(a) && IsFloat(b));
}

DType MorePrecise(DType a, DType b) {
  return PrecisionRank(a) < PrecisionRank(b) ? b : a;
}

bool DimsAgree(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int64_t i = 0; i < a.rank(); ++i) {
    if (a.dim(i) != b.dim(i) && !a.is_unbounded(i) && !b.is_unbounded(i)) return false;
  }
  return true;
}

bool ShapesAgree(const Shape& a, const Shape& b) {
  if (a.IsTuple() || b.IsTuple()) {
    if (!a.IsTuple() || !b.IsTuple() || a.tuple_size() != b.tuple_size()) return false;
    for (int64_t i = 0; i < a.tuple_size(); ++i) {
      if (!ShapesAgree(a.tuple_element(i), b.tuple_element(i))) return false;
    }
    return true;
  }
  if (!a.IsArray()) return a.dtype() == b.dtype();
  return SameTypeUpToPrecision(a.dtype(), b.dtype()) && DimsAgree(a, b);
}

Shape MergeDims(const Shape& a, const Shape& b) {
  Shape result = WithType(a, a.dtype());
  for (int64_t i = 0; i < a.rank(); ++i) {
    if (a.dim(i) == b.dim(i)) {
      result.set_dynamic(i, a.is_dynamic(i) || b.is_dynamic(i));
    } else if (a.is_unbounded(i)) {
      result.set_dim(i, b.dim(i));
      result.set_dynamic(i, b.is_dynamic(i));
    }
  }
  return result;
}

Result<int64_t> WindowedSize(Op op, int64_t size, const WindowDim& w) {
  if (w.size <= 0 || w.stride <= 0 || w.base_dilation <= 0 || w.window_dilation <= 0) {
    return InvalidArgument(
        Mnemonic(op), ": window sizes, strides and dilations must be positive, got size ", w.size,
        ", stride ", w.stride, ", dilations ", w.base_dilation, " and ", w.window_dilation);
  }
  int64_t base = TRY(DilatedSize(op, size, w.base_dilation));
  int64_t window = TRY(DilatedSize(op, w.size, w.window_dilation));
  if (__builtin_add_overflow(base, w.pad_low, &base) ||
      __builtin_add_overflow(base, w.pad_high, &base)) {
    return InvalidArgument(Mnemonic(op), ": padding of ", w.pad_low, "_", w.pad_high,
                           " is too large");
  }
  if (base < 0) {
    return InvalidArgument(Mnemonic(op), ": padding of ", w.pad_low, "_", w.pad_high,
                           " takes more away than a dimension of ", size, " has");
  }
  if (base == 0 || window > base) return 0;
  return (base - window) / w.stride + 1;
}

Result<Shape> WindowedShape(Op op, const Shape& base, const Window& window, DType dtype) {
  if (static_cast<int64_t>(window.dims.size()) != base.rank()) {
    return InvalidArgument(Mnemonic(op), ": window of ", window.dims.size(),
                           " dimensions for an operand ", base.ToStringWithoutLayout());
  }
  Shape result = WithType(base, dtype);
  for (int64_t i = 0; i < base.rank(); ++i) {
    int64_t size = TRY(WindowedSize(op, base.is_unbounded(i) ? 1 : base.dim(i),
                                    window.dims[static_cast<size_t>(i)]));
    if (!base.is_unbounded(i)) result.set_dim(i, size);
  }
  return result;
}

Status ExpectComputation(Op op, std::string_view what, const Computation* computation,
                         int64_t parameters) {
  if (computation == nullptr || computation->root() == nullptr) {
    return InvalidArgument(Mnemonic(op), ": ", what, " is missing");
  }
  auto params = computation->parameters();
  if (static_cast<int64_t>(params.size()) != parameters) {
    return InvalidArgument(Mnemonic(op), ": ", what, " ", computation->name(), " must take ",
                           parameters, " parameters, takes ", params.size());
  }
  for (const Instruction* p : params) {
    if (p == nullptr) {
      return InvalidArgument(Mnemonic(op), ": ", what, " ", computation->name(),
                             " lacks a parameter number");
    }
  }
  return {};
}

Status CheckReducer(Op op, const Computation* computation, std::span<const Shape* const> inits,
                    std::span<const DType> types) {
  int64_t n = static_cast<int64_t>(types.size());
  TRY(ExpectComputation(op, "reducer", computation, 2 * n));
  const Shape& root = computation->root()->shape();
  if (root.IsTuple() ? root.tuple_size() != n : n != 1 || !root.IsArray()) {
    return InvalidArgument(Mnemonic(op), ": reducer ", computation->name(), " must return ", n,
                           n == 1 ? " scalar" : " scalars in a tuple", ", returns ",
                           root.ToStringWithoutLayout());
  }
  for (int64_t i = 0; i < n; ++i) {
    const Shape& result = root.IsTuple() ? root.tuple_element(i) : root;
    const Shape& accumulator = computation->parameter(i)->shape();
    const Shape& value = computation->parameter(n + i)->shape();
    if (!result.IsScalar()) {
      return InvalidArgument(Mnemonic(op), ": reducer ", computation->name(),
                             " must return scalars, returns ", root.ToStringWithoutLayout());
    }
    if (!Shape::Compatible(result, accumulator)) {
      return InvalidArgument(Mnemonic(op), ": reducer ", computation->name(), ": parameter ", i,
                             " is ", accumulator.ToStringWithoutLayout(), " but the result is ",
                             result.ToStringWithoutLayout());
    }
    if (!ShapesAgree(result, *inits[i])) {
      return InvalidArgument(Mnemonic(op), ": initial value ", inits[i]->ToStringWithoutLayout(),
                             " does not fit reducer ", computation->name(), ", which returns ",
                             result.ToStringWithoutLayout());
    }
    if (!value.IsScalar() || !SameTypeUpToPrecision(value.dtype(), types[i]) ||
        !SameTypeUpToPrecision(value.dtype(), result.dtype())) {
      return InvalidArgument(Mnemonic(op), ": reducer ", computation->name(), ": parameter ", n + i,
                             " is ", value.ToStringWithoutLayout(), ", must be ", Name(types[i]),
                             "[] and match the result ", result.ToStringWithoutLayout());
    }
  }
  return {};
}

}  // namespace weft::hlo
