#include "runtime/compare.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

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
  switch (dtype) {
    case DType::kF64:
    case DType::kC128: return 53;
    case DType::kF32:
    case DType::kC64: return 24;
    case DType::kF16: return 11;
    case DType::kBF16: return 8;
    default: return 2;
  }
}

// The distance to the next number of the type beyond |x|.
double UlpAt(DType dtype, double x) {
  x = std::abs(x);
  int exponent = 0;
  std::frexp(std::max(x, SmallestNormal(dtype)), &exponent);
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

Difference Compare(DType dtype, std::span<const std::byte> wanted, std::span<const std::byte> got,
                   double slack, double scale) {
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
      auto apart = [&](double a, double b) {
        if (a == b || (std::isnan(a) && std::isnan(b))) return false;
        double distance = std::abs(a - b);
        if (FloatMode::Flushes() && distance <= SmallestNormal(dtype)) return false;
        double far = distance / UlpAt(dtype, a);
        ulps = std::max(ulps, std::isfinite(far) ? far : std::numeric_limits<double>::infinity());
        return !(distance <= slack * UlpAt(dtype, std::max(std::abs(a), scale)));
      };
      bool real = apart(x.real(), y.real()), imaginary = apart(x.imag(), y.imag());
      differs = real || imaginary;
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
