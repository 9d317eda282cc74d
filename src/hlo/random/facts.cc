// What is known of the results of arithmetic: magnitudes and errors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "hlo/random/maker.h"

namespace weft::hlo::random {

double Epsilon(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kC128: return 0x1p-52;
    case DType::kF32:
    case DType::kC64: return 0x1p-23;
    case DType::kBF16: return 0x1p-7;
    case DType::kF16: return 0x1p-10;
    case DType::kF8E3M4: return 0x1p-4;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF6E3M2FN: return 0x1p-2;
    case DType::kF8E8M0FNU: return 1;
    case DType::kF4E2M1FN: return 0.5;
    default: return 0x1p-3;
  }
}

double Tiny(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kC128: return 1e-300;
    case DType::kF32:
    case DType::kC64:
    case DType::kBF16: return 1e-37;
    case DType::kF16: return 0x1p-24;
    case DType::kF8E3M4: return 0x1p-6;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ: return 0x1p-16;
    case DType::kF4E2M1FN: return 0.5;
    case DType::kF6E2M3FN: return 0x1p-3;
    case DType::kF6E3M2FN: return 0x1p-4;
    default: return 0x1p-9;
  }
}

double LargestExact(DType t) {
  if (!IsFloat(t) && !IsComplex(t)) return std::numeric_limits<double>::infinity();
  if (t == DType::kF8E3M4) return 15;
  if (t == DType::kF6E2M3FN) return 7;
  return 2 / Epsilon(t);
}

bool IsComputable(DType t) {
  return (IsFloat(t) && t != DType::kF8E8M0FNU) || IsComplex(t);
}

Known Maker::Sum(const Value& a, const Value& b) const {
  Known known = Unknown(a.dtype());
  known.magnitude = a.known.magnitude + b.known.magnitude;
  known.error = a.known.error + b.known.error;
  known.whole = a.known.whole && b.known.whole;
  bool fits = known.whole && known.magnitude <= LargestExact(a.dtype());
  bool rounds = known.error > 0 || a.known.product || b.known.product;
  if (rounds && !fits && (IsFloat(a.dtype()) || IsComplex(a.dtype()))) {
    known.error += 2 * Epsilon(a.dtype()) * known.magnitude + 2 * Tiny(a.dtype());
  }
  return known;
}

Known Maker::Product(const Value& a, const Value& b) const {
  Known known = Unknown(a.dtype());
  const Known &x = a.known, &y = b.known;
  bool real = IsFloat(a.dtype()) || IsComplex(a.dtype());
  known.magnitude = x.magnitude * y.magnitude * (IsComplex(a.dtype()) ? 2 : 1);
  known.whole = x.whole && y.whole;
  bool fits = known.whole && known.magnitude <= LargestExact(a.dtype());
  if (x.error > 0 || y.error > 0) {
    known.error = x.magnitude * y.error + y.magnitude * x.error + x.error * y.error +
                  Epsilon(a.dtype()) * known.magnitude + Tiny(a.dtype());
  } else if (IsComplex(a.dtype()) && !fits) {
    known.error = 4 * Epsilon(a.dtype()) * known.magnitude + Tiny(a.dtype());
  }
  known.product = real && !fits;
  return known;
}

Known Maker::Union(const Known& a, const Known& b) const {
  return {.magnitude = std::max(a.magnitude, b.magnitude),
          .error = std::max(a.error, b.error),
          // A bound in ULPs is for all elements, or for none.
          .ulps = (a.error == 0 || a.ulps > 0) && (b.error == 0 || b.ulps > 0)
                      ? std::max(a.ulps, b.ulps)
                      : 0,
          .whole = a.whole && b.whole,
          .product = a.product || b.product};
}

// The sum of `count` such values, in any order.
Known Maker::Folded(const Known& known, DType dtype, double count) const {
  Known sum = Unknown(dtype);
  if (!IsFloat(dtype) && !IsComplex(dtype)) return sum;
  sum.magnitude = known.magnitude * count;
  sum.whole = known.whole && sum.magnitude <= LargestExact(dtype);
  sum.error = known.error * count;
  if (!sum.whole || sum.error > 0) {
    sum.error += count * Epsilon(dtype) * sum.magnitude + count * Tiny(dtype);
  }
  return sum;
}

Known Maker::Inexact(double ulps, DType dtype, double magnitude) const {
  Known known = Unknown(dtype);
  known.magnitude = magnitude;
  known.ulps = ulps;
  known.error = ulps * Epsilon(dtype) * magnitude + Tiny(dtype);
  known.whole = false;
  return known;
}

}  // namespace weft::hlo::random
