#include "runtime/compare.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "base/float_formats.h"
#include "base/float_mode.h"
#include "base/literal.h"

namespace weft::runtime {

double SmallestNormal(DType dtype) {
  bool wide = dtype == DType::kF64 || dtype == DType::kC128;
  return wide ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

namespace {

// Bits of the significand, the leading one included.
int Precision(DType dtype) {
  return FormatOf(RealType(dtype)).mantissa_bits + 1;
}

// The distance to the next number of the type beyond |x|; subnormals have that of the least normal.
double UlpAt(DType dtype, double x) {
  int exponent = 0;
  std::frexp(std::max(std::abs(x), std::ldexp(1.0, 1 - FormatOf(RealType(dtype)).bias)), &exponent);
  return std::ldexp(1.0, exponent - Precision(dtype));
}

Literal AsLiteral(DType dtype, std::span<const std::byte> bytes) {
  int64_t n = static_cast<int64_t>(bytes.size()) / std::max<int64_t>(ByteWidth(dtype), 1);
  Literal value = Literal::Uninitialized(Shape(dtype, {n}));
  if (!bytes.empty()) std::memcpy(value.mutable_data(), bytes.data(), bytes.size());
  return value;
}

bool IsNumber(DType dtype) {
  return IsFloat(dtype) || IsComplex(dtype);
}

}  // namespace

std::string Difference::ToString(int64_t elements) const {
  char apart[32];
  std::snprintf(apart, sizeof(apart), "%.3g", ulps);
  std::string out = StrCat("element ", first, " is ", got, " and should be ", wanted);
  if (ulps > 0) StrAppend(out, " (", apart, " ULP apart)");
  StrAppend(out, ", ", count, " of ", elements, elements == 1 ? " differs" : " differ");
  return out;
}

double LargestOf(DType dtype, std::span<const std::byte> array) {
  if (!IsNumber(dtype)) return 0;
  Literal value = AsLiteral(dtype, array);
  double largest = 0;
  for (int64_t i = 0; i < value.size(); ++i) {
    double x = std::abs(value.GetComplex(i));
    if (std::isfinite(x)) largest = std::max(largest, x);
  }
  return largest;
}

double SlackOf(DType dtype, bool long_sums) {
  int precision = Precision(dtype);
  if (precision >= 24) return long_sums ? 4096 : 64;
  return precision >= 8 ? 8 : 1;
}

namespace {

// One float beside another.
struct Distance {
  bool differs = false;
  double far = 0, ulps = 0;
};

// The least number of f8e8m0fnu is subnormal in f32, with which it is computed, and zero is NaN.
bool AreBelowNormal(DType dtype, double x, double y) {
  double least = SmallestNormal(dtype);
  return dtype == DType::kF8E8M0FNU && !(x > least) && !(y > least);
}

Distance DistanceOf(DType dtype, double x, double y, const Tolerance& tolerance) {
  if (x == y || (std::isnan(x) && std::isnan(y))) return {};
  Distance d{.far = std::abs(x - y)};
  if (FloatMode::Flushes() && (d.far <= SmallestNormal(dtype) || AreBelowNormal(dtype, x, y))) {
    return {};
  }
  double absolute = tolerance.ulps > 0 && std::isfinite(x) ? 0 : tolerance.absolute;
  if (!std::isfinite(d.far)) {
    return {!(d.far <= absolute), d.far, std::numeric_limits<double>::infinity()};
  }
  d.ulps = d.far / UlpAt(dtype, x);
  double size = std::max(std::abs(x), tolerance.scale);
  double units = tolerance.ulps > 0 ? tolerance.ulps * UlpAt(dtype, size) : 0;
  double part = tolerance.relative * std::max(1.0, std::abs(x));
  bool lost = std::abs(x) < tolerance.tiny && d.far < tolerance.tiny;
  d.differs = !lost && !(d.far <= std::max({units, part, absolute}));
  return d;
}

}  // namespace

Difference Compare(DType dtype, std::span<const std::byte> wanted, std::span<const std::byte> got,
                   const Tolerance& tolerance) {
  Difference difference;
  if (wanted.size() == got.size() &&
      (wanted.empty() || std::memcmp(wanted.data(), got.data(), wanted.size()) == 0)) {
    return difference;
  }
  Literal want = AsLiteral(dtype, wanted), have = AsLiteral(dtype, got);
  for (int64_t i = 0; i < std::min(want.size(), have.size()); ++i) {
    double ulps = 0;
    bool differs;
    if (IsNumber(dtype)) {
      std::complex<double> x = want.GetComplex(i), y = have.GetComplex(i);
      Distance real = DistanceOf(dtype, x.real(), y.real(), tolerance);
      Distance imaginary = DistanceOf(dtype, x.imag(), y.imag(), tolerance);
      differs = real.differs || imaginary.differs;
      ulps = std::max(real.ulps, imaginary.ulps);
      double far = std::abs(x - y);
      if (differs && std::isfinite(far)) difference.largest = std::max(difference.largest, far);
    } else {
      differs = want.GetInt(i) != have.GetInt(i);
    }
    if (!differs) continue;
    if (difference.count++ > 0) continue;
    difference.first = i;
    difference.ulps = ulps;
    want.AppendElement(difference.wanted, i);
    have.AppendElement(difference.got, i);
  }
  return difference;
}

}  // namespace weft::runtime
